import Foundation
import SeededRandom
import TestSupport
import Testing

@testable import Entitlements

/// The meaning of a purchase's events at another store, whatever the order in which they came.
@Suite struct StoreEventTests {
  private static let start = Date(timeIntervalSince1970: 1_750_000_000)
  private static let day = 86_400.0
  private static let key = SubscriptionKey(environment: .production, originalTransactionID: "play_store:GPA.1")
  private static func rules() throws -> EntitlementRules {
    EntitlementRules(
      catalog: try Catalog(
        tiers: ["free", "pro", "premium"],
        products: [
          "pro.monthly": .init(tier: "pro"), "premium.monthly": .init(tier: "premium"),
          "forever": .init(tier: "premium", kind: .lifetime), "coins": .init(tier: "free", kind: .consumable),
        ]), policy: EntitlementPolicy(), sandbox: .accept)
  }

  private static func days(_ count: Double) -> Date { start.addingTimeInterval(count * day) }

  /// An event about a period of thirty days.
  private static func event(
    _ change: StoreEvent.Change, at days: Double, period number: Int = 0, product: ProductID = "pro.monthly",
    user: UserID = "anna", _ more: (inout StoreEvent) -> Void = { _ in }
  ) -> StoreEvent {
    var event = StoreEvent(id: "\(change.rawValue)-\(days)-\(number)", at: self.days(days), change: change, user: user)
    event.product = product
    event.transaction = TransactionID("GPA.1..\(number)")
    event.purchasedAt = self.days(Double(number) * 30)
    event.expiresAt = self.days(Double(number + 1) * 30)
    more(&event)
    return event
  }

  private static func verdict(_ events: [StoreEvent], at days: Double) throws -> String {
    guard let evidence = SubscriptionEvidence(events, of: key) else { return "nothing" }
    let verdict = try rules().evaluate("anna", [evidence], at: self.days(days).withNanoseconds)
    let until = verdict.accessUntil.map { " until \(Int(($0.timeIntervalSince(start) / day).rounded()))" } ?? ""
    return "\(verdict.tier) \(verdict.status.rawValue) \(verdict.reason.rawValue)\(until)"
      + (verdict.isStale ? " stale" : "")
  }

  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var events: [StoreEvent]
    var expected: [(at: Double, verdict: String)]
    var testDescription: String { name }

    init(_ name: String, _ events: [StoreEvent], _ expected: [(at: Double, verdict: String)]) {
      self.name = name
      self.events = events
      self.expected = expected
    }
  }

  static let cases: [Case] = [
    Case(
      "a purchase", [event(.period, at: 0)],
      [
        (1, "pro active renewing until 30"), (29.9, "pro active renewing until 30"),
        (31, "pro active renewing until 30 stale"), (36.9, "pro active renewing until 30 stale"),
        (37.1, "free expired unproven stale"),
      ]),
    Case(
      "a renewal", [event(.period, at: 0), event(.period, at: 30, period: 1)], [(31, "pro active renewing until 60")]),
    Case(
      "a renewal whose event was lost, and the next one",
      [event(.period, at: 0), event(.renewalOff, at: 40, period: 1)],
      [(41, "pro cancelled renewal_off until 60")]),
    Case(
      "renewal off", [event(.period, at: 0), event(.renewalOff, at: 5)], [(6, "pro cancelled renewal_off until 30")]),
    Case(
      "renewal on again", [event(.period, at: 0), event(.renewalOff, at: 5), event(.renewalOn, at: 7)],
      [(8, "pro active renewing until 30")]),
    Case(
      "an expiration an hour late",
      [event(.period, at: 0), event(.expired, at: 30.05) { $0.expirationIntent = 1 }],
      [(30.06, "free expired voluntary")]),
    Case(
      "an expiration that is told after the return",
      [
        event(.period, at: 0), event(.period, at: 30.02, period: 1) { $0.purchasedAt = days(30.02) },
        event(.expired, at: 30.05),
      ], [(31, "pro active renewing until 60")]),
    Case(
      "a refund", [event(.period, at: 0), event(.refunded, at: 3)],
      [(2, "free expired refunded"), (4, "free expired refunded")]),
    Case(
      "a refund that is taken back",
      [event(.period, at: 0), event(.refunded, at: 3), event(.expired, at: 3.1), event(.refundReversed, at: 5)],
      [(6, "pro active renewing until 30")]),
    Case(
      "grace", [event(.period, at: 0), event(.billingIssue, at: 30) { $0.graceUntil = days(36) }],
      [
        (31, "pro grace_period billing_grace until 36"), (37, "pro grace_period billing_grace until 36 stale"),
        (44, "free expired unproven stale"),
      ]),
    Case(
      "grace, and the trouble once more without its date",
      [
        event(.period, at: 0), event(.billingIssue, at: 30) { $0.graceUntil = days(36) }, event(.billingIssue, at: 32),
      ], [(33, "pro grace_period billing_grace until 36"), (37, "pro grace_period billing_grace until 36 stale")]),
    Case(
      "trouble without grace, told twice",
      [
        event(.period, at: 0), event(.billingIssue, at: 30), event(.billingError, at: 30.1),
      ], [(50, "pro grace_period billing_retry until 90")]),
    Case(
      "trouble, and its end", [event(.period, at: 0), event(.billingIssue, at: 30), event(.expired, at: 40)],
      [(39, "free expired unknown"), (41, "free expired unknown")]),
    Case(
      "trouble of an earlier period",
      [event(.period, at: 0), event(.period, at: 30, period: 1), event(.billingIssue, at: 31)],
      [(32, "pro active renewing until 60")]),
    Case(
      "a change of product is announced, and comes",
      [
        event(.period, at: 0), event(.productChange, at: 3) { $0.nextProduct = "premium.monthly" },
        event(.period, at: 30, period: 1, product: "premium.monthly"),
      ], [(31, "premium active renewing until 60")]),
    Case(
      "only announced", [event(.period, at: 0), event(.productChange, at: 3)], [(4, "pro active renewing until 30")]),
    Case(
      "a pause", [event(.period, at: 0), event(.paused, at: 3), event(.expired, at: 30)],
      [(29, "free expired unknown"), (31, "free expired unknown")]),
    Case(
      "an extension", [event(.period, at: 0), event(.extended, at: 3) { $0.expiresAt = days(45) }],
      [(40, "pro active renewing until 45")]),
    Case(
      "a purchase for life", [event(.single, at: 0, product: "forever") { $0.expiresAt = nil }],
      [(4_000, "premium active lifetime")]),
    Case(
      "a subscription without an end", [event(.single, at: 0) { $0.expiresAt = nil }],
      [(4_000, "pro active lifetime")]),
    Case(
      "once, with an end", [event(.single, at: 0)], [(1, "pro cancelled renewal_off until 30")]),
    Case(
      "a prepaid period, and its top-up",
      [event(.period, at: 0) { $0.isPrepaid = true }, event(.period, at: 20, period: 1) { $0.isPrepaid = true }],
      [(21, "pro cancelled renewal_off until 60")]),
    Case(
      "prepaid, then a plan that renews",
      [event(.period, at: 0) { $0.isPrepaid = true }, event(.period, at: 30, period: 1)],
      [(31, "pro active renewing until 60")]),
    Case(
      "a base plan", [event(.period, at: 0, product: "pro.monthly:base")], [(1, "pro active renewing until 30")]),
    Case(
      "an entitlement that is a tier",
      [event(.period, at: 0, product: "rc_promo") { $0.entitlements = ["other", "pro", "premium"] }],
      [(1, "premium active renewing until 30")]),
    Case("no known product", [event(.period, at: 0, product: "other")], [(1, "free active no_known_product")]),
    Case("a consumable", [event(.single, at: 0, product: "coins")], [(1, "free active no_purchases")]),
    Case(
      "a refund under an ID of its own",
      [event(.period, at: 0), event(.refunded, at: 3) { $0.transaction = "GPA.1-R" }],
      [(4, "free expired refunded")]),
    Case(
      "a refund without an ID", [event(.period, at: 0), event(.refunded, at: 3) { $0.transaction = nil }],
      [(4, "free expired refunded")]),
    Case(
      "a refund that names no period",
      [
        event(.period, at: 0),
        event(.refunded, at: 3) { ($0.transaction, $0.purchasedAt, $0.expiresAt) = (nil, nil, nil) },
      ],
      [(4, "free expired refunded")]),
    Case(
      "a refund of an earlier period, by its date",
      [
        event(.period, at: 0), event(.period, at: 30, period: 1),
        event(.refunded, at: 31, period: 0) { $0.transaction = "GPA.1-R" },
      ], [(32, "pro active renewing until 60")]),
    Case(
      "a refund of before the renewal, without a date",
      [
        event(.period, at: 0), event(.refunded, at: 20) { ($0.transaction, $0.purchasedAt) = (nil, nil) },
        event(.period, at: 30, period: 1),
      ], [(32, "pro active renewing until 60")]),
    Case(
      "a refund that is dated before the report of its purchase",
      [event(.refunded, at: 1), event(.period, at: 2)], [(3, "free expired refunded")]),
    Case(
      "a refund of one that was spoken of under two IDs",
      [
        event(.renewalOff, at: -1) { $0.transaction = "GPA.1-C" }, event(.period, at: 0),
        event(.renewalOff, at: 2) { $0.transaction = "GPA.1-D" }, event(.refunded, at: 3),
      ], [(4, "free expired refunded")]),
    Case("a refund of nothing known", [event(.refunded, at: 3)], [(4, "nothing")]),
    Case(
      "a refund under an ID of its own that is taken back",
      [
        event(.period, at: 0), event(.refunded, at: 3) { $0.transaction = "GPA.1-R" },
        event(.expired, at: 3.1) { $0.transaction = "GPA.1-R" },
        event(.refundReversed, at: 5) { $0.transaction = "GPA.1-R" },
      ], [(6, "pro active renewing until 30")]),
    Case(
      "an end under an ID of its own",
      [event(.period, at: 0), event(.expired, at: 3) { $0.transaction = "GPA.0" }], [(4, "free expired unknown")]),
    Case(
      "a subscription's renewal without an end",
      [event(.period, at: 0), event(.period, at: 25, period: 1) { $0.expiresAt = nil }],
      [(26, "pro active renewing until 30"), (4_000, "free expired unproven stale")]),
    Case(
      "a subscription's first event without an end", [event(.period, at: 0) { $0.expiresAt = nil }], [(1, "nothing")]),
    Case(
      "what is told of a period without an end", [event(.renewalOff, at: 0) { $0.expiresAt = nil }], [(1, "nothing")]),
    Case(
      "temporary access, then the purchase",
      [event(.temporary, at: 0) { $0.expiresAt = days(1) }, event(.period, at: 0.5)],
      [(0.6, "pro active renewing until 30")]),
    Case(
      "temporary access to what is known",
      [event(.period, at: 0), event(.temporary, at: 3) { $0.expiresAt = days(4) }],
      [(5, "pro active renewing until 30")]),
    Case("an end of nothing known", [event(.expired, at: 3) { $0.product = nil }], [(4, "nothing")]),
  ]

  @Test(arguments: cases) func `each event means what it says`(_ one: Case) throws {
    for (moment, expected) in one.expected {
      // The events known by then, in any order of arrival.
      let known = one.events
      for _ in 0..<5 { #expect(try Self.verdict(known.shuffled(), at: moment) == expected, "day \(moment)") }
    }
  }

  // MARK: Order

  /// A year of one customer.
  private static func year(_ dice: inout SeededRandom) -> [StoreEvent] {
    var events = [event(.period, at: 0)]
    for number in 1..<13 {
      let begin = Double(number) * 30
      switch Int.random(in: 0..<8, using: &dice) {
      case 0:
        events.append(event(.renewalOff, at: begin - 20, period: number - 1))
        if Bool.random(using: &dice) { events.append(event(.renewalOn, at: begin - 10, period: number - 1)) }
      case 1: events.append(event(.billingIssue, at: begin, period: number - 1) { $0.graceUntil = days(begin + 6) })
      case 2:
        let id = Bool.random(using: &dice) ? TransactionID("GPA.1-R\(number)") : nil
        let isNamed = Bool.random(using: &dice)
        for (change, at) in [(StoreEvent.Change.refunded, begin - 5), (.refundReversed, begin - 3)] {
          if change == .refundReversed, Bool.random(using: &dice) { continue }
          events.append(event(change, at: at, period: number - 1) { if !isNamed { $0.transaction = id } })
        }
      case 3: events.append(event(.expired, at: begin + 0.04, period: number - 1))
      case 4: events.append(event(.productChange, at: begin - 9, period: number - 1))
      case 5: events.append(event(.extended, at: begin - 2, period: number - 1) { $0.expiresAt = days(begin + 3) })
      default: break
      }
      let product: ProductID = Bool.random(using: &dice) ? "pro.monthly" : "premium.monthly"
      if Int.random(in: 0..<6, using: &dice) > 0 {
        events.append(event(.period, at: begin, period: number, product: product))
      }
    }
    return events
  }

  @Test func `each period keeps what was paid for it`() throws {
    func paid(_ price: Int64) -> (inout StoreEvent) -> Void {
      { ($0.price, $0.currency, $0.country) = (price, "EUR", "DE") }
    }
    let events = [
      Self.event(.period, at: 0, paid(990)), Self.event(.period, at: 30, period: 1, paid(4_990)),
      // A refund says what was paid back.
      Self.event(.refunded, at: 31, period: 1, paid(-4_990)),
    ]
    for order in [events, events.reversed()] {
      let kept = order.reduce(into: [StoreEvent]()) { $0 = StoreEvent.adding($1, to: $0) }
      let evidence = try #require(SubscriptionEvidence(kept, of: Self.key))
      #expect(
        evidence.purchases.map(\.sale)
          == [990, 4_990].map { Purchase.Sale(price: $0, currency: "EUR", storefront: "DE") })
    }
  }

  @Test func `the end that was bought is the sale's, whatever end comes`() {
    let events = [
      Self.event(.period, at: 0), Self.event(.renewalOff, at: 2) { $0.expiresAt = Self.days(3) },
      Self.event(.expired, at: 3), Self.event(.extended, at: 31, period: 1) { $0.expiresAt = Self.days(75) },
      Self.event(.period, at: 32, period: 1),
    ]
    for order in [events, events.reversed()] {
      let ends = SubscriptionEvidence.boughtEnds(order, of: Self.key)
      #expect(ends == ["GPA.1..0": Self.days(30), "GPA.1..1": Self.days(60)])
    }
  }

  @Test func `every order of a year, with repetitions, ends in the same state`() {
    var dice = SeededRandom(seed: 1)
    for _ in 0..<SeededRandom.cases(100) {
      let events = Self.year(&dice)
      let inOrder = events.reduce(into: [StoreEvent]()) { $0 = StoreEvent.adding($1, to: $0) }
      let expected = SubscriptionEvidence(inOrder, of: Self.key)
      for _ in 0..<100 {
        var kept: [StoreEvent] = []
        for event in (events + events.filter { _ in Bool.random(using: &dice) }).shuffled(using: &dice) {
          kept = StoreEvent.adding(event, to: kept)
        }
        #expect(kept == inOrder)
        #expect(SubscriptionEvidence(kept, of: Self.key) == expected)
      }
    }
  }

  @Test func `beyond the limit the first event stays, and the order of arrival does not matter`() {
    let events = (0..<StoreEvent.limit + 50).map { number in
      Self.event(.period, at: Double(number), period: number, user: number == 0 ? "anna" : "bert")
    }
    var dice = SeededRandom(seed: 2)
    let one = events.reduce(into: [StoreEvent]()) { $0 = StoreEvent.adding($1, to: $0) }
    let other = events.shuffled(using: &dice).reduce(into: [StoreEvent]()) { $0 = StoreEvent.adding($1, to: $0) }
    #expect(one == other && one.count == StoreEvent.limit)
    #expect(one.first == events.first && one.last == events.last)
  }

  @Test func `the owner is whom the first event names, unless it was transferred since`() {
    let events = [Self.event(.period, at: 0), Self.event(.period, at: 30, period: 1, user: "bert")]
    func owner(_ transfers: [StoreTransfer], isInactive: Bool = false) -> UserID? {
      StoreEvent.owner(of: events.reversed(), transfers: transfers) { _, _ in isInactive }
    }
    func transfer(_ from: UserID, _ to: UserID, at days: Double, ofInactive: Bool = false) -> StoreTransfer {
      StoreTransfer(id: "\(days)", at: Self.days(days), from: from, to: to, isOfInactive: ofInactive)
    }
    #expect(owner([]) == "anna")
    #expect(owner([transfer("anna", "carl", at: 3)]) == "carl")
    #expect(owner([transfer("carl", "dora", at: 5), transfer("anna", "carl", at: 3)]) == "dora")
    #expect(owner([transfer("anna", "carl", at: -3)]) == "anna")
    #expect(owner([transfer("anna", "carl", at: 3, ofInactive: true)]) == "anna")
    #expect(owner([transfer("anna", "carl", at: 3, ofInactive: true)], isInactive: true) == "carl")
  }

  @Test func `the next turn is the first moment at which time changes something`() throws {
    let evidence = try #require(
      SubscriptionEvidence(
        [Self.event(.period, at: 0), Self.event(.billingIssue, at: 30) { $0.graceUntil = Self.days(36) }], of: Self.key)
    )
    let rules = try Self.rules()
    var turns: [Double] = []
    var now = Self.days(30).withNanoseconds
    while let next = rules.nextTurn(of: evidence, after: now), turns.count < 10 {
      turns.append(next.timeIntervalSince(Self.start) / Self.day)
      now = next
    }
    #expect(turns == [36, 43])
    let lifetime = try #require(
      SubscriptionEvidence([Self.event(.single, at: 0, product: "forever")], of: Self.key))
    #expect(rules.nextTurn(of: lifetime, after: Self.days(1).withNanoseconds) == nil)
  }
}

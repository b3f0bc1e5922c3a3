import Foundation
import Testing

@testable import Entitlements

/// The events between two verdicts, for each way from one to another.
@Suite struct EntitlementEventsTests {
  /// A verdict on purchases in a few words.
  struct State: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var verdict: Entitlement?

    init(
      _ name: String, _ status: SubscriptionStatus, _ reason: EntitlementReason, product: ProductID? = "monthly",
      until end: Double? = 100, willRenew: Bool? = true, isTrial: Bool = false, row: TransactionID? = nil
    ) {
      testDescription = name
      var verdict = Entitlement.none(
        tier: status == .expired ? "free" : "pro", reason: reason,
        explanation: Explanation(
          decidedBy: row ?? end.map { TransactionID("t\($0)") }, passedOver: [], evaluatedAt: nil))
      verdict.status = status
      verdict.productID = product
      verdict.originalTransactionID = product == nil ? nil : "1"
      verdict.expiresAt = end.map { Date(timeIntervalSince1970: $0) }
      verdict.willRenew = willRenew
      verdict.isTrial = isTrial
      self.verdict = verdict
    }

    init(_ name: String) {
      testDescription = name
      verdict = nil
    }

    func lasting(until end: Double, row: TransactionID? = nil) -> State {
      var copy = self
      copy.verdict?.expiresAt = Date(timeIntervalSince1970: end)
      copy.verdict?.explanation.decidedBy = row ?? TransactionID("t\(end)")
      copy.testDescription += ", until \(end)"
      return copy
    }

    /// Within a commitment after which the customer wants no other one.
    func stopped() -> State {
      var copy = self
      copy.verdict?.commitmentRenews = false
      copy.testDescription += ", of a commitment that was stopped"
      return copy
    }

    func of(_ product: ProductID) -> State {
      var copy = self
      copy.verdict?.productID = product
      copy.testDescription += " of \(product)"
      return copy
    }
  }

  static let nobody = State("nobody")
  static let none = State("no purchases", .active, .noPurchases, product: nil, until: nil, willRenew: nil)
  static let active = State("active", .active, .renewing)
  static let off = State("renewal off", .cancelled, .renewalOff, willRenew: false)
  static let grace = State("in grace", .gracePeriod, .billingGrace)
  static let trial = State("free period", .active, .renewing, isTrial: true)
  static let trialInGrace = State("free period in grace", .gracePeriod, .billingGrace, isTrial: true)
  static let trialOver = State("free period over", .expired, .voluntary, willRenew: false, isTrial: true)
  static let over = State("over", .expired, .voluntary, willRenew: false)
  static let unproven = State("unproven", .expired, .unproven)
  static let refunded = State("refunded", .expired, .refunded)
  static let revoked = State("revoked", .expired, .revoked)
  static let gone = State("account gone", .expired, .accountGone)
  static let forLife = State("for life", .active, .lifetime, product: "forever", until: nil, willRenew: nil)

  struct Way: Sendable, CustomTestStringConvertible {
    var from: State
    var to: State
    var events: [EventType]
    init(_ from: State, _ to: State, _ events: EventType...) { (self.from, self.to, self.events) = (from, to, events) }
    var testDescription: String { "\(from.testDescription) → \(to.testDescription)" }
  }

  static let ways: [Way] = [
    // Nothing, or nothing that runs.
    Way(nobody, none), Way(nobody, over), Way(nobody, refunded), Way(none, none), Way(over, none), Way(none, over),
    // Begins.
    Way(nobody, active, .subscriptionStarted), Way(none, active, .subscriptionStarted),
    Way(over, active.lasting(until: 200), .subscriptionStarted),
    Way(unproven, active.lasting(until: 200), .subscriptionStarted),
    Way(refunded, active, .subscriptionStarted), Way(nobody, forLife, .subscriptionStarted),
    Way(nobody, off, .subscriptionStarted, .renewalOff),
    Way(nobody, grace, .subscriptionStarted, .billingIssue), Way(over, grace, .subscriptionStarted, .billingIssue),
    Way(nobody, trial, .trialStarted), Way(nobody, trialInGrace, .trialStarted, .billingIssue),
    // Goes on.
    Way(active, active), Way(off, off), Way(grace, grace), Way(forLife, forLife), Way(trial, trial),
    Way(active, active.lasting(until: 200), .subscriptionRenewed),
    Way(off, off.lasting(until: 200), .subscriptionRenewed),
    Way(grace, active.lasting(until: 200), .subscriptionRenewed), Way(grace, active, .subscriptionRenewed),
    Way(grace, off.lasting(until: 200), .subscriptionRenewed, .renewalOff),
    Way(grace, grace.lasting(until: 200), .subscriptionRenewed, .billingIssue),
    Way(active, off, .renewalOff), Way(off, active, .renewalOn),
    Way(active, off.lasting(until: 200), .subscriptionRenewed, .renewalOff),
    Way(off, active.lasting(until: 200), .renewalOn, .subscriptionRenewed),
    Way(active, grace, .billingIssue), Way(active, grace.lasting(until: 200), .subscriptionRenewed, .billingIssue),
    Way(off, grace, .renewalOn, .billingIssue),
    // The customer wants no other commitment: said once, however the payments of this one go.
    Way(nobody, active.stopped(), .subscriptionStarted, .renewalOff), Way(active, active.stopped(), .renewalOff),
    Way(active.stopped(), active.stopped().lasting(until: 200), .subscriptionRenewed),
    Way(active.stopped(), grace.stopped(), .billingIssue),
    Way(grace.stopped(), active.stopped().lasting(until: 200), .subscriptionRenewed),
    Way(active.stopped(), active, .renewalOn), Way(active.stopped(), off), Way(off, over, .subscriptionExpired),
    // Apple prolongs a period: the same transaction ends later.
    Way(active, active.lasting(until: 200, row: "t100.0")),
    // Another product, and no renewal besides.
    Way(active, active.of("yearly"), .productChanged),
    Way(active, active.of("yearly").lasting(until: 400), .productChanged), Way(active, forLife, .productChanged),
    Way(off, forLife, .productChanged), Way(grace, active.of("yearly").lasting(until: 400), .productChanged),
    Way(active, off.of("yearly"), .productChanged, .renewalOff),
    // A free period ends, each way once.
    Way(trial, active.lasting(until: 200), .trialConverted),
    Way(trial, active.of("yearly").lasting(until: 400), .trialConverted), Way(trial, forLife, .trialConverted),
    Way(trial, trialOver, .trialExpired), Way(trial, trialInGrace, .billingIssue),
    Way(trialInGrace, trialOver, .graceEnded), Way(trial, refunded, .subscriptionRefunded),
    Way(trialInGrace, active.lasting(until: 200), .trialConverted), Way(trial, none, .trialExpired),
    // Ends.
    Way(active, over, .subscriptionExpired), Way(off, over, .subscriptionExpired),
    Way(active, unproven, .subscriptionExpired), Way(active, gone, .subscriptionExpired),
    Way(active, none, .subscriptionExpired), Way(active, over.lasting(until: 200), .subscriptionExpired),
    Way(grace, over, .graceEnded), Way(grace, unproven, .graceEnded), Way(grace, none, .graceEnded),
    Way(active, refunded, .subscriptionRefunded), Way(grace, refunded, .subscriptionRefunded),
    Way(active, revoked, .subscriptionRefunded), Way(forLife, refunded, .subscriptionRefunded),
    Way(over, refunded, .subscriptionRefunded), Way(refunded, over), Way(refunded, revoked), Way(over, over),
  ]

  @Test(arguments: ways)
  func `each change is one event`(_ way: Way) throws {
    let after = try #require(way.to.verdict)
    #expect(after.events(after: way.from.verdict) == way.events)
  }

  @Test func `a purchase while the app's own trial runs converts it`() throws {
    let after = try #require(Self.active.verdict)
    #expect(after.events(after: nil, isDuringTrial: true) == [.trialConverted])
    #expect(after.events(after: Self.none.verdict, isDuringTrial: true) == [.trialConverted])
    let later = try #require(Self.active.lasting(until: 200).verdict)
    #expect(later.events(after: after, isDuringTrial: true) == [.subscriptionRenewed])
    var shared = after
    shared.ownership = .familyShared
    #expect(shared.events(after: nil, isDuringTrial: true) == [.subscriptionStarted])
  }

  @Test func `every state that is told again tells nothing`() {
    for way in Self.ways {
      guard let verdict = way.to.verdict else { continue }
      #expect(verdict.events(after: verdict) == [])
    }
  }

  /// Whoever follows the events knows whether there is access: those that begin and end it alternate.
  @Test func `access as the events tell it is access as the verdicts say`() throws {
    let begins: Set<EventType> = [.subscriptionStarted, .trialStarted]
    let ends: Set<EventType> = [.subscriptionExpired, .graceEnded, .subscriptionRefunded, .trialExpired]
    for way in Self.ways {
      let after = try #require(way.to.verdict)
      let had = way.from.verdict?.givesAccess ?? false
      var has = had
      for event in way.events {
        if begins.contains(event) {
          #expect(!has, "\(way.testDescription)")
          has = true
        } else if ends.contains(event) {
          // Money may go back for what was over.
          #expect(has || event == .subscriptionRefunded, "\(way.testDescription)")
          has = false
        }
      }
      #expect(has == after.givesAccess, "\(way.testDescription)")
    }
  }

  @Test func `names are told as words with a dot`() {
    for type in EventType.allCases {
      #expect(type.rawValue.wholeMatch(of: /[a-z]+\.[a-z_]+/) != nil)
    }
    #expect(EventType.allCases.count == 28)
    #expect(EventType(ofNotification: "DID_RENEW") == nil && EventType(ofNotification: "TEST") == nil)
    #expect(EventType(ofNotification: "RESCIND_CONSENT") == .consentRescinded)
    #expect(EventType(ofNotification: "NOTIFICATION") == .otherNotification)
  }
}

import Testing

import struct FoundationEssentials.Date

@testable import Entitlements

/// The sentences that support reads to customers, word for word.
@Suite struct WordsTests {
  /// 3 March 2026, 12:00 UTC.
  static let third = Date(timeIntervalSince1970: 1_772_539_200)
  /// 19 March 2026, 12:00 UTC.
  static let nineteenth = Date(timeIntervalSince1970: 1_773_921_600)

  struct Case: Sendable, CustomTestStringConvertible {
    var reason: EntitlementReason
    var status: SubscriptionStatus
    var words: String
    var change: @Sendable (inout Entitlement) -> Void = { _ in }
    var testDescription: String { "\(reason.rawValue): \(words)" }
  }

  /// A verdict on pro monthly, paid until 3 March 2026.
  private static func verdict(_ reason: EntitlementReason, _ status: SubscriptionStatus) -> Entitlement {
    let isOver = status == .expired
    return Entitlement(
      tier: isOver ? "free" : "pro", status: status, reason: reason, expiresAt: third,
      accessUntil: isOver ? nil : third,
      productID: "com.example.pro", originalTransactionID: "1", environment: .production, willRenew: true,
      nextProductID: nil, isTrial: false, ownership: .purchased, evidenceTime: third, source: .verifyReceipt,
      isStale: false, isProvisional: false,
      explanation: Explanation(decidedBy: "2", passedOver: [], evaluatedAt: third))
  }

  private static let retryAccess = Explanation.PolicyValue(key: "policy.billing_retry_access", value: "60d")
  private static let noRetryAccess = Explanation.PolicyValue(key: "policy.billing_retry_access", value: "0")
  private static let hold = Explanation.PolicyValue(key: "policy.outage_hold", value: "7d")

  static let cases: [Case] = [
    Case(
      reason: .originalPurchase, status: .active,
      words: "The customer had the app itself early enough to have pro for life; it does not expire. The tier is pro."
    ) {
      $0.expiresAt = nil
      $0.accessUntil = nil
    },
    Case(
      reason: .renewalDue, status: .active,
      words: """
        The paid period ended on 3 March 2026. Apple shows no renewal yet, and no end: renewals may come late. Access to \
        pro runs until 19 March 2026, or until Apple says more. The tier is pro.
        """
    ) {
      $0.isStale = true
      $0.accessUntil = Self.nineteenth
      $0.explanation.policy = .init(key: "policy.late_renewal", value: "1d")
    },
    Case(
      reason: .renewalOff, status: .active,
      words: """
        Renewal is turned off, but the payments by the month go on until the commitment ends on 19 March 2026. The \
        subscription is paid until 3 March 2026. The tier is pro.
        """
    ) { $0.commitmentExpiresAt = Self.nineteenth },
    Case(
      reason: .renewing, status: .active,
      words: """
        The subscription is paid until 3 March 2026 and renews by itself then. It is part of a commitment until 19 March \
        2026. The tier is pro.
        """
    ) { $0.commitmentExpiresAt = Self.nineteenth },
    Case(
      reason: .nonRenewing, status: .active,
      words: "The subscription does not renew by itself. It is paid until 3 March 2026. The tier is pro."),
    Case(
      reason: .periodOver, status: .expired,
      words: "The subscription did not renew by itself. Its period ended on 3 March 2026. The tier is free."),
    Case(
      reason: .unknown, status: .expired,
      words: """
        Apple gave no expiration date for com.example.pro, so it does not count. If it is a non-renewing subscription, \
        the app's catalog has to say so: `kind: non_renewing`, with its `period`. The tier is free.
        """
    ) { $0.expiresAt = nil },
    Case(
      reason: .lifetime, status: .active,
      words: "The purchase of com.example.pro is for life and does not expire. The tier is pro."
    ) {
      $0.expiresAt = nil
      $0.accessUntil = nil
    },
    Case(
      reason: .renewing, status: .active,
      words: "The subscription is paid until 3 March 2026 and renews by itself then. The tier is pro."),
    Case(
      reason: .renewing, status: .active,
      words: "The subscription is paid until 3 March 2026. Apple did not say whether it renews then. The tier is pro."
    ) { $0.willRenew = nil },
    Case(
      reason: .renewing, status: .active,
      words: """
        The free trial runs until 3 March 2026 and renews by itself then. The next renewal is for com.example.yearly. \
        The tier is pro.
        """
    ) {
      $0.isTrial = true
      $0.nextProductID = "com.example.yearly"
    },
    Case(
      reason: .renewing, status: .active,
      words: """
        The subscription is paid until 3 March 2026 and renews by itself then. The purchase is shared by a family \
        member. It is a purchase in Apple's sandbox, made for testing: nothing was paid. The tier is pro.
        """
    ) {
      $0.ownership = .familyShared
      $0.environment = .sandbox
    },
    Case(
      reason: .renewing, status: .active,
      words: """
        The subscription is paid until 3 March 2026. Apple did not say whether it renews then. Apple signed the receipt \
        but could not be asked about it yet, so this is provisional. The tier is pro.
        """
    ) {
      $0.willRenew = nil
      $0.isProvisional = true
    },
    Case(
      reason: .renewing, status: .active,
      words: """
        The subscription is paid until 3 March 2026 and renews by itself then. This is the last confirmed state: Apple \
        could not be asked, or the app's catalog or a policy has changed since and would give less. The tier is pro.
        """
    ) { $0.isStale = true },
    Case(
      reason: .renewing, status: .active,
      words: """
        According to Apple's last report, access ended on 3 March 2026, and no newer report has come since. Access is \
        kept for 7 days after that, or until a newer report comes. The tier is pro.
        """
    ) {
      $0.isStale = true
      $0.explanation.policy = hold
    },
    Case(
      reason: .renewalOff, status: .cancelled,
      words: """
        Renewal is turned off. The subscription is paid until 3 March 2026; access to pro runs until then. The tier is \
        pro.
        """
    ) { $0.willRenew = false },
    Case(
      reason: .refunded, status: .expired,
      words: "Apple refunded the purchase of com.example.pro; access ended on 3 March 2026. The tier is free."),
    Case(
      reason: .revoked, status: .expired,
      words: """
        A family member no longer shares the purchase of com.example.pro; access ended on 3 March 2026. The tier is \
        free.
        """
    ) { $0.ownership = .familyShared },
    Case(
      reason: .billingGrace, status: .gracePeriod,
      words: """
        Apple could not renew the payment on 3 March 2026, and grants a grace period; access to pro runs until \
        19 March 2026. Apple keeps trying; a new payment method in the customer's Apple account resolves this. The tier \
        is pro.
        """
    ) { $0.accessUntil = nineteenth },
    Case(
      reason: .billingRetry, status: .gracePeriod,
      words: """
        Apple could not renew the payment on 3 March 2026; access to pro runs until 19 March 2026, the 60 days that this \
        app allows. Apple keeps trying; a new payment method in the customer's Apple account resolves this. The tier \
        is pro.
        """
    ) {
      $0.accessUntil = nineteenth
      $0.explanation.policy = retryAccess
    },
    Case(
      reason: .voluntary, status: .expired,
      words: "The customer had turned renewal off. The subscription ended on 3 March 2026. The tier is free."),
    Case(
      reason: .voluntary, status: .expired,
      words: "The customer had turned renewal off. The free trial ended on 3 March 2026. The tier is free."
    ) { $0.isTrial = true },
    Case(
      reason: .billingError, status: .expired,
      words: "Apple could not renew the payment. The subscription ended on 3 March 2026. The tier is free."),
    Case(
      reason: .billingError, status: .expired,
      words: """
        Apple could not renew the payment. The subscription ended on 3 March 2026. Apple may still be trying; this app \
        gives no access meanwhile. The tier is free.
        """
    ) { $0.explanation.policy = noRetryAccess },
    Case(
      reason: .billingError, status: .expired,
      words: """
        Apple could not renew the payment. The subscription ended on 3 March 2026. Apple may still be trying; the 60 days \
        of access that this app gives meanwhile are over. The tier is free.
        """
    ) { $0.explanation.policy = retryAccess },
    Case(
      reason: .priceIncrease, status: .expired,
      words: "The customer did not agree to a higher price. The subscription ended on 3 March 2026. The tier is free."),
    Case(
      reason: .productUnavailable, status: .expired,
      words: """
        com.example.pro was no longer sold when it was to renew. The subscription ended on 3 March 2026. The tier is free.
        """),
    Case(
      reason: .unknown, status: .expired,
      words: """
        The subscription ended on 3 March 2026. Apple did not say why it was not renewed. The tier is free.
        """),
    Case(
      reason: .unknown, status: .expired,
      words: """
        The subscription goes on as com.example.gold, which is not in this app's catalog, so it gives nothing. The next \
        renewal is for com.example.gold. The tier is free.
        """
    ) {
      $0.nextProductID = "com.example.gold"
      $0.explanation.goesOnAs = "com.example.gold"
      $0.explanation.passedOver = [.init(transactionID: "9", productID: "com.example.gold", cause: .notCatalogued)]
    },
    Case(
      reason: .noPurchases, status: .active, words: "This user has no known purchase. The tier is free."
    ) { $0 = .none(tier: "free", reason: .noPurchases, explanation: $0.explanation) },
    Case(
      reason: .noKnownProduct, status: .active,
      words: """
        Apple reports purchases of this user, but no product in this app's catalog. The tier is free. \
        com.example.gold is not in this app's catalog, so it does not count.
        """
    ) {
      $0 = .none(
        tier: "free", reason: .noKnownProduct,
        explanation: Explanation(
          decidedBy: nil,
          passedOver: [.init(transactionID: "9", productID: "com.example.gold", cause: .notCatalogued)],
          evaluatedAt: third))
    },
    Case(
      reason: .accountGone, status: .expired,
      words: """
        Apple says that the customer's Apple account was deleted. Its purchases no longer count. The tier is free.
        """),
    Case(
      reason: .unproven, status: .expired,
      words: """
        The last paid period that Apple reported ended on 3 March 2026, and no newer report has come since, for longer \
        than the 7 days that this app waits. Access returns as soon as Apple confirms a renewal. The tier is free.
        """
    ) {
      // As the rules have it: what is unproven is stale, too.
      $0.isStale = true
      $0.explanation.policy = hold
    },
    Case(
      reason: .granted, status: .active,
      words: "Access to pro was given, not bought; it runs until 3 March 2026. The tier is pro."
    ) { $0.productID = nil },
    Case(
      reason: .trial, status: .active, words: "This app's own trial of pro runs until 3 March 2026. The tier is pro."
    ) { $0.productID = nil },
  ]

  @Test(arguments: cases)
  func `a verdict has a sentence for the customer`(_ expected: Case) {
    var verdict = Self.verdict(expected.reason, expected.status)
    expected.change(&verdict)
    #expect(verdict.words().joined(separator: " ") == expected.words)
  }

  @Test func `every reason and every status is tried`() {
    #expect(Set(Self.cases.map(\.reason)) == Set(EntitlementReason.allCases))
    #expect(Set(Self.cases.map(\.status)) == Set(SubscriptionStatus.allCases))
  }

  @Test func `the tier and status until then are told`() {
    let renewing = Self.verdict(.renewing, .active)
    let cancelled = Self.verdict(.renewalOff, .cancelled)
    let refunded = Self.verdict(.refunded, .expired)
    #expect(refunded.words(after: renewing).last == "The tier is free; it was pro until then.")
    #expect(renewing.words(after: refunded).last == "The tier is pro; it was free until then.")
    #expect(cancelled.words(after: renewing).last == "The tier is pro, as before; the status was active until then.")
    #expect(renewing.words(after: cancelled).last == "The tier is pro, as before; the status was cancelled until then.")
    #expect(renewing.words(after: renewing).last == "The tier is pro, as before.")
    var grace = Self.verdict(.billingGrace, .gracePeriod)
    grace.accessUntil = Self.nineteenth
    #expect(
      renewing.words(after: grace).last == "The tier is pro, as before; the status was in a grace period until then.")
  }

  @Test func `purchases that do not count are named once, three of them, and the rest counted`() {
    typealias Cause = Explanation.PassedOver.Cause
    let causes: [(ProductID, Cause)] = [
      ("a", .upgraded), ("a", .upgraded), ("b", .cancelled), ("c", .otherSubscription), ("d", .noExpiry),
      ("e", .notCatalogued), ("com.example.pro", .endsEarlier), ("f", .accountGone),
    ]
    var verdict = Self.verdict(.renewing, .active)
    verdict.explanation = Explanation(
      decidedBy: "1",
      passedOver: causes.enumerated().map {
        .init(transactionID: TransactionID("\($0.offset)"), productID: $0.element.0, cause: $0.element.1)
      }, evaluatedAt: nil)
    #expect(
      verdict.words().dropFirst(2) == [
        "a was replaced by an upgrade and no longer counts.",
        "Apple refunded or revoked the purchase of b, so it does not count.",
        "Another purchase, of c, gives less or ends earlier.",
        "2 more do not count either.",
      ])
    verdict.explanation.passedOver = [.init(transactionID: "4", productID: "d", cause: .noExpiry)]
    #expect(
      verdict.words().last == """
        Apple gave no expiration date for d, so it does not count. If it is a non-renewing subscription, the app's \
        catalog has to say so: `kind: non_renewing`, with its `period`.
        """)
  }

  @Test func `words need no date to be sentences`() {
    for reason in EntitlementReason.allCases {
      for status in SubscriptionStatus.allCases {
        var verdict = Self.verdict(reason, status)
        verdict.expiresAt = nil
        verdict.accessUntil = nil
        verdict.productID = nil
        for sentence in verdict.words() {
          #expect(sentence.hasSuffix(".") && !sentence.contains("nil") && !sentence.contains("  "), "\(sentence)")
        }
      }
    }
  }

  @Test(
    arguments: [
      (0, "1 January 1970"), (-1, "31 December 1969"), (86_399_999, "1 January 1970"), (86_400_000, "2 January 1970"),
      (951_782_400_000, "29 February 2000"), (951_868_800_000, "1 March 2000"), (1_709_164_800_000, "29 February 2024"),
      (4_107_542_400_000, "1 March 2100"), (4_107_542_399_999, "28 February 2100"),
      (1_767_225_599_999, "31 December 2025"), (1_767_225_600_000, "1 January 2026"),
      (-62_135_596_800_000, "1 January 1"), (253_402_300_799_000, "31 December 9999"),
    ] as [(Int64, String)])
  func `a day is written out in UTC`(milliseconds: Int64, day: String) {
    #expect(Date(millisecondsSince1970: milliseconds).dayInWords == day)
  }

  @Test func `every day follows the one before`() {
    let months = [
      ("January", 31), ("February", 28), ("March", 31), ("April", 30), ("May", 31), ("June", 30), ("July", 31),
      ("August", 31), ("September", 30), ("October", 31), ("November", 30), ("December", 31),
    ]
    var days = 0 as Int64
    for year in 1970...2110 {
      let isLeap = year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
      for (month, length) in months {
        for day in 1...(month == "February" && isLeap ? 29 : length) {
          #expect(Date(millisecondsSince1970: days * 86_400_000).dayInWords == "\(day) \(month) \(year)")
          days += 1
        }
      }
    }
  }

  @Test func `the ends of time do not trap`() {
    for milliseconds in [Int64.min, .max] {
      #expect(!Date(millisecondsSince1970: milliseconds).dayInWords.isEmpty)
    }
    #expect(!Date.distantPast.dayInWords.isEmpty && !Date.distantFuture.dayInWords.isEmpty)
  }
}

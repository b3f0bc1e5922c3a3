/// Builds the payloads that are signed about a customer, in Apple's names and types: dates are numbers of milliseconds.
///
/// Apple's pages: JWSTransactionDecodedPayload, JWSRenewalInfoDecodedPayload.
struct SignedDataPayload: Sendable {
  var seed: ReceiptSeed
  /// The store's knowledge at the time of signing.
  var state: CustomerState
  var signedAt: Timestamp

  init(seed: ReceiptSeed, at now: Timestamp) {
    self.seed = seed
    self.state = seed.state(at: now)
    self.signedAt = now
  }

  func transaction(_ row: CustomerState.Row) -> JSON {
    var members: [(String, JSON)] = [
      ("transactionId", .string(seed.transactionID(slot: row.slot, number: row.number))),
      ("originalTransactionId", .string(seed.transactionID(slot: row.slot, number: 0))),
    ]
    if row.product.isSubscription {
      let item = seed.webOrderLineItemID(slot: row.slot, number: row.number)
      members.append(("webOrderLineItemId", .string(String(item))))
    }
    members += [("bundleId", .string(seed.bundleID)), ("productId", .string(row.product.id))]
    if let group = row.group { members.append(("subscriptionGroupIdentifier", .string(group))) }
    members += [
      ("purchaseDate", .integer(row.purchasedAt.milliseconds)),
      ("originalPurchaseDate", .integer(row.originallyPurchasedAt.milliseconds)),
    ]
    if let end = row.expiresAt { members.append(("expiresDate", .integer(end.milliseconds))) }
    members += [
      ("quantity", 1),
      ("type", .string(row.product.appleType.signed)),
      ("inAppOwnershipType", row.isFamilyShared ? "FAMILY_SHARED" : "PURCHASED"),
      ("signedDate", .integer(signedAt.milliseconds)),
    ]
    if let token = seed.accountToken(ofSlot: row.slot) { members.append(("appAccountToken", .string(token))) }
    if let date = row.cancelledAt {
      members += [
        ("revocationReason", .integer(Int64(row.cancellationReason))),
        ("revocationDate", .integer(date.milliseconds)),
      ]
      if let percentage = row.cancellationPercentage {
        members += [
          ("revocationType", "REFUND_PRORATED"), ("revocationPercentage", .integer(Int64(percentage) * 1_000)),
        ]
      }
    }
    if row.isUpgraded { members.append(("isUpgraded", true)) }
    let offer = offer(of: row)
    if isIntroductory(row) {
      members += [("offerType", 1), ("offerDiscountType", "PAY_AS_YOU_GO"), ("offerPeriod", "P1M")]
    } else if let offer {
      members += [
        ("offerType", 2), ("offerIdentifier", .string(offer)), ("offerDiscountType", "PAY_AS_YOU_GO"),
        ("offerPeriod", "P1M"),
      ]
    } else if row.isTrial {
      members += [("offerType", 1), ("offerDiscountType", "FREE_TRIAL"), ("offerPeriod", "P1W")]
    }
    members += [
      ("environment", .string(seed.environment.appleName)),
      ("transactionReason", row.isRenewal ? "RENEWAL" : "PURCHASE"),
      ("storefront", "USA"),
      ("storefrontId", "143441"),
      ("price", .integer(price(of: row))),
      ("currency", "USD"),
      ("appTransactionId", .string(seed.appTransactionID)),
    ]
    if let commitment = row.commitment {
      members += [
        ("billingPlanType", "MONTHLY"),
        (
          "commitmentInfo",
          .object([
            ("billingPeriodNumber", .integer(Int64(commitment.number))),
            ("totalBillingPeriods", .integer(Int64(Subscription.Commitment.payments))),
            ("commitmentExpiresDate", .integer(commitment.endsAt.milliseconds)),
            ("commitmentPrice", .integer(row.product.milliunits)),
          ])
        ),
      ]
    }
    if let former = row.formerSlot {
      members += [
        ("previousOriginalTransactionId", .string(seed.transactionID(slot: former, number: 0))),
        ("advancedCommerceInfo", .object([("items", .array([item(of: row.product)]))])),
      ]
    }
    return .object(members)
  }

  /// An Advanced Commerce subscription has items of the app's own.
  private func item(of product: Product) -> JSON {
    .object([
      ("SKU", .string(product.rawValue)), ("displayName", .string(product.rawValue)), ("description", "Everything"),
      ("price", .integer(product.milliunits)),
    ])
  }

  /// The price of a transaction: an offer halves the price, and a commitment is paid in twelve parts.
  private func price(of row: CustomerState.Row) -> Int64 {
    if row.isTrial { return 0 }
    if row.commitment != nil { return row.product.milliunits / Int64(Subscription.Commitment.payments) }
    return row.product.milliunits / (offer(of: row) == nil && !isIntroductory(row) ? 1 : 2)
  }

  /// Whether a transaction was bought with the introductory offer that the app's server allowed.
  private func isIntroductory(_ row: CustomerState.Row) -> Bool {
    seed.hasIntroductoryOffer == true && !row.isTrial && isBoughtAtStart(row)
  }

  private func isBoughtAtStart(_ row: CustomerState.Row) -> Bool {
    seed.newestRow(at: seed.startedAt).map { ($0.slot, $0.number) == (row.slot, row.number) } ?? false
  }

  /// The promotional offer with which a transaction was bought.
  private func offer(of row: CustomerState.Row) -> String? {
    guard let offer = seed.offerID, isBoughtAtStart(row) else { return nil }
    return offer
  }

  /// The win-back offer that customers may have whose subscription has ended because they left.
  static let winBackOffer = "come_back"

  /// `renewalDate` is present while the store intends to charge again; it is the newest purchase's end.
  func renewalInfo(_ renewal: CustomerState.Renewal) -> JSON {
    let rows = state.rows.filter { $0.slot == renewal.slot }
    var members: [(String, JSON)] = []
    if let intent = renewal.intent { members.append(("expirationIntent", .integer(Int64(intent)))) }
    members += [
      ("originalTransactionId", .string(seed.transactionID(slot: renewal.slot, number: 0))),
      ("autoRenewProductId", .string(renewal.nextProduct.id)),
      ("productId", .string(renewal.product.id)),
      ("autoRenewStatus", renewal.isOn ? 1 : 0),
    ]
    if renewal.isOn {
      let payments = renewal.commitmentRenews == nil ? 1 : Int64(Subscription.Commitment.payments)
      members += [("renewalPrice", .integer(renewal.nextProduct.milliunits / payments)), ("currency", "USD")]
    }
    if let renews = renewal.commitmentRenews, let end = renewal.commitmentEndsAt {
      members += [
        ("renewalBillingPlanType", "MONTHLY"),
        (
          "commitmentInfo",
          .object([
            ("commitmentAutoRenewStatus", renews ? 1 : 0),
            ("commitmentAutoRenewProductId", .string(renewal.nextProduct.id)),
            ("commitmentRenewalBillingPlanType", "MONTHLY"),
            ("commitmentRenewalDate", .integer(end.milliseconds)),
            ("commitmentRenewalPrice", .integer(renewal.nextProduct.milliunits)),
          ])
        ),
      ]
    }
    if renewal.declinesPrice { members.append(("priceIncreaseStatus", 0)) }
    members.append(("isInBillingRetryPeriod", .boolean(renewal.isInRetry)))
    if let date = renewal.graceUntil { members.append(("gracePeriodExpiresDate", .integer(date.milliseconds))) }
    members += [
      ("signedDate", .integer(signedAt.milliseconds)),
      ("environment", .string(seed.environment.appleName)),
    ]
    if let date = Self.recentStart(of: rows) {
      members.append(("recentSubscriptionStartDate", .integer(date.milliseconds)))
    }
    if renewal.isOn || renewal.isInRetry, let end = rows.last?.expiresAt {
      members.append(("renewalDate", .integer(end.milliseconds)))
    }
    if renewal.phase == .ended, renewal.intent == 1 {
      members.append(("eligibleWinBackOfferIds", .array([.string(Self.winBackOffer)])))
    }
    if let token = seed.accountToken(ofSlot: renewal.slot) { members.append(("appAccountToken", .string(token))) }
    members.append(("appTransactionId", .string(seed.appTransactionID)))
    return .object(members)
  }

  /// The AppTransaction: the proof that a customer has the app, and since which version.
  ///
  /// Apple's page: JWSAppTransactionDecodedPayload.
  var appTransaction: JSON {
    .object([
      ("receiptType", .string(seed.environment.appleName)),
      ("appAppleId", .integer(seed.environment.appItemID)),
      ("bundleId", .string(seed.bundleID)),
      ("applicationVersion", .string(ReceiptSeed.applicationVersion)),
      ("versionExternalIdentifier", .integer(ReceiptPayload.versionExternalIdentifier(seed))),
      ("receiptCreationDate", .integer(signedAt.milliseconds)),
      ("originalPurchaseDate", .integer(seed.originalPurchaseDate.milliseconds)),
      ("originalApplicationVersion", .string(seed.originalApplicationVersion)),
      ("appTransactionId", .string(seed.appTransactionID)),
      ("originalPlatform", "iOS"),
    ])
  }

  /// The status of a subscription: 1 active, 2 expired, 3 billing retry, 4 billing grace period, 5 revoked.
  func status(of renewal: CustomerState.Renewal) -> Int64 {
    guard let last = state.rows.last(where: { $0.slot == renewal.slot }) else { return 2 }
    if last.cancelledAt != nil { return 5 }
    switch renewal.phase {
    case .running, .due: return 1
    case .grace: return 4
    case .retry: return 3
    case .ended: return 2
    }
  }

  /// Apple: "the earliest start date of a subscription in a series of auto-renewable subscription purchases that ignores
  /// all lapses of paid service shorter than 60 days".
  private static func recentStart(of rows: [CustomerState.Row]) -> Timestamp? {
    var start: Timestamp?
    for row in rows.reversed() {
      if let start, let end = row.expiresAt, end.adding(days: 60) <= start { break }
      start = row.purchasedAt
    }
    return start
  }
}

extension Product {
  /// The price in thousandths of a dollar.
  fileprivate var milliunits: Int64 {
    switch self {
    case .proMonthly: 4_990
    case .proYearly: 49_990
    case .premiumMonthly: 9_990
    case .proSeason: 14_990
    case .forever: 99_990
    case .unknown: 990
    }
  }
}

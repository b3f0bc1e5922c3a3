package import struct FoundationEssentials.Date

/// A report of RevenueCat's about a purchase, in the words of the rules.
///
/// The `Codable` form is stored in the ledger; a property renamed here needs a migration there.
package struct StoreEvent: Hashable, Codable, Sendable {
  package enum Change: String, Hashable, Codable, Sendable, CaseIterable {
    /// Bought, or renewed.
    case period
    /// Bought once: renewal is not to be expected.
    case single
    /// The running period got another end.
    case extended
    case renewalOff = "renewal_off"
    case renewalOn = "renewal_on"
    case refunded
    case refundReversed = "refund_reversed"
    /// A payment failed; `graceUntil` is the store's grace period.
    case billingIssue = "billing_issue"
    /// The same, reported a second time without the grace period.
    case billingError = "billing_error"
    case expired
    /// Another product will follow.
    case productChange = "product_change"
    /// Pauses at the end of the period.
    case paused
    /// RevenueCat cannot reach the store, and gives access until `expiresAt`.
    case temporary
  }

  /// RevenueCat's ID of the event.
  package var id: String
  /// When it happened, by RevenueCat's clock.
  package var at: Date
  package var change: Change
  package var user: UserID
  package var product: ProductID?
  /// The entitlement IDs that RevenueCat names for the product.
  package var entitlements: [String]?
  package var transaction: TransactionID?
  package var purchasedAt: Date?
  /// `nil`: not told; for life where the purchase is a single one.
  package var expiresAt: Date?
  package var graceUntil: Date?
  /// Why it expired, as Apple's `expiration_intent` numbers the reasons.
  package var expirationIntent: Int?
  package var nextProduct: ProductID?
  package var isTrial: Bool?
  package var isIntroductoryOffer: Bool?
  package var isPrepaid: Bool?
  package var isFamilyShared: Bool?
  /// Thousandths of the unit of `currency`, as the customer paid.
  package var price: Int64?
  package var currency: String?
  package var country: String?

  package init(id: String, at: Date, change: Change, user: UserID) {
    self.id = id
    self.at = at
    self.change = change
    self.user = user
  }

  /// The sale of the period that the event reports.
  var sale: Purchase.Sale? { Purchase.Sale(price: price, currency: currency, storefront: country) }

  /// The order of events: by time, then by ID.
  func precedes(_ other: StoreEvent) -> Bool { at == other.at ? id < other.id : at < other.at }

  /// The limit of stored events for a purchase: ten years of weekly renewals, and other events in them.
  package static let limit = 1_000

  /// The events of a purchase, each once and in order, with one more.
  ///
  /// Beyond `limit` the oldest go, but never the first one, which names the owner. The result does not depend on the
  /// order of arrival.
  package static func adding(_ event: StoreEvent, to events: [StoreEvent]) -> [StoreEvent] {
    guard !events.contains(where: { $0.id == event.id }) else { return events }
    var all = (events + [event]).sorted { $0.precedes($1) }
    if all.count > limit { all.remove(at: 1) }
    return all
  }
}

/// A change of user at RevenueCat: everything of one user becomes another one's.
package struct StoreTransfer: Hashable, Sendable {
  package var id: String
  package var at: Date
  package var from: UserID
  package var to: UserID
  /// Whether it moves only purchases that give the former user nothing (`transfer_if_inactive`).
  package var isOfInactive: Bool

  package init(id: String, at: Date, from: UserID, to: UserID, isOfInactive: Bool) {
    self.id = id
    self.at = at
    self.from = from
    self.to = to
    self.isOfInactive = isOfInactive
  }
}

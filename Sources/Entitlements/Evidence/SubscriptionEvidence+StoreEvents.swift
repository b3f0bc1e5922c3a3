package import struct FoundationEssentials.Date

/// The evidence from a purchase's events.
///
/// The events count in the order in which they happened, in any order of arrival. Each of them is partial evidence, as
/// Apple's notifications are: a fact without a report is unknown, and an end that came by time alone is no end that was
/// reported. It is held, and is unproven then.
///
///     event                    the period that it names             renewal
///     period, extended         as named                             on, off if prepaid; billing is well (extended: as
///                                                                     before)
///     single                   as named                             off
///     renewal off, on          as named                             off, on
///     refunded                 taken back at that time              over
///     refund reversed          stands again                         not known
///     billing issue, error     as before                            on trial, with the grace period
///     expired                  it and those before are over         over, for its reason
///     product change           as before                            the other product
///     paused                   as before                            as before
///     temporary                as named, if nothing else tells of it    as before
///
/// An event names a period by its transaction, else by its purchase date: stores give refunds IDs of their own. A refund
/// that names none of the known ones takes back the newest that had begun, and adds none. A subscription's event without
/// an end tells of no period: only a single purchase may be for life.
///
/// Trouble and ends of an earlier period than the newest say nothing about that one: RevenueCat may report them an
/// hour late.
extension SubscriptionEvidence {
  /// - Parameter events: of one purchase, in any order.
  /// - Returns: `nil` if they name no period.
  package init?(_ events: [StoreEvent], of key: SubscriptionKey) {
    let events = Self.telling(events)
    guard let last = events.last else { return nil }
    let periods = Periods(events, of: key)
    guard !periods.rows.isEmpty else { return nil }
    self.init(
      key: key, source: .revenuecat, evidenceTime: last.at, evaluatedAt: last.at,
      purchases: periods.rows.map { $0.purchase(of: key) },
      renewals: Self.renewal(events, periods, of: key).map { [$0] } ?? [], coverage: .partial(since: nil))
    noteGracePeriods()
    for event in events {
      if let product = event.product, let entitlements = event.entitlements { unlocks[product] = entitlements }
    }
  }

  /// The ends that were bought, by transaction: neither an early end nor an extension is one.
  package static func boughtEnds(_ events: [StoreEvent], of key: SubscriptionKey) -> [TransactionID: Date] {
    Periods(telling(events), of: key).rows.reduce(into: [:]) { $0[$1.transaction] = $1.boughtUntil }
  }

  /// The events that tell of a period or its state, in order.
  private static func telling(_ events: [StoreEvent]) -> [StoreEvent] {
    events.filter { $0.change != .period || $0.expiresAt != nil }.sorted { $0.precedes($1) }
  }

  private static func renewal(_ events: [StoreEvent], _ periods: Periods, of key: SubscriptionKey) -> RenewalInfo? {
    let newest = periods.rows.last
    var info: RenewalInfo?
    for event in events {
      var next = info ?? RenewalInfo(originalTransactionID: key.originalTransactionID)
      switch event.change {
      case .period:
        next = RenewalInfo(originalTransactionID: key.originalTransactionID, autoRenews: event.isPrepaid != true)
      case .single: next = RenewalInfo(originalTransactionID: key.originalTransactionID, autoRenews: false)
      case .renewalOff: next.autoRenews = false
      case .refunded:
        guard let newest, periods.refunded[event.id] == newest.transaction else { continue }
        (next.autoRenews, next.expirationIntent) = (false, 5)
      case .renewalOn: (next.autoRenews, next.expirationIntent) = (true, nil)
      case .refundReversed: (next.autoRenews, next.expirationIntent) = (nil, nil)
      case .billingIssue, .billingError:
        guard !isEarlier(event, than: newest) else { continue }
        next.isInBillingRetry = true
        // A grace date once told stays known.
        if event.change == .billingIssue, let grace = event.graceUntil { next.gracePeriodExpiresDate = grace }
      case .expired:
        guard !isEarlier(event, than: newest) else { continue }
        next.autoRenews = false
        next.expirationIntent = event.expirationIntent ?? 5
        next.isInBillingRetry = false
        next.gracePeriodExpiresDate = nil
      case .productChange: next.autoRenewProductID = event.nextProduct
      case .extended, .paused, .temporary: continue
      }
      next.reportedAt = event.at
      info = next
    }
    info?.productID = newest?.product
    return info
  }

  private static func isEarlier(_ event: StoreEvent, than newest: Periods.Row?) -> Bool {
    guard let named = event.purchasedAt, let newest else { return false }
    return named < newest.purchasedAt
  }

  private struct Periods {
    struct Row {
      var transaction: TransactionID
      var product: ProductID
      var purchasedAt: Date
      /// `nil`: for life.
      var expiresAt: Date?
      /// The end as the sale told it, else the first one that was told.
      var boughtUntil: Date?
      /// Whether a purchase was reported, and not only something about it.
      var isSold: Bool
      var endedAt: Date?
      var refundedAt: Date?
      var reportedAt: Date
      var isTrial = false
      var isIntroductoryOffer = false
      var isPrepaid = false
      var isFamilyShared = false
      var sale: Purchase.Sale?

      func purchase(of key: SubscriptionKey) -> Purchase {
        var end = expiresAt
        if let endedAt { end = min(expiresAt ?? .distantFuture, max(endedAt, purchasedAt)) }
        return Purchase(
          productID: product, transactionID: transaction, originalTransactionID: key.originalTransactionID,
          purchaseDate: purchasedAt, expiresDate: end, cancellationDate: refundedAt,
          ownership: isFamilyShared ? .familyShared : .purchased, isTrial: isTrial,
          isIntroductoryOffer: isIntroductoryOffer, isPrepaid: isPrepaid, reportedAt: reportedAt, sale: sale)
      }
    }

    /// In order of purchase.
    private(set) var rows: [Row] = []
    /// The periods that refunds take back, by the IDs of the events.
    private(set) var refunded: [String: TransactionID] = [:]

    /// - Parameter events: in order.
    init(_ events: [StoreEvent], of key: SubscriptionKey) {
      for event in events where event.change != .refunded { add(event, of: key) }
      // A refund may be dated before the report of its purchase.
      for event in events where event.change == .refunded || event.change == .refundReversed { settle(event) }
    }

    private mutating func add(_ event: StoreEvent, of key: SubscriptionKey) {
      let transaction = event.transaction ?? TransactionID(key.originalTransactionID.rawValue)
      guard let place = place(of: transaction, event) else {
        guard event.change == .expired else { return }
        // It names no period: the newest one is meant.
        if let last = rows.indices.last { end(upTo: last, event) }
        return
      }
      guard event.change != .temporary else { return }
      rows[place].reportedAt = event.at
      switch event.change {
      case .period, .single, .extended, .renewalOff, .renewalOn, .paused, .refundReversed:
        if let purchasedAt = event.purchasedAt {
          if event.expiresAt != nil || event.change == .single { rows[place].expiresAt = event.expiresAt }
          rows[place].purchasedAt = purchasedAt
          if let product = event.product { rows[place].product = product }
          rows[place].isTrial = event.isTrial ?? rows[place].isTrial
          rows[place].isIntroductoryOffer = event.isIntroductoryOffer ?? rows[place].isIntroductoryOffer
          rows[place].isPrepaid = event.isPrepaid ?? rows[place].isPrepaid
          rows[place].isFamilyShared = event.isFamilyShared ?? rows[place].isFamilyShared
          if event.isSale {
            rows[place].isSold = true
            rows[place].transaction = event.transaction ?? rows[place].transaction
            rows[place].sale = event.sale ?? rows[place].sale
            rows[place].boughtUntil = event.expiresAt ?? rows[place].boughtUntil
          }
        }
        if event.change == .refundReversed { rows[place].endedAt = nil }
        if let ended = rows[place].endedAt, event.change == .period || event.change == .extended,
          rows[place].expiresAt.map({ ended < $0 && event.at < $0 }) ?? true
        {
          rows[place].endedAt = nil
        }
      case .expired: end(upTo: place, event)
      case .billingIssue, .billingError, .productChange, .temporary, .refunded: break
      }
      sort()
    }

    /// The place of the period that an event names, which is added if it is new.
    private mutating func place(of transaction: TransactionID, _ event: StoreEvent) -> Int? {
      if let place = rows.firstIndex(where: { $0.transaction == transaction }) ?? placeByDate(event) { return place }
      guard let product = event.product, let purchasedAt = event.purchasedAt, event.change != .productChange,
        event.expiresAt != nil || event.change == .single
      else { return nil }
      rows.append(
        Row(
          transaction: transaction, product: product, purchasedAt: purchasedAt, expiresAt: event.expiresAt,
          boughtUntil: event.expiresAt, isSold: event.isSale, reportedAt: event.at, isTrial: event.isTrial ?? false,
          isIntroductoryOffer: event.isIntroductoryOffer ?? false, isPrepaid: event.isPrepaid ?? false,
          isFamilyShared: event.isFamilyShared ?? false, sale: event.isSale ? event.sale : nil))
      sort()
      return rows.firstIndex { $0.transaction == transaction }
    }

    /// Sales of the same date are separate periods.
    private func placeByDate(_ event: StoreEvent) -> Int? {
      guard let purchasedAt = event.purchasedAt else { return nil }
      return rows.firstIndex { $0.purchasedAt == purchasedAt && !($0.isSold && event.isSale) }
    }

    /// A refund, or the end of one.
    private mutating func settle(_ event: StoreEvent) {
      let named = event.transaction.flatMap { id in rows.firstIndex { $0.transaction == id } } ?? placeByDate(event)
      let newest = rows.lastIndex { $0.purchasedAt <= event.at && (event.change == .refunded || $0.refundedAt != nil) }
      guard let place = named ?? newest else { return }
      rows[place].reportedAt = max(rows[place].reportedAt, event.at)
      guard event.change == .refunded else {
        rows[place].refundedAt = nil
        if named == nil, let ended = rows[place].endedAt, ended <= event.at { rows[place].endedAt = nil }
        return
      }
      rows[place].refundedAt = min(rows[place].refundedAt ?? .distantFuture, event.at)
      refunded[event.id] = rows[place].transaction
    }

    private mutating func end(upTo place: Int, _ event: StoreEvent) {
      let end = min(event.expiresAt ?? event.at, event.at)
      for earlier in rows.indices where earlier <= place { rows[earlier].endedAt = end }
    }

    private mutating func sort() {
      rows.sort { one, other in
        one.purchasedAt == other.purchasedAt
          ? one.transaction.rawValue < other.transaction.rawValue : one.purchasedAt < other.purchasedAt
      }
    }
  }
}

extension StoreEvent {
  fileprivate var isSale: Bool { change == .period || change == .single }

  /// The owner of a purchase: the user of its first event, or of the last transfer.
  ///
  /// - Parameters:
  ///   - transfers: of any users.
  ///   - isInactive: whether the events until a moment give nothing at that moment.
  package static func owner(
    of events: [StoreEvent], transfers: [StoreTransfer], isInactive: ([StoreEvent], Date) -> Bool
  ) -> UserID? {
    let events = events.sorted { $0.precedes($1) }
    guard let first = events.first else { return nil }
    var owner = first.user
    for transfer in transfers.sorted(by: { $0.at == $1.at ? $0.id < $1.id : $0.at < $1.at })
    where transfer.from == owner && first.at <= transfer.at {
      if transfer.isOfInactive, !isInactive(events.filter { $0.at <= transfer.at }, transfer.at) { continue }
      owner = transfer.to
    }
    return owner
  }
}

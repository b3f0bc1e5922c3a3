import struct FoundationEssentials.Date

/// The evidence on one subscription, of all its keys: a customer has one subscription per subscription group.
///
/// Apple names the group only in `latest_receipt_info`. There, renewals under different original transaction IDs (the
/// sandbox assigns a new one to each) are still one subscription; elsewhere the ID stands for the group. A
/// family-shared subscription is separate from the customer's own in the same group: both may run at once, and the end
/// of one says nothing about the other. Two original transaction IDs that run at once are also separate: one customer
/// has two Apple accounts.
///
/// https://developer.apple.com/documentation/storekit/product/subscriptioninfo/status
struct SubscriptionGroup {
  /// A row with its context in the evidence.
  ///
  /// By its place, because rows are large and kept in sorted tables: a customer may have a thousand.
  struct Row: CustomStringConvertible {
    private final class Source: Sendable {
      let evidence: SubscriptionEvidence
      let readings: [SubscriptionEvidence.Reading]
      let products: [Catalog.Product?]

      init(_ readings: [SubscriptionEvidence.Reading], of evidence: SubscriptionEvidence, catalog: Catalog) {
        self.evidence = evidence
        self.readings = readings
        products = readings.map { catalog.product(of: $0.purchase, in: evidence) }
      }
    }

    private let source: Source
    private let place: Int

    static func all(
      _ readings: [SubscriptionEvidence.Reading], of evidence: SubscriptionEvidence, catalog: Catalog
    ) -> [Row] {
      let source = Source(readings, of: evidence, catalog: catalog)
      return readings.indices.map { Row(source: source, place: $0) }
    }

    // Lent, as a copy counts up each of a dozen texts.
    var evidence: SubscriptionEvidence { _read { yield source.evidence } }
    var reading: SubscriptionEvidence.Reading { _read { yield source.readings[place] } }
    var product: Catalog.Product? { _read { yield source.products[place] } }
    var purchase: Purchase { _read { yield source.readings[place].purchase } }
    var reportedAt: Date { reading.reportedAt }
    /// Apple never reported the row itself: a renewal info names its end.
    var isByRenewalInfo: Bool { reading.isByRenewalInfo }

    /// The full content, used as the last sort key.
    var description: String { "\(purchase) \(evidence) \(reportedAt) \(isByRenewalInfo)" }

    var originalTransactionID: OriginalTransactionID { purchase.originalTransactionID }

    /// The purchase that the row reports, if Apple names no end of it; `nil` also where nothing is known of its end.
    var purchaseWithoutExpiry: PurchaseWithoutExpiry? {
      guard reading.endsByCatalog || product?.kind == .lifetime && purchase.expiresDate == nil else { return nil }
      return PurchaseWithoutExpiry(purchase, in: evidence.key.environment)
    }

    var renewal: RenewalInfo? { evidence.renewal(of: reading) }

    /// When the commitment ends of which the row is a period, as far as Apple says. A row is part of the last commitment that
    /// a renewal info tells of, unless it begins after its end.
    var commitmentEnd: Date? {
      let told = evidence.terms(of: purchase)?.commitmentEndsAt.flatMap { end in
        purchase.begin.isBefore(end) ? end : nil
      }
      return told ?? purchase.sale?.terms?.commitmentEndsAt
    }

    /// Whether another commitment follows the row's; `nil` without one, and if Apple does not say.
    var commitmentRenews: Bool? {
      guard let terms = evidence.terms(of: purchase), commitmentEnd != nil,
        terms.commitmentEndsAt.map(purchase.begin.isBefore) ?? true
      else { return nil }
      return terms.commitmentRenews
    }

    /// When the row ended or will end: cut short by a cancellation, never for a lifetime purchase.
    ///
    /// Apple charges a renewal up to a day before it begins and may refund it within that day. Such a renewal ended
    /// when it would have begun, not before the period that it follows.
    var end: Date {
      let paidEnd = product?.kind == .lifetime ? Date.distantFuture : purchase.paidEnd
      guard var cancelled = purchase.cancellationDate else { return paidEnd }
      if product?.kind != .lifetime, let begin = purchase.purchaseDate { cancelled = max(cancelled, begin) }
      return min(paidEnd, cancelled)
    }

    /// When a row that grants nothing ended, as far as the evidence tells: never later than `now`.
    ///
    /// Apple does not date the deletion of an account; it came before the report of it.
    func knownEnd(at now: Date) -> Date {
      if cause == .upgraded { return min(end, evidence.upgradeDate(of: purchase)) }
      guard cause == .accountGone || now.isBefore(end) else { return end }
      return min(end, purchase.cancellationDate ?? .distantFuture, evidence.evaluatedAt)
    }

    /// Why the row grants nothing; `nil` when it is live.
    var cause: Explanation.PassedOver.Cause? {
      guard let product else { return .notCatalogued }
      if evidence.isAccountGone { return .accountGone }
      if purchase.isUpgraded { return .upgraded }
      if purchase.cancellationDate != nil { return .cancelled }
      if product.kind != .lifetime, purchase.expiresDate == nil { return .noExpiry }
      return nil
    }

    /// The row among those that did not decide: for its own cause, or else for another.
    func passedOver(or other: Explanation.PassedOver.Cause) -> Explanation.PassedOver {
      .init(transactionID: purchase.transactionID, productID: purchase.productID, cause: cause ?? other)
    }
  }

  private enum Identity: Hashable {
    case group(StoreEnvironment, SubscriptionGroupID, Purchase.Ownership)
    case key(SubscriptionKey)
  }

  private struct Transaction: Hashable {
    let environment: StoreEnvironment
    let id: TransactionID
    /// An inferred row has the ID of the row before it.
    let isByRenewalInfo: Bool
  }

  /// One billing period, with the same number under the new transaction ID of a restored purchase.
  ///
  /// The product and the end are part of it, since some old rows break Apple's promise that the number is unique.
  private struct Period: Hashable {
    let webOrderLineItemID: String
    let productID: ProductID
    let expiresDate: Date
  }

  let rows: [Row]
  /// The newest evaluation time of the evidence.
  let evaluatedAt: Date

  /// Groups a user's evidence. The order of evidence and of rows has no effect.
  /// - Parameter surroundings: of all the user's evidence; `nil`: this is all.
  static func groups(
    of evidence: [SubscriptionEvidence], among surroundings: PurchaseSurroundings? = nil, catalog: Catalog,
    policy: EntitlementPolicy
  ) -> [SubscriptionGroup] {
    if evidence.count == 1, let known = surroundings?.ofOnlyPurchase { return known }
    let periods = surroundings?.periods ?? NonRenewingPeriods(of: evidence, catalog: catalog)
    return groups(of: evidence, periods, catalog: catalog, policy: policy)
  }

  static func groups(
    of evidence: [SubscriptionEvidence], _ periods: NonRenewingPeriods, catalog: Catalog, policy: EntitlementPolicy
  ) -> [SubscriptionGroup] {
    // A row without a group belongs to the group of the other rows of its key.
    var groupOfKey: [SubscriptionKey: SubscriptionGroupID] = [:]
    for item in evidence {
      guard let group = item.purchases.lazy.compactMap(\.subscriptionGroupID).min(by: { $0.rawValue < $1.rawValue })
      else { continue }
      if let known = groupOfKey[item.key], known.rawValue <= group.rawValue { continue }
      groupOfKey[item.key] = group
    }
    // A consumable says nothing about any tier.
    let reported = evidence.flatMap { item in
      Row.all(periods.completing(item.readings(), in: item.key.environment), of: item, catalog: catalog).filter {
        $0.product?.kind != .consumable
      }
    }
    // Duplicates count once, from the newer evidence: here per transaction, and per purchase without an expiry; below per
    // billing period.
    let transactions = newest(of: reported) {
      Transaction(
        environment: $0.evidence.key.environment, id: $0.purchase.transactionID, isByRenewalInfo: $0.isByRenewalInfo)
    }
    let members = Dictionary(grouping: newest(of: transactions, by: \.purchaseWithoutExpiry)) { row in
      let key = row.evidence.key
      return (row.purchase.subscriptionGroupID ?? groupOfKey[key]).map {
        Identity.group(key.environment, $0, row.purchase.ownership)
      } ?? .key(key)
    }
    return members.values.compactMap { group(of: $0, catalog: catalog) }.flatMap { $0.parted(policy: policy) }
  }

  private static func group(of transactions: [Row], catalog: Catalog) -> SubscriptionGroup? {
    guard let evaluatedAt = transactions.map(\.evidence.evaluatedAt).max() else { return nil }
    let periods = newest(of: transactions) { row in
      let purchase = row.purchase
      guard let item = purchase.webOrderLineItemID, !item.isEmpty, let expires = purchase.expiresDate else {
        return nil as Period?
      }
      return Period(webOrderLineItemID: item, productID: purchase.productID, expiresDate: expires)
    }
    return SubscriptionGroup(
      rows: periods.sorted { isOrderedBefore($0, $1, catalog: catalog) }, evaluatedAt: evaluatedAt)
  }

  /// The group without the purchases that run beside its deciding row, and each of these as its own group.
  ///
  ///     the live row of another original transaction ID                       that ID is
  ///     ended by Apple's last report on it                                    part of this subscription
  ///     gave access then, and its period was over when the deciding row       part of it: its predecessor
  ///       was bought or reported
  ///     gave access then, and its period still ran when the deciding row      a separate subscription
  ///       was bought or reported
  ///
  /// Access is that of the decision table: also after the paid period, in a grace period for instance.
  ///
  /// The evaluation time has no effect: purchases that run side by side were both reported with access, and the end of
  /// one does not make the other its successor.
  private func parted(policy: EntitlementPolicy) -> [SubscriptionGroup] {
    // Rows are sorted by their end.
    guard let decidingRow = rows.first(where: { $0.cause == nil }),
      rows.contains(where: { $0.originalTransactionID != decidingRow.originalTransactionID })
    else { return [self] }
    let known = min(decidingRow.purchase.begin, decidingRow.reportedAt)
    var seen: Set = [decidingRow.originalTransactionID]
    var beside: Set<OriginalTransactionID> = []
    for row in rows where row.cause == nil && seen.insert(row.originalTransactionID).inserted {
      guard known.isBefore(row.end) else { continue }
      let own = SubscriptionGroup(
        rows: rows.filter { $0.originalTransactionID == row.originalTransactionID }, evaluatedAt: evaluatedAt)
      let asked = row.evidence.askedAt(row.reading, row.renewal)
      if own.decide(at: asked, policy: policy)?.isEntitled == true { beside.insert(row.originalTransactionID) }
    }
    guard !beside.isEmpty else { return [self] }
    return Dictionary(grouping: rows) { beside.contains($0.originalTransactionID) ? $0.originalTransactionID : nil }
      .values.map { rows in
        SubscriptionGroup(rows: rows, evaluatedAt: rows.map(\.evidence.evaluatedAt).max() ?? evaluatedAt)
      }
  }

  /// The newest row for each identity. Rows without an identity are all kept.
  private static func newest<ID: Hashable>(of rows: [Row], by identity: (Row) -> ID?) -> [Row] {
    guard rows.count > 1 else { return rows }
    var kept: [Row] = []
    kept.reserveCapacity(rows.count)
    var places = [ID: Int](minimumCapacity: rows.count)
    for row in rows {
      let id = identity(row)
      if let id, let place = places[id] {
        if supersedes(row, kept[place]) { kept[place] = row }
      } else {
        if let id { places[id] = kept.count }
        kept.append(row)
      }
    }
    return kept
  }

  /// Whether `a` supersedes `b`, another report of the same row.
  ///
  /// The later report does. Reports within one answer differ only if one has more information. The remaining
  /// comparisons make the result independent of the order.
  private static func supersedes(_ a: Row, _ b: Row) -> Bool {
    if a.reportedAt != b.reportedAt { return a.reportedAt > b.reportedAt }
    if a.evidence.isAccountGone != b.evidence.isAccountGone { return a.evidence.isAccountGone }
    if let more = a.purchase.saysMore(than: b.purchase) { return more }
    if a.evidence.evaluatedAt != b.evidence.evaluatedAt { return a.evidence.evaluatedAt > b.evidence.evaluatedAt }
    let texts = (String(describing: a.purchase), String(describing: b.purchase))
    if texts.0 != texts.1 { return texts.0 < texts.1 }
    let sources = (a.evidence.source.rawValue, b.evidence.source.rawValue)
    if sources.0 != sources.1 { return sources.0 > sources.1 }
    return a.evidence.key.originalTransactionID.rawValue < b.evidence.key.originalTransactionID.rawValue
  }

  /// The latest end first; ties go to the later purchase, then the higher tier, then the ID, so that Apple's order of
  /// rows has no effect.
  private static func isOrderedBefore(_ a: Row, _ b: Row, catalog: Catalog) -> Bool {
    if a.end != b.end { return a.end > b.end }
    if a.purchase.begin != b.purchase.begin { return a.purchase.begin > b.purchase.begin }
    let ranks = (a.product.map { catalog.rank(of: $0.tier) } ?? -1, b.product.map { catalog.rank(of: $0.tier) } ?? -1)
    if ranks.0 != ranks.1 { return ranks.0 > ranks.1 }
    return a.purchase.transactionID.rawValue > b.purchase.transactionID.rawValue
  }
}

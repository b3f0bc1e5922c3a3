package import struct FoundationEssentials.Date

/// The inferences from partial evidence. A snapshot reports these facts itself, and is used as it is; but that an
/// upgrade which was taken back took the former period with it, Apple never says, and of rows that stand in a receipt
/// alone it says no upgrade.
///
///     partial evidence                                   inference
///     a row, and a later purchase within its period      the row was upgraded: paid periods of one subscription do
///       that ends before it, or is of another product      not overlap, and an upgrade's notification reports the
///                                                          new row only. It stays so when the new one is refunded.
///     a renewal info that includes the latest            the running period was not reported: it counts until
///       purchase, with a later end than that row's         that end, for the product in the renewal info
///     a refund of a period that had ended, and a         the refund has no effect on the present: the row ended
///       renewal info after that end without an end         by time, and the outage hold applies as to any other
///     a renewal info from before a row's purchase        it does not apply to that row
///     a purchase that the answer does not have yet       the answer's renewal info does not apply to it. It does not
///                                                          count once it was upgraded, or was over at the answer
extension SubscriptionEvidence {
  package struct Reading: Sendable {
    package var purchase: Purchase
    var reportedAt: Date
    /// The row was never reported: the renewal info supplies its end, the latest purchase the rest.
    var isByRenewalInfo = false
    /// Apple names no end of the row: it is the catalog's.
    var endsByCatalog = false
  }

  /// The rows of the purchase as the rules read them.
  package func readings() -> [Reading] {
    var rows = purchases.map { Reading(purchase: $0, reportedAt: reportedAt($0)) }
    if case .partial(let since?) = coverage {
      rows.removeAll { isAhead($0) && ($0.purchase.isUpgraded || !since.isBefore($0.purchase.paidEnd)) }
    }
    markUpgraded(&rows)
    guard coverage != .snapshot else { return rows }
    guard let last = indexOfLastBought(rows), let renewal = newestRenewal else { return rows }
    if let unreported = period(known: rows[last], by: renewal) {
      rows.append(unreported)
    } else if let cancelled = rows[last].purchase.cancellationDate, let end = rows[last].purchase.expiresDate,
      isPartial(reportedAt: rows[last].reportedAt), !cancelled.isBefore(end),
      isPartial(reportedAt: reportedAt(renewal)), goesOn(renewal),
      !reportedAt(renewal).isBefore(end)
    {
      rows[last].purchase.cancellationDate = nil
    }
    return rows
  }

  /// The transactions ended by an upgrade, reported or inferred from a later purchase.
  package var upgradedTransactions: Set<TransactionID> {
    Set(readings().map(\.purchase).filter(\.isUpgraded).map(\.transactionID))
  }

  /// Whether the last answer does not have the row yet.
  func isAhead(_ row: Reading) -> Bool { row.purchase.transactionID == ahead && !row.isByRenewalInfo }

  /// When another purchase took the place of one that was upgraded; the time of the report, where that one is not known.
  package func upgradeDate(of purchase: Purchase) -> Date {
    let next = purchases.compactMap(\.purchaseDate).filter(purchase.begin.isBefore).min()
    return min(next ?? evaluatedAt, evaluatedAt)
  }

  /// The terms of the renewal of a row. The answer's are not those of a purchase that it does not have yet.
  package func terms(of purchase: Purchase) -> RenewalTerms? {
    guard purchase.transactionID == ahead else { return terms }
    return terms.flatMap { terms in terms.signedAt.map(isPartial) == true ? terms : nil }
  }

  /// Marks purchases that a later one replaced, in the order of purchase: an upgrade takes the place of all that runs.
  /// In a snapshot one is inferred only where it was taken back: of one that runs, Apple says so.
  private func markUpgraded(_ rows: inout [Reading]) {
    guard coverage != .snapshot || rows.contains(where: { $0.purchase.cancellationDate != nil }) else { return }
    let order = rows.indices.filter { rows[$0].purchase.purchaseDate != nil && rows[$0].purchase.expiresDate != nil }
      .sorted { rows[$0].purchase.begin.isBefore(rows[$1].purchase.begin) }
    for (place, other) in order.enumerated() {
      let later = rows[other].purchase
      func isPartial(_ index: Int) -> Bool {
        self.isPartial(reportedAt: rows[index].reportedAt) || self.isPartial(reportedAt: rows[other].reportedAt)
          || isAhead(rows[index]) || isAhead(rows[other])
      }
      let running = order[..<place].filter { index in
        let row = rows[index].purchase
        return !row.isUpgraded && row.begin.isBefore(later.begin) && later.begin.isBefore(row.cutEnd)
          && later.transactionID != row.transactionID
      }
      let isUpgrade = running.contains { index in
        rows[index].purchase.productID != later.productID && (isPartial(index) || later.cancellationDate != nil)
      }
      for index in running where isUpgrade || isPartial(index) && later.paidEnd.isBefore(rows[index].purchase.cutEnd) {
        rows[index].purchase.isUpgraded = true
      }
    }
  }

  /// Upgraded rows do not count: a later purchase replaced them.
  private func indexOfLastBought(_ rows: [Reading]) -> Int? {
    func isBelow(_ a: Int, _ b: Int) -> Bool {
      let (one, other) = (rows[a].purchase, rows[b].purchase)
      if one.begin != other.begin { return one.begin < other.begin }
      if one.paidEnd != other.paidEnd { return one.paidEnd < other.paidEnd }
      return one.transactionID.rawValue < other.transactionID.rawValue
    }
    return rows.indices.filter { rows[$0].purchase.expiresDate != nil && !rows[$0].purchase.isUpgraded }
      .max(by: isBelow)
  }

  private var newestRenewal: RenewalInfo? {
    func isBelow(_ a: RenewalInfo, _ b: RenewalInfo) -> Bool {
      let reported = (reportedAt(a), reportedAt(b))
      if reported.0 != reported.1 { return reported.0 < reported.1 }
      return (a.periodEnd ?? .distantPast) < (b.periodEnd ?? .distantPast)
    }
    return renewals.filter { $0.originalTransactionID.map { $0 == key.originalTransactionID } ?? false }.max(
      by: isBelow)
  }

  /// The period known only from a renewal info. If that reports an end or billing trouble, the period's end has to be
  /// past by then: the date of the next charge attempt is not an end.
  private func period(known last: Reading, by renewal: RenewalInfo) -> Reading? {
    let reported = reportedAt(renewal)
    guard let end = renewal.periodEnd, last.purchase.paidEnd.isBefore(end), speaks(renewal, of: last),
      goesOn(renewal) || !reported.isBefore(end)
    else { return nil }
    var purchase = last.purchase
    purchase.productID = renewal.productID ?? purchase.productID
    purchase.purchaseDate = purchase.expiresDate
    purchase.expiresDate = end
    purchase.cancellationDate = nil
    purchase.cancellationReason = nil
    purchase.webOrderLineItemID = nil
    purchase.isTrial = false
    purchase.isIntroductoryOffer = false
    purchase.sale = nil
    return Reading(purchase: purchase, reportedAt: reported, isByRenewalInfo: true)
  }

  package func renewal(of purchase: Purchase) -> RenewalInfo? {
    renewal(of: Reading(purchase: purchase, reportedAt: reportedAt(purchase)))
  }

  /// The renewal info that applies to a row: matched by the original transaction ID, or by the product if Apple gives
  /// no ID. Reports from before the row's purchase do not apply.
  package func renewal(of row: Reading) -> RenewalInfo? {
    let id = row.purchase.originalTransactionID
    let product = row.purchase.productID
    // Apple sends one element per product and ID; after a change of product the one of this product applies. The
    // remaining comparisons make the result independent of the order of elements.
    func isPreferred(_ a: RenewalInfo, over b: RenewalInfo) -> Bool {
      if (a.originalTransactionID == nil) != (b.originalTransactionID == nil) { return a.originalTransactionID != nil }
      if (a.productID == product) != (b.productID == product) { return a.productID == product }
      let grace = (a.gracePeriodExpiresDate ?? .distantPast, b.gracePeriodExpiresDate ?? .distantPast)
      if grace.0 != grace.1 { return grace.0 > grace.1 }
      return String(describing: a) > String(describing: b)
    }
    var preferred: RenewalInfo?
    for renewal in renewals
    where renewal.originalTransactionID.map({ $0 == id }) ?? (renewal.productID == product) && speaks(renewal, of: row)
    {
      if preferred.map({ isPreferred(renewal, over: $0) }) ?? true { preferred = renewal }
    }
    return preferred
  }

  /// Whether a renewal info applies to a row, other than the answer's to a purchase that it does not have yet:
  ///
  ///     the row had been bought by then, or was reported with it (signatures of one report may differ by a moment)
  ///     both have the same end: a renewal is reported up to a day before the date of its purchase, and its row may
  ///       have been reported again since
  ///     the renewal info says, within that day, that the same product renews: it did
  func speaks(_ renewal: RenewalInfo, of row: Reading) -> Bool {
    let reported = reportedAt(renewal)
    guard coverage != .snapshot, let bought = row.purchase.purchaseDate else { return true }
    if isAhead(row), !isPartial(reportedAt: reported) {
      return renewal.periodEnd.map { $0 == row.purchase.expiresDate } ?? false
    }
    if !reported.isBefore(bought) || !reported.advanced(by: .seconds(60)).isBefore(row.reportedAt) { return true }
    if let end = row.purchase.expiresDate, renewal.periodEnd == end { return true }
    return renewal.autoRenews == true && goesOn(renewal) && renewal.productID == row.purchase.productID
      && !reported.advanced(by: .seconds(86_400)).isBefore(bought)
  }

  /// Whether the renewal info reports no end: an ended subscription has a reason for its end, or is in billing retry.
  private func goesOn(_ renewal: RenewalInfo) -> Bool {
    (renewal.status ?? .active) == .active && renewal.isGraceOver != true
      && renewal.expirationIntent == nil && renewal.isInBillingRetry != true
      && !(renewal.gracePeriodExpiresDate.map { reportedAt(renewal).isBefore($0) } ?? false)
  }

  /// The time of Apple's report: a snapshot's rows are as of its answer.
  func saidAt(_ reported: Date) -> Date {
    guard case .partial(let since) = coverage else { return evaluatedAt }
    return isPartial(reportedAt: reported) ? reported : answeredAt ?? since ?? reported
  }

  /// Whether there is an answer of that time or later, whatever else was reported since.
  func isAnswered(since time: Date) -> Bool {
    (coverage == .snapshot ? evaluatedAt : answeredAt).map { !$0.isBefore(time) } ?? false
  }

  /// The newest time at which Apple is known to have reported on what follows a row. An end before that time is
  /// confirmed; an end since then came by time alone.
  ///
  ///     reported: the row, before its end                      the row's report
  ///     the row, after its end                                 before the end: a transaction never shows that it
  ///                                                              was not renewed, however often it is signed. A
  ///                                                              snapshot does
  ///     and the renewal, which ended or is in trouble          the later of both
  ///     and the renewal, which goes on, before the row's end   the renewal's report, if earlier: later signatures
  ///                                                              cover the same row
  ///     and the renewal, which goes on, after the row's end    before the end: a renewal was lost. Not if a
  ///                                                              snapshot says so: then the renewal is late
  func askedAt(_ row: Reading, _ renewal: RenewalInfo?) -> Date {
    guard coverage != .snapshot else { return evaluatedAt }
    let asked = saidAt(row.reportedAt)
    let beforeEnd = row.purchase.cutEnd.advanced(by: .milliseconds(-1))
    guard let renewal else { return isPartial(reportedAt: row.reportedAt) ? min(asked, beforeEnd) : asked }
    let reported = saidAt(reportedAt(renewal))
    guard goesOn(renewal) else { return max(asked, reported) }
    if !beforeEnd.isBefore(reported) { return min(asked, reported) }
    return isPartial(reportedAt: reportedAt(renewal)) ? min(asked, beforeEnd) : max(asked, reported)
  }
}

extension Purchase {
  var begin: Date { purchaseDate ?? .distantPast }

  var paidEnd: Date { expiresDate ?? .distantPast }

  /// The end of a period, or its earlier cancellation; a renewal refunded in advance ended when it would have begun.
  fileprivate var cutEnd: Date { min(paidEnd, max(cancellationDate ?? .distantFuture, begin)) }
}

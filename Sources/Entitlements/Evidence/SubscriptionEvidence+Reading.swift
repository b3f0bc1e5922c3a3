import struct FoundationEssentials.Date

/// What evidence that was told in parts leaves to be inferred. An answer that tells all says these things itself, and is
/// read as it is.
///
///     the parts tell                                          so
///     a row, and a later purchase that falls into its         it was upgraded: paid periods of one subscription do not
///       period, which ends before it, or is of another          overlap, and the notification of an upgrade tells the new
///       product and overlaps by more than a day                 row only. (A renewal may be bought up to a day ahead.)
///     a renewal info that knew of the row bought last,        the period that runs is one that was not told: it counts
///       and names a later end than that row has                 until that end, as of the product that the info names
///     a refund of a period that had ended, and a renewal      the refund says nothing of the present: the row ended by
///       info after that end by which it goes on                 time, and what it gave is held as for any other
///     a renewal info that was told before a row was bought    it says nothing of that row
extension SubscriptionEvidence {
  /// A row as it is to be judged.
  package struct Reading {
    var purchase: Purchase
    var reportedAt: Date
    /// The row itself was never told: its end is that of the renewal info, the rest that of the row bought last.
    var isByRenewalInfo = false
  }

  func readings() -> [Reading] {
    var rows = purchases.map { Reading(purchase: $0, reportedAt: reportedAt($0)) }
    guard coverage != .snapshot else { return rows }
    markUpgraded(&rows)
    guard let last = indexOfLastBought(rows), let renewal = newestRenewal else { return rows }
    if let untold = period(known: rows[last], by: renewal) {
      rows.append(untold)
    } else if let cancelled = rows[last].purchase.cancellationDate, let end = rows[last].purchase.expiresDate,
      isPartial(reportedAt: rows[last].reportedAt), !cancelled.isBefore(end),
      isPartial(reportedAt: reportedAt(renewal)), goesOn(renewal),
      !reportedAt(renewal).isBefore(end)
    {
      rows[last].purchase.cancellationDate = nil
    }
    return rows
  }

  private func markUpgraded(_ rows: inout [Reading]) {
    let day = Duration.seconds(86_400)
    let order = rows.indices.filter { rows[$0].purchase.purchaseDate != nil && rows[$0].purchase.expiresDate != nil }
      .sorted { rows[$0].purchase.begin.isBefore(rows[$1].purchase.begin) }
    for (place, index) in order.enumerated() {
      let row = rows[index].purchase
      for other in order[(place + 1)...] {
        let later = rows[other].purchase
        guard later.begin.isBefore(row.cutEnd) else { break }
        guard row.begin.isBefore(later.begin), later.transactionID != row.transactionID,
          isPartial(reportedAt: rows[index].reportedAt) || isPartial(reportedAt: rows[other].reportedAt)
        else { continue }
        let outlives = later.paidEnd.isBefore(row.cutEnd)
        let overlaps =
          later.productID != row.productID && row.cutEnd.isBefore(later.paidEnd)
          && later.begin.advanced(by: day).isBefore(row.cutEnd)
        if outlives || overlaps { rows[index].purchase.isUpgraded = true }
      }
    }
  }

  /// Upgraded rows apart: what was bought in their place is later.
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

  /// The period that only a renewal info tells of. Where that says that the subscription is over, or in trouble, the end
  /// has to be past by then: the date of a next attempt to charge is none.
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
    return Reading(purchase: purchase, reportedAt: reported, isByRenewalInfo: true)
  }

  /// What Apple says about the next renewal of a purchase.
  package func renewal(of purchase: Purchase) -> RenewalInfo? {
    renewal(of: Reading(purchase: purchase, reportedAt: reportedAt(purchase)))
  }

  /// What Apple says about the next renewal of a row: matched by the original transaction ID, by the product only where
  /// Apple gives no ID. Not what was told before the row was bought.
  package func renewal(of row: Reading) -> RenewalInfo? {
    let id = row.purchase.originalTransactionID
    let product = row.purchase.productID
    // Apple sends one element per product and ID; after a change of product the one of this product speaks. The rest of
    // the order only makes sure that the order in which elements come decides nothing.
    func isPreferred(_ a: RenewalInfo, over b: RenewalInfo) -> Bool {
      if (a.originalTransactionID == nil) != (b.originalTransactionID == nil) { return a.originalTransactionID != nil }
      if (a.productID == product) != (b.productID == product) { return a.productID == product }
      let grace = (a.gracePeriodExpiresDate ?? .distantPast, b.gracePeriodExpiresDate ?? .distantPast)
      if grace.0 != grace.1 { return grace.0 > grace.1 }
      return String(describing: a) > String(describing: b)
    }
    return
      renewals
      .filter { $0.originalTransactionID.map { $0 == id } ?? ($0.productID == product) }
      .filter { speaks($0, of: row) }
      .min { isPreferred($0, over: $1) }
  }

  /// Whether what Apple told of the renewal is true of the row.
  ///
  ///     the row had been bought by then, or was told with it (what is signed for one telling may differ by a moment)
  ///     its end is the one that the renewal info names: a renewal is told up to a day before the date of its purchase, and
  ///       its row may have been told again since
  ///     the renewal info says, within that day, that the same product renews: it did
  func speaks(_ renewal: RenewalInfo, of row: Reading) -> Bool {
    let reported = reportedAt(renewal)
    guard coverage != .snapshot, let bought = row.purchase.purchaseDate else { return true }
    if !reported.isBefore(bought) || !reported.advanced(by: .seconds(60)).isBefore(row.reportedAt) { return true }
    if let end = row.purchase.expiresDate, renewal.periodEnd == end { return true }
    return renewal.autoRenews == true && goesOn(renewal) && renewal.productID == row.purchase.productID
      && !reported.advanced(by: .seconds(86_400)).isBefore(bought)
  }

  /// Whether the renewal info knows of no end: had the subscription ended by then, it would say why, or that Apple is still
  /// trying to charge.
  private func goesOn(_ renewal: RenewalInfo) -> Bool {
    renewal.expirationIntent == nil && renewal.isInBillingRetry != true
      && !(renewal.gracePeriodExpiresDate.map { reportedAt(renewal).isBefore($0) } ?? false)
  }

  /// The newest moment at which Apple is known to have spoken about what comes after a row: what ended by then is over, and
  /// what ended since ended by time alone.
  ///
  ///     told of the row itself, before its end                      when the row was told
  ///     told of the row itself, after its end                       before the end: a transaction does not say that it was
  ///                                                                   not renewed, however often it is signed. An answer
  ///                                                                   that tells all does
  ///     and of the renewal, which ended or is in trouble            the later of both
  ///     and of the renewal, which goes on, before the row's end     when the renewal was told, if that is earlier: what
  ///                                                                   was signed anew since tells the same row
  ///     and of the renewal, which goes on, after the row's end      before the end: a renewal was lost. Not where an answer
  ///                                                                   that tells all says so: then the renewal is late
  func askedAt(_ row: Reading, _ renewal: RenewalInfo?) -> Date {
    guard case .partial(let since) = coverage else { return evaluatedAt }
    func moment(_ reported: Date) -> Date {
      isPartial(reportedAt: reported) ? reported : answeredAt ?? since ?? reported
    }
    let asked = moment(row.reportedAt)
    let beforeEnd = row.purchase.cutEnd.advanced(by: .milliseconds(-1))
    guard let renewal else { return isPartial(reportedAt: row.reportedAt) ? min(asked, beforeEnd) : asked }
    let reported = moment(reportedAt(renewal))
    guard goesOn(renewal) else { return max(asked, reported) }
    if !beforeEnd.isBefore(reported) { return min(asked, reported) }
    return isPartial(reportedAt: reportedAt(renewal)) ? min(asked, beforeEnd) : max(asked, reported)
  }
}

extension Purchase {
  fileprivate var begin: Date { purchaseDate ?? .distantPast }

  fileprivate var paidEnd: Date { expiresDate ?? .distantPast }

  /// The end of a period, cut short where it was cancelled; a renewal that was refunded ahead ended when it would have
  /// begun.
  fileprivate var cutEnd: Date { min(paidEnd, max(cancellationDate ?? .distantFuture, begin)) }
}

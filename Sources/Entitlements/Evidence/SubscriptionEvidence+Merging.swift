package import struct FoundationEssentials.Date

/// The merging of reports on one subscription.
///
/// A snapshot (`Coverage.snapshot`) is complete as of its evidence time. A signed transaction or a renewal info is a
/// partial report: it covers only itself, as of its signing time.
///
///     reports                                           result
///     two snapshots                                     the newer by evidence time, then by request time; both,
///                                                       if equal
///     a part, and a snapshot as new or newer            the snapshot; it included the part, or omitted it
///     a new purchase, and a snapshot as new or newer    both: Apple's answers may be a moment behind its signatures
///       that does not have it yet
///     a part, and an older snapshot                     both
///     one transaction in several parts                  the part signed last
///     the renewal, in several parts or snapshots        the newest report
///     a grace period that was told                      for good
///     a refund that a newer report does not show        lifted; remembered until an answer is an hour younger
///     the deletion of the account                       until a report newer than the answer that says so
///     the source                                        the newest report's
///     the sale of a transaction                         kept while the transaction stands: not every report has it
///     the terms of the next renewal                     those that were signed last: not every report has them
///
/// A new purchase is a period that had begun, to the minute, when Apple told of it, in a part or in an older snapshot. It
/// was bought later than every other transaction that is known, and at most `answerLag` before the snapshot. Only one
/// such transaction is kept. It counts unless it was upgraded, or over at the snapshot: see `readings`.
/// A snapshot that has it or a later one decides alone, and so does one that is taken later, or says that the account
/// is gone.
extension SubscriptionEvidence {
  /// The most partial transactions kept per subscription, the latest purchases first: ten years of weekly renewals.
  package static let partLimit = 520
  /// The longest time for which an answer of Apple's may lack a purchase.
  package static let answerLag: Duration = .seconds(3600)

  /// The combined evidence of two reports.
  ///
  /// The result does not depend on the order or number of reports: the operation is commutative, associative and
  /// idempotent. (Beyond `partLimit` only nearly: a snapshot in between may make room. So it is with two purchases of
  /// the same moment that an answer does not have yet, with one beside a renewal that a snapshot lists ahead of its
  /// begin, and with one beside the transaction of an account that an answer between them calls gone. And sales apart,
  /// on which no verdict hangs: omissions of a snapshot in between are not remembered.)
  ///
  /// Both have to be proven evidence of one subscription; provisional evidence, or another key, changes nothing.
  package func merging(_ other: SubscriptionEvidence) -> SubscriptionEvidence {
    guard key == other.key, provisionalUntil == nil, other.provisionalUntil == nil, self != other else { return self }
    let (mine, others) = (Reports(self), Reports(other))
    // A snapshot that supersedes all other evidence is returned unchanged.
    if coverage == .snapshot, others.isOver(with: mine) { return keeping(other) }
    if other.coverage == .snapshot, mine.isOver(with: others) { return other.keeping(self) }
    return mine.joined(with: others).evidence(of: key).keeping(self).keeping(other)
  }

  /// Adds what other evidence knows beyond its reports.
  package func keeping(_ other: SubscriptionEvidence) -> SubscriptionEvidence {
    keepingSales(of: other).keepingGrace(of: other).keepingRefund(of: other)
  }

  package func keepingGrace(of other: SubscriptionEvidence) -> SubscriptionEvidence {
    var kept = self
    let known = KnownGrace.latest(knownGrace, other.knownGrace)
    kept.grace = known == graceOfRenewals ? nil : known
    return kept
  }

  /// Adds prices, countries and offers that only other evidence has for the same transactions, and newer terms of the next
  /// renewal.
  private func keepingSales(of other: SubscriptionEvidence) -> SubscriptionEvidence {
    var kept = self
    kept.terms = [datedTerms, other.datedTerms].compactMap(\.self).max(by: RenewalTerms.precedes)
    if coverage == .snapshot, kept.terms?.signedAt == evidenceTime.inWholeMilliseconds { kept.terms?.signedAt = nil }
    guard other.purchases.contains(where: { $0.sale != nil }) else { return kept }
    let sales = Dictionary(other.purchases.map { ($0.transactionID, $0.sale) }) { $0 ?? $1 }
    for index in kept.purchases.indices {
      guard let known = sales[kept.purchases[index].transactionID] ?? nil else { continue }
      kept.purchases[index].sale = kept.purchases[index].sale?.completed(by: known) ?? known
    }
    return kept
  }

  private var datedTerms: RenewalTerms? {
    terms.map { terms in
      var dated = terms
      dated.signedAt = (terms.signedAt ?? evidenceTime).inWholeMilliseconds
      return dated
    }
  }

  /// Some transactions of this evidence, each a part with the time of its report.
  package func parts(where isIncluded: (Purchase) -> Bool) -> SubscriptionEvidence {
    let rows = purchases.filter(isIncluded).map { row in
      var row = row
      row.reportedAt = reportedAt(row)
      return row
    }
    return SubscriptionEvidence(
      key: key, source: source, evidenceTime: evidenceTime, evaluatedAt: evidenceTime, purchases: rows,
      coverage: .partial(since: nil))
  }

  /// The purchases of which this one is the successor, by a migration to another way of selling.
  package var formerKeys: Set<SubscriptionKey> {
    Set(
      purchases.compactMap { $0.sale?.terms?.previousOriginalTransactionID }.filter { $0 != key.originalTransactionID }
        .map { SubscriptionKey(environment: key.environment, originalTransactionID: $0) })
  }

  /// The transactions under the ID of the successor: parts of it, as no answer about the former ID knows the later ones.
  package func migrated(to successor: SubscriptionKey) -> SubscriptionEvidence {
    var moved = parts { _ in true }
    moved.key = successor
    moved.provisionalUntil = provisionalUntil
    for index in moved.purchases.indices {
      moved.purchases[index].originalTransactionID = successor.originalTransactionID
    }
    return moved
  }

  /// When Apple reported a row of this evidence.
  package func reportedAt(_ purchase: Purchase) -> Date {
    coverage == .snapshot ? evidenceTime : purchase.reportedAt ?? evidenceTime
  }

  func reportedAt(_ renewal: RenewalInfo) -> Date {
    coverage == .snapshot ? evidenceTime : renewal.reportedAt ?? evidenceTime
  }

  /// Whether a report of that time was partial, and not in a snapshot.
  func isPartial(reportedAt time: Date) -> Bool {
    switch coverage {
    case .snapshot: false
    case .partial(let since): since.map { $0.isBefore(time) } ?? true
    }
  }
}

/// Evidence in the form for merging: each report with its time.
private struct Reports {
  /// The newest snapshot.
  struct Answer {
    var evidenceTime: Date
    var evaluatedAt: Date
    var isAccountGone: Bool
  }

  var answer: Answer?
  var purchases: [TransactionID: Purchase] = [:]
  var renewals: [RenewalInfo] = []
  var source: EvidenceSource
  var evidenceTime: Date
  /// The transaction that the answer does not have yet.
  var ahead: TransactionID?

  init(_ evidence: SubscriptionEvidence) {
    source = evidence.source
    evidenceTime = evidence.evidenceTime.inWholeMilliseconds
    // Only a snapshot can say that the account is gone, even after a merge.
    let isSnapshot = evidence.isAccountGone || evidence.coverage == .snapshot
    for var purchase in evidence.purchases {
      purchase.reportedAt = isSnapshot ? evidenceTime : evidence.reportedAt(purchase).inWholeMilliseconds
      add(purchase)
    }
    renewals = evidence.renewals.map { renewal in
      var renewal = renewal
      renewal.reportedAt = isSnapshot ? evidenceTime : evidence.reportedAt(renewal).inWholeMilliseconds
      return renewal
    }
    keepNewestRenewals()
    if isSnapshot {
      answer = Answer(
        evidenceTime: evidenceTime, evaluatedAt: evidence.evaluatedAt.inWholeMilliseconds,
        isAccountGone: evidence.isAccountGone)
    } else if case .partial(let since) = evidence.coverage {
      ahead = evidence.ahead
      answer = since.map { since in
        Answer(
          evidenceTime: since.inWholeMilliseconds, evaluatedAt: (evidence.answeredAt ?? since).inWholeMilliseconds,
          isAccountGone: false)
      }
      let reported = purchases.values.compactMap(\.reportedAt) + renewals.compactMap(\.reportedAt)
      evidenceTime = (reported + [answer?.evidenceTime].compactMap { $0 }).max() ?? evidenceTime
    }
  }

  func isOver(with other: Reports) -> Bool {
    guard let newer = other.answer, evidenceTime <= newer.evidenceTime, other.newPurchase(in: purchases.values) == nil
    else { return false }
    guard let answer else { return true }
    return (answer.evidenceTime, answer.evaluatedAt) < (newer.evidenceTime, newer.evaluatedAt)
  }

  private mutating func add(_ purchase: Purchase) {
    if let known = purchases[purchase.transactionID], !purchase.supersedes(known) { return }
    purchases[purchase.transactionID] = purchase
  }

  func joined(with other: Reports) -> Reports {
    var joined = self
    if isBelow(other) {
      joined.evidenceTime = other.evidenceTime
      joined.source = other.source
    }
    let (mine, others) = (answer, other.answer)
    joined.answer = Self.newer(mine, others)
    joined.purchases = [:]
    joined.renewals = []
    joined.ahead = nil
    var left: [Purchase] = []
    for (one, answer) in [(self, mine), (other, others)] {
      // A snapshot's rows stand or fall with it; a partial report's fall when a snapshot is as new.
      let stands =
        answer.map {
          $0.evidenceTime == joined.answer?.evidenceTime && $0.evaluatedAt == joined.answer?.evaluatedAt
        } ?? true
      func isKept(_ time: Date?) -> Bool {
        guard let time, let newest = joined.answer?.evidenceTime else { return true }
        if newest.isBefore(time) { return true }
        return stands && answer?.evidenceTime == time
      }
      for purchase in one.purchases.values {
        if isKept(purchase.reportedAt), purchase.transactionID != one.ahead {
          joined.add(purchase)
        } else {
          left.append(purchase)
        }
      }
      joined.renewals += one.renewals.filter { isKept($0.reportedAt) }
    }
    joined.keepNewestRenewals()
    if let new = joined.newPurchase(in: left) {
      for purchase in left where purchase.transactionID == new { joined.add(purchase) }
      joined.ahead = new
    }
    return joined
  }

  /// The one of some transactions that the answer does not have yet.
  func newPurchase(in left: some Sequence<Purchase>) -> TransactionID? {
    guard let answer, !answer.isAccountGone else { return nil }
    // A renewal that was told ahead of its begin is later than the purchase only where the answer itself has it.
    let last =
      purchases.values.lazy.filter { $0.hasBegun || $0.reportedAt == answer.evidenceTime }.map(\.begin).max()
      ?? .distantPast
    return left.filter { purchase in
      purchase.expiresDate != nil && purchase.hasBegun && last < purchase.begin
        && !purchase.begin.advanced(by: SubscriptionEvidence.answerLag).isBefore(answer.evidenceTime)
    }.max { $0.precedes($1) }?.transactionID
  }

  /// Whether the other side has the source of the newest report.
  private func isBelow(_ other: Reports) -> Bool {
    if evidenceTime != other.evidenceTime { return evidenceTime < other.evidenceTime }
    if isSnapshot != other.isSnapshot { return other.isSnapshot }
    return source.rawValue > other.source.rawValue
  }

  private var isSnapshot: Bool { answer?.evidenceTime == evidenceTime }

  private static func newer(_ a: Answer?, _ b: Answer?) -> Answer? {
    guard let a, let b else { return a ?? b }
    if a.evidenceTime != b.evidenceTime { return a.evidenceTime < b.evidenceTime ? b : a }
    if a.evaluatedAt != b.evaluatedAt { return a.evaluatedAt < b.evaluatedAt ? b : a }
    var both = a
    both.isAccountGone = a.isAccountGone || b.isAccountGone
    return both
  }

  private mutating func keepNewestRenewals() {
    guard let newest = renewals.compactMap(\.reportedAt).max() else { return }
    renewals = Array(Set(renewals.filter { $0.reportedAt == newest })).sorted { $0.precedes($1) }
  }

  func evidence(of key: SubscriptionKey) -> SubscriptionEvidence {
    let isSnapshot = isSnapshot
    let isWhole = isSnapshot && ahead == nil
    var rows = purchases.values.sorted { $0.precedes($1) }
    if !isWhole { rows = rows.limited(toParts: SubscriptionEvidence.partLimit, since: answer?.evidenceTime) }
    var evidence = SubscriptionEvidence(
      key: key, source: source, evidenceTime: evidenceTime,
      // The request time of a partial report is its signing time.
      evaluatedAt: isSnapshot
        ? answer?.evaluatedAt ?? evidenceTime : max(answer?.evaluatedAt ?? evidenceTime, evidenceTime),
      purchases: rows, renewals: renewals, isAccountGone: isSnapshot && answer?.isAccountGone == true,
      coverage: isWhole ? .snapshot : .partial(since: answer?.evidenceTime),
      answeredAt: isWhole ? nil : answer?.evaluatedAt)
    evidence.ahead = ahead
    guard isWhole else { return evidence }
    for index in evidence.purchases.indices { evidence.purchases[index].reportedAt = nil }
    for index in evidence.renewals.indices { evidence.renewals[index].reportedAt = nil }
    return evidence
  }
}

extension [Purchase] {
  /// Drops the earliest-bought partial rows beyond the limit; keeps the order.
  fileprivate func limited(toParts limit: Int, since: Date?) -> [Purchase] {
    func isPartial(_ row: Purchase) -> Bool {
      guard let since, let reported = row.reportedAt else { return true }
      return since.isBefore(reported)
    }
    guard count(where: isPartial) > limit else { return self }
    var left = limit
    // Ordered from the latest purchase.
    return reversed().filter { row in
      guard isPartial(row) else { return true }
      left -= 1
      return left >= 0
    }.reversed()
  }
}

extension Purchase {
  /// Whether this report of a transaction supersedes another: the later report does. Reports of the same time differ
  /// only if one has more fields; the remaining comparisons make the result independent of the order.
  fileprivate func supersedes(_ other: Purchase) -> Bool {
    let reported = (reportedAt ?? .distantPast, other.reportedAt ?? .distantPast)
    if reported.0 != reported.1 { return reported.0 > reported.1 }
    return saysMore(than: other) ?? (String(describing: self) < String(describing: other))
  }

  /// Whether this report has more information than one of the same time: an end of the purchase wins.
  /// - Returns: `nil` if none has more.
  func saysMore(than other: Purchase) -> Bool? {
    let cancelled = (cancellationDate ?? .distantFuture, other.cancellationDate ?? .distantFuture)
    if cancelled.0 != cancelled.1 { return cancelled.0 < cancelled.1 }
    if isUpgraded != other.isUpgraded { return isUpgraded }
    if paidEnd != other.paidEnd { return paidEnd > other.paidEnd }
    return begin == other.begin ? nil : begin > other.begin
  }

  /// Whether the period had begun when Apple told of it; only in reports for merging, each with its time. A new purchase
  /// has been dated half a minute after its signature.
  fileprivate var hasBegun: Bool { reportedAt.map { !$0.advanced(by: .seconds(60)).isBefore(begin) } ?? false }

  /// Whether this is a period that was bought after all of some others.
  package func isPeriod(boughtAfter others: [Purchase]) -> Bool {
    expiresDate != nil && others.allSatisfy { $0.begin.isBefore(begin) }
  }

  /// The order of rows in merged evidence: by purchase date, then by report time.
  fileprivate func precedes(_ other: Purchase) -> Bool {
    if begin != other.begin { return begin < other.begin }
    return transactionID.rawValue < other.transactionID.rawValue
  }
}

extension RenewalInfo {
  fileprivate func precedes(_ other: RenewalInfo) -> Bool {
    let grace = (gracePeriodExpiresDate ?? .distantPast, other.gracePeriodExpiresDate ?? .distantPast)
    if grace.0 != grace.1 { return grace.0 > grace.1 }
    let end = (periodEnd ?? .distantPast, other.periodEnd ?? .distantPast)
    if end.0 != end.1 { return end.0 > end.1 }
    return String(describing: self) < String(describing: other)
  }
}

import struct FoundationEssentials.Date

/// How tellings of one subscription become one piece of evidence.
///
/// An answer that tells all (`.whole`) says as of its evidence time what there is. A signed transaction or a renewal info is
/// a part: it speaks of itself alone, as of the time it was signed.
///
///     what is told                                      what stands
///     two whole answers                                 the newer by evidence time, then the one that was asked for later;
///                                                       both, where neither is
///     a part, and a whole answer as new or newer        the answer; it knew of the part, or left it out
///     a part, and an older whole answer                 both
///     one transaction by several parts                  the part signed last
///     the renewal, by several parts or answers          what was told last
///     the deletion of the account                       as long as nothing was told after the answer that says so
///     the source                                        of what was told last
extension SubscriptionEvidence {
  /// So many transactions that were told in parts are kept of one subscription, those bought last: ten years of weekly
  /// renewals.
  package static let partLimit = 520

  /// What both tell together.
  ///
  /// Whatever the order in which tellings arrive, and however often each does, the same comes of it: the operation is
  /// commutative, associative and idempotent. (Beyond `partLimit` only nearly: a whole answer between may make room.)
  ///
  /// Both have to be proof of one subscription; what is provisional or of another one changes nothing.
  package func merging(_ other: SubscriptionEvidence) -> SubscriptionEvidence {
    guard key == other.key, provisionalUntil == nil, other.provisionalUntil == nil, self != other else { return self }
    let (mine, others) = (Tellings(self), Tellings(other))
    // An answer beside which nothing stands is left as it is.
    if coverage == .snapshot, others.isOver(with: mine) { return self }
    if other.coverage == .snapshot, mine.isOver(with: others) { return other }
    return mine.joined(with: others).evidence(of: key)
  }

  /// When Apple said so about a row of this evidence.
  func reportedAt(_ purchase: Purchase) -> Date {
    coverage == .snapshot ? evidenceTime : purchase.reportedAt ?? evidenceTime
  }

  /// When Apple said so about the next renewal.
  func reportedAt(_ renewal: RenewalInfo) -> Date {
    coverage == .snapshot ? evidenceTime : renewal.reportedAt ?? evidenceTime
  }

  /// Whether a telling of that time came on its own, and not with an answer that tells all.
  func isPartial(reportedAt time: Date) -> Bool {
    switch coverage {
    case .snapshot: false
    case .partial(let since): since.map { $0.isBefore(time) } ?? true
    }
  }
}

/// Evidence in the form in which it is merged: each telling with its time.
private struct Tellings {
  /// The newest answer that told all.
  struct Answer {
    var evidenceTime: Date
    var evaluatedAt: Date
    var isAccountGone: Bool
  }

  var answer: Answer?
  var purchases: [TransactionID: Purchase] = [:]
  var renewals: [RenewalInfo] = []
  /// Where the newest telling came from.
  var source: EvidenceSource
  var evidenceTime: Date

  init(_ evidence: SubscriptionEvidence) {
    source = evidence.source
    evidenceTime = evidence.evidenceTime.wholeMilliseconds
    // Only an answer about everything says that the account is gone, whatever it was put together with.
    let isSnapshot = evidence.isAccountGone || evidence.coverage == .snapshot
    for var purchase in evidence.purchases {
      purchase.reportedAt = isSnapshot ? evidenceTime : evidence.reportedAt(purchase).wholeMilliseconds
      add(purchase)
    }
    renewals = evidence.renewals.map { renewal in
      var renewal = renewal
      renewal.reportedAt = isSnapshot ? evidenceTime : evidence.reportedAt(renewal).wholeMilliseconds
      return renewal
    }
    keepNewestRenewals()
    if isSnapshot {
      answer = Answer(
        evidenceTime: evidenceTime, evaluatedAt: evidence.evaluatedAt.wholeMilliseconds,
        isAccountGone: evidence.isAccountGone)
    } else if case .partial(let since) = evidence.coverage {
      answer = since.map { since in
        Answer(
          evidenceTime: since.wholeMilliseconds, evaluatedAt: (evidence.answeredAt ?? since).wholeMilliseconds,
          isAccountGone: false)
      }
      let reported = purchases.values.compactMap(\.reportedAt) + renewals.compactMap(\.reportedAt)
      evidenceTime = (reported + [answer?.evidenceTime].compactMap { $0 }).max() ?? evidenceTime
    }
  }

  /// Whether nothing of it stands beside an answer.
  func isOver(with other: Tellings) -> Bool {
    guard let newer = other.answer, evidenceTime <= newer.evidenceTime else { return false }
    guard let answer else { return true }
    return (answer.evidenceTime, answer.evaluatedAt) < (newer.evidenceTime, newer.evaluatedAt)
  }

  private mutating func add(_ purchase: Purchase) {
    if let known = purchases[purchase.transactionID], !purchase.isTold(over: known) { return }
    purchases[purchase.transactionID] = purchase
  }

  func joined(with other: Tellings) -> Tellings {
    var joined = self
    if isBelow(other) {
      joined.evidenceTime = other.evidenceTime
      joined.source = other.source
    }
    let (mine, others) = (answer, other.answer)
    joined.answer = Self.newer(mine, others)
    joined.purchases = [:]
    joined.renewals = []
    for (one, answer) in [(self, mine), (other, others)] {
      // What an answer told goes with it; what was told on its own, when there is an answer as new.
      let stands = answer.map { $0.isAsOld(as: joined.answer) } ?? true
      func isKept(_ time: Date?) -> Bool {
        guard let time, let newest = joined.answer?.evidenceTime else { return true }
        if newest.isBefore(time) { return true }
        return stands && answer?.evidenceTime == time
      }
      for purchase in one.purchases.values where isKept(purchase.reportedAt) { joined.add(purchase) }
      joined.renewals += one.renewals.filter { isKept($0.reportedAt) }
    }
    joined.keepNewestRenewals()
    return joined
  }

  /// Whether the source of the newest telling is the other's.
  private func isBelow(_ other: Tellings) -> Bool {
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
    var rows = purchases.values.sorted { $0.precedes($1) }
    if !isSnapshot { rows = rows.limited(toParts: SubscriptionEvidence.partLimit, since: answer?.evidenceTime) }
    var evidence = SubscriptionEvidence(
      key: key, source: source, evidenceTime: evidenceTime,
      // A part was asked for when it was signed.
      evaluatedAt: isSnapshot
        ? answer?.evaluatedAt ?? evidenceTime : max(answer?.evaluatedAt ?? evidenceTime, evidenceTime),
      purchases: rows, renewals: renewals, isAccountGone: isSnapshot && answer?.isAccountGone == true,
      coverage: isSnapshot ? .snapshot : .partial(since: answer?.evidenceTime),
      answeredAt: isSnapshot ? nil : answer?.evaluatedAt)
    guard isSnapshot else { return evidence }
    for index in evidence.purchases.indices { evidence.purchases[index].reportedAt = nil }
    for index in evidence.renewals.indices { evidence.renewals[index].reportedAt = nil }
    return evidence
  }
}

extension Tellings.Answer {
  fileprivate func isAsOld(as other: Tellings.Answer?) -> Bool {
    evidenceTime == other?.evidenceTime && evaluatedAt == other?.evaluatedAt
  }
}

extension [Purchase] {
  /// Without the parts that were bought first, where there are more than the limit; in the order they have.
  fileprivate func limited(toParts limit: Int, since: Date?) -> [Purchase] {
    func isPartial(_ row: Purchase) -> Bool {
      guard let since, let reported = row.reportedAt else { return true }
      return since.isBefore(reported)
    }
    guard count(where: isPartial) > limit else { return self }
    var left = limit
    // Ordered from the one bought last.
    return reversed().filter { row in
      guard isPartial(row) else { return true }
      left -= 1
      return left >= 0
    }.reversed()
  }
}

extension Purchase {
  /// Whether this telling of a transaction is to be believed over another: the one told later is. Of one moment they differ
  /// only where one knows more, and the rest makes sure that the order in which they come decides nothing.
  fileprivate func isTold(over other: Purchase) -> Bool {
    let reported = (reportedAt ?? .distantPast, other.reportedAt ?? .distantPast)
    if reported.0 != reported.1 { return reported.0 > reported.1 }
    let cancelled = (cancellationDate ?? .distantFuture, other.cancellationDate ?? .distantFuture)
    if cancelled.0 != cancelled.1 { return cancelled.0 < cancelled.1 }
    if isUpgraded != other.isUpgraded { return isUpgraded }
    let expires = (expiresDate ?? .distantPast, other.expiresDate ?? .distantPast)
    if expires.0 != expires.1 { return expires.0 > expires.1 }
    let purchased = (purchaseDate ?? .distantPast, other.purchaseDate ?? .distantPast)
    if purchased.0 != purchased.1 { return purchased.0 > purchased.1 }
    return String(describing: self) < String(describing: other)
  }

  /// The order in which merged evidence has its rows: bought first, told first.
  fileprivate func precedes(_ other: Purchase) -> Bool {
    let purchased = (purchaseDate ?? .distantPast, other.purchaseDate ?? .distantPast)
    if purchased.0 != purchased.1 { return purchased.0 < purchased.1 }
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

extension Date {
  /// As it is written down.
  fileprivate var wholeMilliseconds: Date { Date(millisecondsSince1970: millisecondsSince1970) }
}

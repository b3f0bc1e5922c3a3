package import struct FoundationEssentials.Date

/// All of Apple's reports on billing grace periods of a subscription.
///
/// Apple names a grace period only while it runs; afterwards a subscription reads as if none had been granted. The dates
/// are the latest of all reports, which is enough to tell whether the period that ended last had a grace period: one of
/// an earlier period was reported before that period ended, or follows an earlier end.
package struct KnownGrace: Hashable, Sendable {
  /// The `gracePeriodExpiresDate` of the period that ended last, the latest if there are several.
  package var until: Date?
  /// The end of that period; `nil` if no report told it.
  package var after: Date?
  /// When Apple last said that one runs, without naming a date.
  package var runningAt: Date?
  /// When Apple last said that one is over.
  package var overAt: Date?

  package init(until: Date? = nil, after: Date? = nil, runningAt: Date? = nil, overAt: Date? = nil) {
    self.until = until
    self.after = after
    self.runningAt = runningAt
    self.overAt = overAt
  }

  static func latest(_ one: KnownGrace?, _ other: KnownGrace?) -> KnownGrace? {
    guard let one, let other else { return one ?? other }
    func latest(_ dates: Date?...) -> Date? { dates.compactMap(\.self).max() }
    let named = one.isNamedBefore(other) ? other : one
    return KnownGrace(
      until: named.until, after: named.after, runningAt: latest(one.runningAt, other.runningAt),
      overAt: latest(one.overAt, other.overAt))
  }

  private func isNamedBefore(_ other: KnownGrace) -> Bool {
    let (mine, others) = (after ?? .distantPast, other.after ?? .distantPast)
    return mine == others ? (until ?? .distantPast) < (other.until ?? .distantPast) : mine < others
  }

  /// The grace period of the period that ended then; `nil` if there was none.
  package func granted(after end: Date) -> KnownGrace? {
    let isOfEarlierPeriod = after.map { $0.isBefore(end) } ?? false
    let named = isOfEarlierPeriod ? nil : until.flatMap { end.isBefore($0) ? $0 : nil }
    let granted = KnownGrace(
      until: named, after: named == nil ? nil : after,
      runningAt: runningAt.flatMap { $0.isBefore(end) ? nil : $0 },
      overAt: overAt.flatMap { $0.isBefore(end) ? nil : $0 })
    return granted == KnownGrace() ? nil : granted
  }

  /// The end of the grace period after a period that ended then: until Apple says that it is over. Without a date it
  /// lasts a day after Apple's last report, and no longer than Apple's longest.
  package func lastEnd(after end: Date) -> Date? {
    let named = until.map { min($0, overAt ?? $0) }
    guard let runningAt, overAt.map({ $0.isBefore(runningAt) }) ?? true else { return named }
    let undated = min(
      runningAt.advanced(by: EntitlementPolicy.undatedGrace), end.advanced(by: EntitlementPolicy.longestGrace))
    return max(undated, named ?? undated)
  }
}

extension SubscriptionEvidence {
  /// The known grace periods, from earlier reports and from the renewal infos at hand.
  package var knownGrace: KnownGrace? { KnownGrace.latest(grace, graceOfRenewals) }

  var graceOfRenewals: KnownGrace? { renewals.lazy.map(grace).reduce(nil) { KnownGrace.latest($0, $1) } }

  /// Notes with each named grace period which period it follows: only the report itself tells.
  mutating func noteGracePeriods() {
    for index in renewals.indices {
      guard let until = renewals[index].gracePeriodExpiresDate else { continue }
      let ends = purchases.map(\.expiresDate) + [renewals[index].periodEnd]
      renewals[index].graceAfter = ends.compactMap { $0 }.filter { $0.isBefore(until) }.max()
    }
  }

  func grace(of renewal: RenewalInfo) -> KnownGrace? {
    let told = saidAt(reportedAt(renewal)).inWholeMilliseconds
    let isUndated = renewal.status == .billingGracePeriod && renewal.gracePeriodExpiresDate == nil
    let grace = KnownGrace(
      until: renewal.gracePeriodExpiresDate, after: renewal.graceAfter, runningAt: isUndated ? told : nil,
      overAt: renewal.isGraceOver == true ? told : nil)
    return grace == KnownGrace() ? nil : grace
  }
}

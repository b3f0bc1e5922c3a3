package import struct FoundationEssentials.Date

/// All of Apple's reports on billing grace periods of a subscription.
///
/// Apple names a grace period only while it runs; afterwards a subscription reads as if none had been granted. The dates
/// are the latest of all reports, which is enough to tell whether the period that ended last had a grace period: one of
/// an earlier period ended, or was reported, before that period did.
package struct KnownGrace: Hashable, Sendable {
  /// The latest `gracePeriodExpiresDate`.
  package var until: Date?
  /// When Apple last said that one runs, without naming a date.
  package var runningAt: Date?
  /// When Apple last said that one is over.
  package var overAt: Date?

  package init(until: Date? = nil, runningAt: Date? = nil, overAt: Date? = nil) {
    self.until = until
    self.runningAt = runningAt
    self.overAt = overAt
  }

  static func latest(_ one: KnownGrace?, _ other: KnownGrace?) -> KnownGrace? {
    guard let one, let other else { return one ?? other }
    func latest(_ dates: Date?...) -> Date? { dates.compactMap(\.self).max() }
    return KnownGrace(
      until: latest(one.until, other.until), runningAt: latest(one.runningAt, other.runningAt),
      overAt: latest(one.overAt, other.overAt))
  }

  /// The grace period of the period that ended then; `nil` if there was none.
  package func granted(after end: Date) -> KnownGrace? {
    let granted = KnownGrace(
      until: until.flatMap { end.isBefore($0) ? $0 : nil },
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

  func grace(of renewal: RenewalInfo) -> KnownGrace? {
    let told = saidAt(reportedAt(renewal)).inWholeMilliseconds
    let isUndated = renewal.status == .billingGracePeriod && renewal.gracePeriodExpiresDate == nil
    let grace = KnownGrace(
      until: renewal.gracePeriodExpiresDate, runningAt: isUndated ? told : nil,
      overAt: renewal.isGraceOver == true ? told : nil)
    return grace == KnownGrace() ? nil : grace
  }
}

/// The moments at which the store's knowledge of a customer changes.
///
/// They are found by comparing the states around each moment named in a timeline, so no scenario needs its own list.
struct TimelineEvents: Sendable {
  let timeline: Timeline

  /// - Returns: the moments after `from`, up to and including `to`, in order.
  func moments(after from: Timestamp, through to: Timestamp) -> [Timestamp] {
    let candidates =
      timeline.subscriptions(at: to).flatMap { $0.moments(through: to) }
      + timeline.oneTimePurchases.flatMap(\.moments) + timeline.extensions.map(\.madeAt)
    return Set(candidates).filter { from < $0 && $0 <= to }.sorted().filter { moment in
      timeline.state(at: moment.before) != timeline.state(at: moment)
    }
  }
}

extension Timestamp {
  /// The previous millisecond.
  var before: Timestamp { Timestamp(milliseconds: milliseconds - 1) }
}

extension Subscription {
  fileprivate func moments(through to: Timestamp) -> [Timestamp] {
    var moments = [
      renewalOffFrom, renewalOnAgainFrom, chargedAt, upgradedAt, nextProductFrom, migratedAt, commitment?.stoppedFrom,
    ].compactMap(\.self)
    moments += cancellations.map(\.at)
    for index in 0..<min(periods ?? Timeline.periodLimit, Timeline.periodLimit) {
      let period = period(index)
      guard period.start <= to else { break }
      moments += [period.start, shown(period.start), period.end]
      // Grace and retry follow the last period, whichever it is.
      if graceDays > 0 { moments.append(period.end.adding(days: graceDays)) }
      if retryDays > 0 { moments.append(period.end.adding(days: retryDays)) }
    }
    return moments
  }
}

extension OneTimePurchase {
  fileprivate var moments: [Timestamp] { [at, cancelledAt].compactMap(\.self) }
}

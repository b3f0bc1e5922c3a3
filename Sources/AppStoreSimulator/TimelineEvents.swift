/// The moments at which something changes in what the store knows of a customer.
///
/// Found by looking before and after each moment that a timeline names, so that no scenario keeps a list of its own.
struct TimelineEvents: Sendable {
  let timeline: Timeline

  /// - Returns: the moments after `from`, up to and including `to`, in their order.
  func moments(after from: Timestamp, through to: Timestamp) -> [Timestamp] {
    let candidates = timeline.subscriptions.flatMap { $0.moments(through: to) } + timeline.lifetimes.flatMap(\.moments)
    return Set(candidates).filter { from < $0 && $0 <= to }.sorted().filter { moment in
      timeline.state(at: moment.before) != timeline.state(at: moment)
    }
  }
}

extension Timestamp {
  /// The last millisecond that is earlier.
  var before: Timestamp { Timestamp(milliseconds: milliseconds - 1) }
}

extension Subscription {
  fileprivate func moments(through to: Timestamp) -> [Timestamp] {
    var moments = [renewalOffFrom, renewalOnAgainFrom, chargedAt, upgradedAt, nextProductFrom].compactMap(\.self)
    moments += cancellations.map(\.at)
    for index in 0..<min(periods ?? Timeline.periodLimit, Timeline.periodLimit) {
      let period = period(index)
      guard period.start <= to else { break }
      moments += [period.start, period.end]
      // Grace and retry follow whichever period turns out to be the last.
      if graceDays > 0 { moments.append(period.end.adding(days: graceDays)) }
      if retryDays > 0 { moments.append(period.end.adding(days: retryDays)) }
    }
    return moments
  }
}

extension LifetimePurchase {
  fileprivate var moments: [Timestamp] { [at, cancelledAt].compactMap(\.self) }
}

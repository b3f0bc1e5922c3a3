import CountersignAPI
import Entitlements
import Ledger
import Validation

import struct FoundationEssentials.Date

extension RunReport {
  init(_ run: Run, _ progress: RunProgress) {
    self.init(run.counts, run.order, state: .running)
    id = run.id.description
    startedAt = run.startedAt
    finishedAt = run.finishedAt
    switch run.state {
    case .running:
      rate = progress.rate(of: run.id)
      waitingFor = progress.obstacle(of: run.id)?.rawValue
    case .finished(let at):
      state = .finished
      rate = Self.rate(of: run, until: at)
    case .stopped(let reason, let at):
      state = .stopped
      stoppedReason = reason.rawValue
      rate = Self.rate(of: run, until: at)
    }
    // One digit after the point.
    rate = rate.map { ($0 * 10).rounded() / 10 }
  }

  /// The report of a dry run.
  init(counting due: Int, _ order: RunOrder) { self.init(RunCounts(due: due), order, state: .dryRun) }

  private init(_ counts: RunCounts, _ order: RunOrder, state: State) {
    self.init(
      state: state, expiringWithin: order.expiringWithin.configurationText, limit: order.limit, due: counts.due,
      done: counts.done, changed: counts.changed, failed: counts.failed, heldBack: counts.heldBack,
      remaining: counts.remaining)
  }

  /// Over the whole run.
  private static func rate(of run: Run, until end: Date) -> Double? {
    let seconds = end.timeIntervalSince(run.startedAt)
    return seconds > 0 ? Double(run.counts.settled) / seconds : nil
  }
}

import Entitlements
import Ledger
import Validation

import struct FoundationEssentials.Date

/// A run as callers see it; a dry run is one without an ID, of which nothing is done.
///
/// Every key is always there: `due` is `done`, `failed`, `held_back` and `remaining` together.
struct RevalidationBody: Encodable {
  private var id: String?
  private var state: String
  private var order: RunOrder
  private var counts: RunCounts
  private var rate: Double?
  private var obstacle: RunProgress.Obstacle?
  private var startedAt: Date?
  private var finishedAt: Date?
  private var stop: RunStop?

  init(_ run: Run, _ progress: RunProgress) {
    id = run.id.description
    order = run.order
    counts = run.counts
    startedAt = run.startedAt
    finishedAt = run.finishedAt
    switch run.state {
    case .running:
      state = "running"
      rate = progress.rate(of: run.id)
      obstacle = progress.obstacle(of: run.id)
    case .finished(let at):
      state = "finished"
      rate = Self.rate(of: run, until: at)
    case .stopped(let reason, let at):
      state = "stopped"
      stop = reason
      rate = Self.rate(of: run, until: at)
    }
  }

  /// What a run would take.
  init(counting due: Int, _ order: RunOrder) {
    state = "dry_run"
    self.order = order
    counts = RunCounts(due: due)
  }

  /// Over the whole run.
  private static func rate(of run: Run, until end: Date) -> Double? {
    let seconds = end.timeIntervalSince(run.startedAt)
    return seconds > 0 ? Double(run.counts.settled) / seconds : nil
  }

  enum CodingKeys: String, CodingKey {
    case id, state
    case expiringWithin = "expiring_within"
    case limit, due, done, changed, failed
    case heldBack = "held_back"
    case remaining, rate
    case waitingFor = "waiting_for"
    case startedAt = "started_at"
    case finishedAt = "finished_at"
    case stoppedReason = "stopped_reason"
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id, forKey: .id)
    try container.encode(state, forKey: .state)
    try container.encode(order.expiringWithin.configurationText, forKey: .expiringWithin)
    try container.encode(order.limit, forKey: .limit)
    try container.encode(counts.due, forKey: .due)
    try container.encode(counts.done, forKey: .done)
    try container.encode(counts.changed, forKey: .changed)
    try container.encode(counts.failed, forKey: .failed)
    try container.encode(counts.heldBack, forKey: .heldBack)
    try container.encode(counts.remaining, forKey: .remaining)
    try container.encode(rate.map { ($0 * 10).rounded() / 10 }, forKey: .rate)
    try container.encode(obstacle?.rawValue, forKey: .waitingFor)
    try container.encode(startedAt, forKey: .startedAt)
    try container.encode(finishedAt, forKey: .finishedAt)
    try container.encode(stop?.rawValue, forKey: .stoppedReason)
  }
}

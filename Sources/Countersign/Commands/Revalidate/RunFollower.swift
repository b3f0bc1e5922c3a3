import CountersignAPI
import Resilience

/// Starts a run and follows it to its end, through ended connections and restarts of the service.
struct RunFollower: Sendable {
  /// The end of a run, for the exit code.
  enum End: Hashable, Sendable {
    /// Finished or stopped, or counted only.
    case reported(ReceivedRun)
    /// The service could not be reached, or no more.
    case lost(RunClient.Failure, last: ReceivedRun?)
    /// Somebody wants the command to end; the run goes on.
    case interrupted(last: ReceivedRun?)
  }

  var client: RunClient
  var display: RunDisplay
  var clock: @Sendable () -> ContinuousClock.Instant = { .now }
  var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0, clock: .continuous) }

  /// For how long a service is tried that does not answer at all: before there is a run, and while one is under way, when
  /// it may be starting anew.
  static let patienceAtStart: Duration = .seconds(15)
  static let patience: Duration = .seconds(600)
  static let backoff = Backoff(base: .seconds(1), cap: .seconds(15))

  /// - Parameter isKnown: called for a run that somebody else has started.
  func run(_ order: RunRequest) async -> End {
    var last: ReceivedRun?
    do throws(RunClient.Failure) {
      let (started, isKnown) = try await insistently(for: Self.patienceAtStart) { () throws(RunClient.Failure) in
        try await client.start(order)
      }
      var report = started
      last = report
      if isKnown, let id = report.id, report.state == .running {
        display.note("run \(id) is under way already (expiring within \(report.expiringWithin)); this is its progress.")
      }
      var shownAt: ContinuousClock.Instant?
      while report.state == .running, let id = report.id {
        if display.style == .bar || shownAt.map({ clock() - $0 >= RunDisplay.lineInterval }) ?? true {
          display.show(report)
          shownAt = clock()
        }
        try await rest(display.interval)
        report = try await insistently(for: Self.patience) { () throws(RunClient.Failure) in
          try await client.report(of: id)
        }
        last = report
      }
      if display.style == .bar, report.state != .dryRun {
        display.show(report)
        display.end()
      }
      return .reported(report)
    } catch {
      if display.style == .bar, last != nil { display.end() }
      return error == .cancelled ? .interrupted(last: last) : .lost(error, last: last)
    }
  }

  /// Tries until there is an answer, for so long: after 1 s, 2 s, 4 s, … 15 s, or as the service asks.
  private func insistently<Value: Sendable>(
    for patience: Duration, _ operation: () async throws(RunClient.Failure) -> Value
  ) async throws(RunClient.Failure) -> Value {
    let end = clock() + patience
    var failures = 0
    while true {
      do throws(RunClient.Failure) { return try await operation() } catch {
        guard case .away(let reason, let retryAfter) = error else { throw error }
        let pause = retryAfter ?? Self.backoff.ceiling(after: failures)
        guard clock() + pause < end else { throw error }
        if failures == 0 { display.note("\(client.service.url): \(reason); trying again.") }
        failures += 1
        try await rest(pause)
      }
    }
  }

  private func rest(_ pause: Duration) async throws(RunClient.Failure) {
    do { try await sleep(pause) } catch { throw .cancelled }
  }
}

import CountersignAPI
import FoundationEssentials
import HTTPTransport

/// Talks to a running service about runs.
struct RunClient: Sendable {
  typealias Failure = ServiceClient.Failure

  var service: ServiceClient
  /// Names this wish, so that asking again for it starts nothing new.
  var idempotencyKey: String

  /// - Returns: the run, and whether it is one that was under way or known before.
  func start(_ order: RunRequest) async throws(Failure) -> (report: ReceivedRun, isKnown: Bool) {
    let response = try await service.post(
      "/v1/revalidations", order, headers: [TransportHeader("Idempotency-Key", idempotencyKey)])
    let report = try report(response)
    return (report, response.status == 200 && order.isDryRun != true)
  }

  func report(of run: String) async throws(Failure) -> ReceivedRun {
    try report(try await service.send(.get, "/v1/revalidations/\(run)"))
  }

  private func report(_ response: TransportResponse) throws(Failure) -> ReceivedRun {
    guard let run = ReceivedRun(body: response.body) else {
      throw .unreachable("the answer is not a run; is it Countersign that listens there?")
    }
    return run
  }
}

/// A run as the service reports it, checked, and the answer as it came.
@dynamicMemberLookup
struct ReceivedRun: Hashable, Sendable {
  private var report: RunReport
  /// One line, with what a newer service says more.
  var json: String

  var settled: Int { report.done + report.failed + report.heldBack }

  subscript<Value>(dynamicMember member: KeyPath<RunReport, Value>) -> Value { report[keyPath: member] }

  /// - Returns: `nil` for what is no run's report.
  init?(body: [UInt8]) {
    json = String(decoding: body.last == UInt8(ascii: "\n") ? body.dropLast() : body[...], as: UTF8.self)
    guard let report = try? JSONDecoder.countersign.decode(RunReport.self, from: Data(body)),
      [.running, .finished, .stopped, .dryRun].contains(report.state), report.id != nil || report.state == .dryRun,
      [report.due, report.done, report.changed, report.failed, report.heldBack, report.remaining]
        .allSatisfy({ $0 >= 0 }),
      // They are shown on a terminal.
      [report.id, report.expiringWithin, report.waitingFor, report.stoppedReason]
        .allSatisfy({ $0.map { ServiceClient.printable($0) == $0 } ?? true })
    else { return nil }
    self.report = report
  }
}

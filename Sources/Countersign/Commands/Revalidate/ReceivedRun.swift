import CountersignAPI
import FoundationEssentials

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

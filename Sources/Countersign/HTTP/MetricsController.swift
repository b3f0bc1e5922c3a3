import HTTPTransport
import HTTPTypes
import Hummingbird
import Ledger
import NIOCore

import struct FoundationEssentials.Date

/// `/metrics`: what waits, in Prometheus' text format. It names no user and no secret, and is open.
///
/// https://prometheus.io/docs/instrumenting/exposition_formats/
struct MetricsController: Sendable {
  var ledger: any Ledger
  var status: OperationalStatus
  var now: @Sendable () -> Date

  func metrics(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let now = now()
    var text = MetricsText()
    do {
      let backlog = try await ledger.backlog(at: now)
      text.gauge("countersign_ledger_up", "Whether the ledger can be read", 1)
      text.gauge(
        "countersign_pending_receipts", "Receipts answered 202 that wait for Apple", Double(backlog.pendingReceipts))
      text.gauge(
        "countersign_pending_receipts_age_seconds", "How long the oldest of them waits",
        Self.age(backlog.oldestPendingReceipt, now))
      text.gauge(
        "countersign_rechecks_due", "Subscriptions that Apple has to be asked about now", Double(backlog.rechecksDue))
      text.gauge(
        "countersign_rechecks_age_seconds", "How long the one that is overdue longest is",
        Self.age(backlog.oldestRecheck, now))
      if status.profileStore != nil {
        text.gauge(
          "countersign_outbox_depth", "Profiles that are not up to date in the profile store", Double(backlog.updates))
        text.gauge(
          "countersign_outbox_age_seconds", "How long the oldest of them waits", Self.age(backlog.oldestUpdate, now))
        if let code = backlog.lastProblem {
          text.gauge(
            "countersign_outbox_last_error", "Why the update that failed last did: the store's code", 1,
            label: ("code", code))
        }
        text.gauge(
          "countersign_missing_profiles", "Users without a row in the profile store", Double(backlog.missingProfiles))
      }
    } catch {
      text.gauge("countersign_ledger_up", "Whether the ledger can be read", 0)
    }
    for (upstream, breaker) in status.breakers {
      text.gauge(
        "countersign_breaker_open", "0 closed, 0.5 tried with one call, 1 open: nothing is sent",
        breaker.state == .closed ? 0 : breaker.state == .open ? 1 : 0.5, label: ("upstream", upstream))
      text.counter(
        "countersign_breaker_refused_total", "Calls that were not made, as the breaker was open",
        Double(breaker.counts.refused), label: ("upstream", upstream))
    }
    text.gauge(
      "countersign_downgrade_brake_engaged", "1: nobody is lowered by the service until somebody releases the brake",
      status.brake.isEngaged ? 1 : 0)
    text.gauge("countersign_clock_skew_seconds", "How far the machine's clock is ahead", status.clock.skew ?? 0)
    return Response(
      status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8", .cacheControl: "no-store"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text.lines)))
  }

  private static func age(_ since: Date?, _ now: Date) -> Double { max(0, since.map(now.timeIntervalSince) ?? 0) }
}

/// Lines of the exposition format: a metric's help and type once, before its first value.
struct MetricsText {
  private(set) var lines = ""
  private var described: Set<String> = []

  mutating func gauge(_ name: String, _ help: String, _ value: Double, label: (String, String)? = nil) {
    add(name, "gauge", help, value, label)
  }

  mutating func counter(_ name: String, _ help: String, _ value: Double, label: (String, String)? = nil) {
    add(name, "counter", help, value, label)
  }

  private mutating func add(
    _ name: String, _ type: String, _ help: String, _ value: Double, _ label: (String, String)?
  ) {
    if described.insert(name).inserted { lines += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n" }
    lines += name + (label.map { "{\($0.0)=\"\($0.1)\"}" } ?? "") + " \(value)\n"
  }
}

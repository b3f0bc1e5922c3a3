import Entitlements
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStore
@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// The counts of requests, of calls to Apple, of verdicts, and of writes.
@Suite struct RequestMetricsTests {
  private func page(_ service: RunningService) async throws -> Exposition {
    try Exposition(try await service.send(.get, "/metrics", key: nil).text)
  }

  @Test func `after a known sequence of requests the counts are exact`() async throws {
    try await RunningService.besideStores(deadline: "4s", jobPause: .seconds(3600)) {
      service, store, _, _ in
      let renewing = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let grace = try store.simulator.issueReceipt(.grace, subscriber: 2).receiptData
      #expect(try await service.validate(renewing, user: "user-1").status == 200)
      #expect(try await service.validate(grace, user: "user-2").status == 200)
      #expect(try await service.validate(renewing, user: "user-2").status == 409)
      #expect(try await service.validate("{}", user: "user-3").status == 400)
      #expect(try await service.validate(renewing, key: "no-such-key").status == 401)
      for _ in 0..<3 { #expect(try await service.profile("user-1").status == 200) }
      #expect(try await service.send(.get, "/nothing/\(UUID())", key: nil).status == 404)
      #expect(try await service.send(.delete, "/v1/validations").status == 405)

      let page = try await page(service)
      func requests(_ route: String, _ method: String, _ code: Int) -> Double? {
        page["countersign_http_requests_total", ["route": route, "method": method, "code": "\(code)"]]
      }
      #expect(requests("/v1/validations", "POST", 200) == 2)
      #expect(requests("/v1/validations", "POST", 409) == 1)
      #expect(requests("/v1/validations", "POST", 400) == 1)
      #expect(requests("/v1/validations", "POST", 401) == 1)
      #expect(requests("/v1/validations", "DELETE", 405) == 1)
      #expect(requests("/v1/profiles/{user_id}", "GET", 200) == 3)
      #expect(requests("none", "GET", 404) == 1)
      #expect(page.total("countersign_http_requests_total") == 10)
      #expect(page["countersign_http_request_duration_seconds_count", ["route": "/v1/validations"]] == 6)
      // The one that asks.
      #expect(page["countersign_http_requests_in_flight"] == 1)

      let endpoint = ["endpoint": "verify_receipt", "environment": "production"]
      let production = endpoint.merging(["status": "0"]) { $1 }
      #expect(page["countersign_app_store_requests_total", production] == 3)
      #expect(page["countersign_app_store_request_duration_seconds_count", endpoint] == 3)
      #expect(page.total("countersign_verdicts_total") == 2)
      #expect(
        page["countersign_verdicts_total", ["tier": "pro", "status": "active", "reason": "renewing"]] == 1)
      #expect(
        page[
          "countersign_verdicts_total", ["tier": "pro", "status": "grace_period", "reason": "billing_grace"]] == 1)
      #expect(page["countersign_profile_writes_total", ["outcome": "applied"]] == 2)
      #expect(page["countersign_profile_write_duration_seconds_count"] == 2)
      #expect(page["countersign_profile_store_misconfigured"] == 0)

      let commits = page["countersign_ledger_commit_writes_count"] ?? 0
      #expect(commits >= 4)
      #expect(page["countersign_ledger_commit_duration_seconds_count"] == commits)
      #expect((page["countersign_ledger_commit_writes_sum"] ?? 0) >= commits)
      #expect(page["countersign_ledger_waiting_writes"] == 0)
      #expect(page.total("countersign_build_info") == 1)
      #expect(page["countersign_tls_certificate_expiry_timestamp_seconds"] == nil)
    }
  }

  @Test func `a trouble of Apple's shows by its status, and the shared secret by a metric of its own`() async throws {
    try await RunningService.besideStore(
      settings: Settings(appStore: ["deadline": "5s"]), jobPause: .seconds(3600)
    ) { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await page(service)["countersign_app_store_shared_secret_rejected"] == 0)
      store.simulator.setTrouble(.status21004, count: 1, environment: nil)
      _ = try await service.validate(receipt)
      store.simulator.setTrouble(.http503, count: 1, environment: nil)
      #expect(try await page(service)["countersign_app_store_shared_secret_rejected"] == 1)
      _ = try await service.validate(receipt)
      let page = try await page(service)
      for (status, count) in [("21004", 1.0), ("http_5xx", 1), ("0", 1)] {
        let labels = ["endpoint": "verify_receipt", "environment": "production", "status": status]
        #expect(page["countersign_app_store_requests_total", labels] == count, "\(status)")
      }
    }
  }

  @Test func `methods and paths that anybody can make up do not make metrics`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      // The service lingers on a connection that did not speak HTTP, so these are few.
      for number in 0..<3 {
        _ = try await service.exchange(
          "MADEUP\(number) /v1/x-\(number) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      }
      for number in 0..<30 { _ = try await service.profile("user-\(number)") }
      let page = try await page(service)
      let samples = page.samples.filter { $0.name == "countersign_http_requests_total" && $0.value > 0 }
      #expect(samples.count <= 3)
      let read = ["route": "/v1/profiles/{user_id}", "method": "GET", "code": "200"]
      #expect(page["countersign_http_requests_total", read] == 30)
      #expect(!samples.contains { $0.labels.values.contains { $0.contains("MADEUP") || $0.contains("x-") } })
    }
  }

  @Test func `two services in one process count apart`() async throws {
    try await RunningService.run(apple: .unreachable) { first in
      try await RunningService.run(apple: .unreachable) { second in
        let answer = try await first.profile()
        #expect(answer.status == 200)
        let route = ["route": "/v1/profiles/{user_id}", "method": "GET", "code": "200"]
        #expect(try await page(first)["countersign_http_requests_total", route] == 1)
        #expect(try await page(second)["countersign_http_requests_total", route] == nil)
      }
    }
  }

  // MARK: - Labels and the process

  @Test func `each of Apple's answers becomes one of few words`() {
    var labels: Set<String> = []
    for status in -5...30_000 { labels.insert(VerifyReceiptAttempt.Outcome.status(status).label) }
    for status in 0...1_000 { labels.insert(VerifyReceiptAttempt.Outcome.http(status).label) }
    for error in [
      TransportError.resolve, .connect, .tls("a"), .timedOut, .tooLarge(limit: 1), .reset, .protocolViolation("b"),
      .overloaded, .cancelled, .shutDown, .other(code: 5), .invalidRequest("c"),
    ] { labels.insert(VerifyReceiptAttempt.Outcome.transport(error).label) }
    labels.insert(VerifyReceiptAttempt.Outcome.malformed("anything").label)
    for code in -5...6_000 { labels.insert(serverAPILabel(.error(httpStatus: 404, errorCode: code))) }
    for code in 4_000_000..<4_000_100 { labels.insert(serverAPILabel(.error(httpStatus: 400, errorCode: code))) }
    for code in 4_030_000..<4_030_100 { labels.insert(serverAPILabel(.error(httpStatus: 403, errorCode: code))) }
    for code in 4_040_000..<4_040_100 { labels.insert(serverAPILabel(.error(httpStatus: 404, errorCode: code))) }
    labels.formUnion([serverAPILabel(.answered), serverAPILabel(.http(401)), serverAPILabel(.refused("anything"))])
    #expect(labels.count < 70)
    // An alert says that the service does not know an answer: those of its daily work are no such.
    #expect(labels.isSuperset(of: ["4000012", "4000014", "4030005", "4040007", "4040008"]))
    #expect(labels.isSuperset(of: ["200", "4040010", "http_4xx"]))
    #expect(labels.isSuperset(of: ["0", "21007", "21100-21199", "unknown", "http_429", "http_5xx", "timed_out"]))
  }

  private func serverAPILabel(_ outcome: ServerAPIAttempt.Outcome) -> String { outcome.label }

  @Test func `the process tells what it uses`() {
    let statistics = ProcessStatistics.current()
    #expect((statistics.cpuSeconds ?? 0) > 0)
    #expect((statistics.residentBytes ?? 0) > 1_048_576)
    #expect((statistics.openFiles ?? 0) >= 3)
    #expect((statistics.maxFiles ?? 0) > 3)
    let age = Date().timeIntervalSince1970 - (statistics.startTime ?? 0)
    #expect(age > -60 && age < 86_400)
  }

  @Test func `a process by any name is read`() {
    let stat = "12 (a) b) c) S " + (4...21).map(String.init).joined(separator: " ") + " 5000 1 2"
    #expect(ProcessStatistics.startTime(stat: stat, system: "cpu 1\nbtime 1000\n", ticks: 100) == 1_050)
    #expect(ProcessStatistics.startTime(stat: "12 (x) S 1", system: "btime 1000\n", ticks: 100) == nil)
    #expect(ProcessStatistics.startTime(stat: stat, system: "", ticks: 100) == nil)
    #expect(ProcessStatistics.residentBytes(statm: "100 25 3 4", pageSize: 4_096) == 102_400)
    #expect(ProcessStatistics.residentBytes(statm: "", pageSize: 4_096) == nil)
  }
}

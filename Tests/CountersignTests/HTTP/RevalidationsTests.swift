import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator

/// `/v1/revalidations` over HTTP.
@Suite struct RevalidationsTests {
  static let wish = #"{"expiring_within":"20d"}"#

  /// - Parameter jobPause: an hour, and nothing is done for a run but what the test sees.
  private func run(
    users: Int, jobPause: Duration = .seconds(3600),
    body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await RunningService.besideStore(
      settings: Settings(revalidation: ["rate": "1000"]), jobPause: jobPause
    ) { service, store in
      for number in 0..<users {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number + 1)).receiptData
        #expect(try await service.validate(receipt, user: "user-\(number)").status == 200)
      }
      store.simulator.resetCalls()
      try await body(service, store)
    }
  }

  private func start(
    _ service: RunningService, _ body: String = wish, key: String? = RunningService.serviceKey,
    headers: [TransportHeader] = []
  ) async throws -> Answer {
    try await service.send(.post, "/v1/revalidations", key: key, body: body, headers: headers)
  }

  @Test func `a run is started, worked on, and read to its end`() async throws {
    try await run(users: 5, jobPause: .milliseconds(20)) { service, store in
      let started = try await start(service)
      #expect(started.status == 202)
      #expect(
        started.text
          == #"{"changed":0,"done":0,"due":5,"expiring_within":"20d","failed":0,"finished_at":null,"held_back":0,"#
          + #""id":"1","limit":100000,"rate":null,"remaining":5,"started_at":"2024-06-15T12:00:00Z","#
          + #""state":"running","stopped_reason":null,"waiting_for":null}"# + "\n")
      let location = try #require(started.header("Location"))
      #expect(location == "/v1/revalidations/1")
      try await eventually { try await service.send(.get, location)["state"] == "finished" }
      let ended = try await service.send(.get, location, key: RunningService.supportKey)
      #expect(ended.status == 200)
      #expect(ended["done"] == "5" && ended["remaining"] == "0" && ended["failed"] == "0")
      #expect(ended["finished_at"] == "2024-06-15T12:00:00Z")
      #expect(ended.header("Cache-Control") == "no-store")
      #expect(store.simulator.calls.total == 5)
    }
  }

  @Test func `the last runs are listed, the newest first`() async throws {
    try await run(users: 2, jobPause: .milliseconds(20)) { service, _ in
      #expect(try await service.send(.get, "/v1/revalidations").text == #"{"runs":[]}"# + "\n")
      for id in 1...2 {
        _ = try await start(service)
        try await eventually { try await service.send(.get, "/v1/revalidations/\(id)")["state"] == "finished" }
      }
      let listed = try await service.send(.get, "/v1/revalidations", key: RunningService.supportKey)
      #expect(listed.array("runs").map { $0["id"] as? String } == ["2", "1"])
      #expect(listed.header("Cache-Control") == "no-store")
    }
  }

  @Test func `a dry run counts and does nothing`() async throws {
    try await run(users: 3, jobPause: .milliseconds(20)) { service, store in
      let counted = try await start(service, #"{"expiring_within":"20d","limit":2,"dry_run":true}"#)
      #expect(counted.status == 200)
      #expect(counted.header("Location") == nil)
      #expect(counted["state"] == "dry_run" && counted["id"] == "null" && counted["due"] == "2")
      #expect(try await start(service, #"{"expiring_within":"15d","dry_run":true}"#)["due"] == "0")
      #expect(try await service.ledger.activeRun() == nil)
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `a second wish finds the run that is under way, and nothing is done twice`() async throws {
    try await run(users: 3) { service, _ in
      let first = try await start(service)
      #expect(first.status == 202)
      let second = try await start(service, #"{"expiring_within":"40d"}"#)
      #expect(second.status == 200)
      #expect(second.header("Location") == first.header("Location"))
      #expect(second.text == first.text)
      #expect(try await start(service, #"{"expiring_within":"40d","dry_run":true}"#)["state"] == "dry_run")
    }
  }

  private static let mistakes = [
    ("{}", "'expiring_within' is missing"),
    (#"{"expiring_within":null}"#, "'expiring_within' is missing"),
    (#"{"expiring_within":"soon"}"#, "'expiring_within' must be a duration such as"),
    (#"{"expiring_within":"24"}"#, "'expiring_within' must be a duration such as"),
    (#"{"expiring_within":"-1h"}"#, "'expiring_within' must be a duration such as"),
    (#"{"expiring_within":"367d"}"#, "'expiring_within' must be from 0 to 366d"),
    (#"{"expiring_within":24}"#, "'expiring_within' has another type"),
    (#"{"expiring_within":"24h","limit":0}"#, "'limit' has to be from 1 to 100000"),
    (#"{"expiring_within":"24h","limit":100001}"#, "'limit' has to be from 1 to 100000"),
    (#"{"expiring_within":"24h","limit":"10"}"#, "'limit' has another type"),
    (#"{"expiring_within":"24h","limit":1.5}"#, "or a number in it is not whole"),
    (#"{"expiring_within":"24h","dry_run":"yes"}"#, "'dry_run' has another type"),
    (#"{"expiring_withn":"24h"}"#, "did you mean 'expiring_within'?"),
    (#"{"expiring_within":"24h","zzzzzzzzz":1}"#, "takes 'expiring_within', 'limit', 'dry_run'."),
    (#"{"expiring_within":"1h","expiring_within":"2h"}"#, "'expiring_within' is given twice"),
    ("[]", "has to be a JSON object"),
    ("{", "not valid JSON"),
    ("", "The body is empty"),
  ]

  @Test func `a wrong request for a run is refused with its mistake, and starts nothing`() async throws {
    try await run(users: 1) { service, _ in
      for (body, detail) in Self.mistakes {
        let answer = try await start(service, body)
        #expect(answer.status == 400, "\(body): \(answer.text)")
        #expect(answer["code"] == "malformed_request")
        #expect(answer["detail"]?.contains(detail) == true, "\(body): \(answer.text)")
      }
      let long = #"{"expiring_within":"24h","x":"\#(String(repeating: "x", count: 5_000))"}"#
      #expect(try await start(service, long).status == 413)
      #expect(
        try await start(service, Self.wish, headers: [TransportHeader("Content-Type", "text/plain")]).status == 415)
      for key in ["", "two words", String(repeating: "k", count: 129)] {
        let answer = try await start(service, headers: [TransportHeader("Idempotency-Key", key)])
        #expect(answer.status == 400 && answer["detail"]?.contains("'Idempotency-Key'") == true, "\(key)")
      }
      #expect(try await service.ledger.activeRun() == nil)
    }
  }

  @Test func `a run is known by its number alone`() async throws {
    try await run(users: 1) { service, _ in
      #expect(try await start(service).status == 202)
      #expect(try await service.send(.put, "/v1/revalidations", body: "{}").status == 405)
      #expect(try await service.send(.post, "/v1/revalidations/1", body: "{}").status == 405)
      for id in ["2", "0", "-1", "01", "+1", "abc", "1e3", "99999999999999999999", "%31"] {
        let answer = try await service.send(.get, "/v1/revalidations/\(id)")
        #expect(answer.status == 404, "\(id)")
        #expect(answer["code"] == "not_found")
      }
    }
  }
}

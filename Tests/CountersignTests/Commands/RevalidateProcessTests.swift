import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `countersign revalidate` as it is run, against a service that runs.
@Suite struct RevalidateProcessTests {
  private func command(_ arguments: [String], at service: String, key: String? = RunningService.serviceKey) async throws
    -> ChildProcess.Ending
  {
    try await ChildProcess.countersign(["revalidate", "--url", service] + arguments, key: key).ending()
  }

  private func run(
    users: Int, settings: Settings = Settings(revalidation: ["rate": "1000"]), clock: MovingClock? = nil,
    jobPause: Duration = .milliseconds(20), scenario: Scenario = .renewing,
    body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    let clock = clock ?? MovingClock()
    try await RunningService.besideStore(settings: settings, jobPause: jobPause, now: { clock.date }) {
      service, store in
      for number in 0..<users {
        let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData
        #expect(try await service.validate(receipt, user: "user-\(number)").status == 200)
      }
      try await body(service, store)
    }
  }

  @Test func `the command prints lines, JSON or nothing, and ends with 0 when all is done`() async throws {
    try await run(users: 3) { service, _ in
      let counted = try await command(["--expiring-within", "20d", "--dry-run"], at: service.origin)
      #expect(counted.code == 0)
      #expect(counted.output == "3 subscriptions are due; nothing was done.\n")
      let lines = try await command(["--expiring-within", "20d"], at: service.origin + "/")
      #expect(lines.code == 0)
      #expect(lines.output.hasSuffix("Run 1 is finished: 3 of 3 done, 0 changed, 0 failed, 0 held back.\n"))
      #expect(lines.error == "")
      let json = try await command(["--expiring-within", "20d", "--limit", "2", "--json"], at: service.origin)
      #expect(json.code == 0)
      let object = try JSONSerialization.jsonObject(with: Data(json.output.utf8)) as? [String: Any]
      #expect(object?["state"] as? String == "finished")
      #expect(object?["done"] as? Int == 2)
      let quiet = try await command(["--expiring-within", "20d", "--quiet"], at: service.origin)
      #expect((quiet.code, quiet.output + quiet.error) == (0, ""))
      let nothing = try await command(["--expiring-within", "0"], at: service.origin)
      #expect((nothing.code, nothing.output) == (0, "Run 4 is finished: nothing was due.\n"))
    }
  }

  @Test func `each failure of a run has its exit code and its sentence`() async throws {
    try await run(users: 2) { service, store in
      let cases: [([String], String?, Int32, String)] = [
        (["--expiring-within", "20d"], "a-wrong-key", 77, "does not know this key"),
        (["--expiring-within", "20d"], RunningService.supportKey, 77, "one of the role 'service' may."),
        (["--expiring-within", "20d"], nil, 64, "COUNTERSIGN_API_KEY"),
        (["--expiring-within", "soon"], "key", 64, "--expiring-within must be a duration"),
        (["--expiring-within", "1d", "--limit", "0"], "key", 64, "--limit must be from 1 to 100000"),
        ([], "key", 64, "--expiring-within"),
        (["--expiring-within", "1d", "--key-file", "/no/such/file"], "key", 64, "--key-file"),
        (["--expiring-within", "1d", "--url", "service"], "key", 64, "--url has to be"),
        (["--expiring-within", "1d", "--url", "https://no-such-host.invalid"], "key", 69, "cannot be found"),
        (["--expiring-within", "1d", "--url", service.origin + "/x"], RunningService.serviceKey, 69, "no such"),
      ]
      for (arguments, key, code, sentence) in cases {
        let ended = try await command(arguments, at: service.origin, key: key)
        #expect(ended.code == code, "\(arguments): \(ended.error)")
        #expect(ended.error.contains(sentence), "\(arguments): \(ended.error)")
        #expect(ended.output == "", "\(arguments)")
        #expect(!ended.error.contains("wrong-key"))
      }
      // Twice, as a refusal is made sure of.
      store.simulator.setTrouble(.status21003, count: nil, environment: nil)
      let failed = try await command(["--expiring-within", "20d", "--quiet"], at: service.origin)
      #expect(failed.code == 1)
      #expect(failed.output.contains("0 of 2 done, 0 changed, 2 failed"))
    }
  }

  @Test func `the brake ends it with 2, is shown, and can be released`() async throws {
    let clock = MovingClock()
    let settings = Settings(revalidation: ["rate": "1000"])
    try await run(users: 0, settings: settings, clock: clock, jobPause: .milliseconds(200)) { service, store in
      store.simulator.setClock(noon.addingTimeInterval(1.5 * 86_400))
      let receipts = try (1...60).map {
        try store.simulator.issueReceipt(.refunded, subscriber: Int64($0)).receiptData
      }
      store.simulator.setClock(noon)
      for (number, receipt) in receipts.enumerated() { _ = try await service.validate(receipt, user: "user-\(number)") }
      clock.advance(by: 2 * 86_400)
      store.simulator.setClock(clock.date)
      let ended = try await command(["--expiring-within", "20d", "--json"], at: service.origin)
      #expect(ended.code == 2, "\(ended.output) \(ended.error)")
      #expect(ended.output.contains(#""stopped_reason":"downgrade_brake""#))

      let engaged = try await ChildProcess.countersign(["brake", "--url", service.origin]).ending()
      #expect(engaged.code == 2, "\(engaged.error)")
      #expect(engaged.output.hasPrefix("The brake is engaged") && engaged.output.contains("  lowered "))
      let json = try await ChildProcess.countersign(["brake", "--url", service.origin, "--json"]).ending()
      #expect(json.code == 2)
      #expect(json.output.hasPrefix("{\"engaged\":true,") && json.output.hasSuffix("}\n"))
      let released = try await ChildProcess.countersign(
        ["brake", "release", "--url", service.origin], key: RunningService.supportKey
      ).ending()
      #expect((released.code, released.output) == (0, "The brake is released: nobody is held back.\n"))
      let after = try await ChildProcess.countersign(["brake", "--url", service.origin, "--json"]).ending()
      #expect(after.code == 0)
      #expect(after.output.contains(#""engaged":false"#))
    }
  }

  @Test func `each failure about the brake has its exit code and its sentence`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      let cases: [([String], String?, Int32, String)] = [
        (["--url", service.origin], "a-wrong-key", 77, "does not know this key"),
        (["--url", service.origin], nil, 64, "COUNTERSIGN_API_KEY"),
        (["--url", "service"], "key", 64, "--url has to be"),
        (["--url", service.origin + "/x"], RunningService.serviceKey, 69, "no such path"),
        (["--url", "https://no-such-host.invalid"], "key", 69, "cannot be found"),
        (["--sooner"], "key", 64, "--sooner"),
      ]
      for (arguments, key, code, sentence) in cases {
        for command in [["brake"], ["brake", "release"]] {
          let ended = try await ChildProcess.countersign(command + arguments, key: key).ending()
          #expect(ended.code == code, "\(arguments): \(ended.error)")
          #expect(ended.error.contains(sentence), "\(arguments): \(ended.error)")
          #expect(ended.output == "", "\(arguments)")
        }
      }
    }
  }

  @Test(arguments: [SIGINT, SIGTERM]) func `interrupted, it leaves the run running and says so`(_ signal: Int32)
    async throws
  {
    // The jobs rest: the run stays as it is.
    try await run(users: 2, jobPause: .seconds(3600)) { service, _ in
      let process = try await ChildProcess.countersign([
        "revalidate", "--url", service.origin, "--expiring-within", "20d",
      ])
      try await eventually { try await service.ledger.activeRun() != nil }
      try await eventually { service.log.text.contains("/v1/revalidations/{run_id}") }
      process.signal(signal)
      let ended = await process.ending()
      #expect(ended.code == 128 + signal)
      #expect(ended.error.contains("run 1 goes on in the service (0 of 2)"))
      #expect(try await service.ledger.activeRun()?.counts.remaining == 2)
    }
  }

  @Test(.enabled(if: ChildProcess.hasTerminal, "script is not installed"))
  func `a terminal shows a bar, and the last word below it`() async throws {
    try await run(users: 4) { service, _ in
      let ended = try await ChildProcess.countersign(
        ["revalidate", "--url", service.origin, "--expiring-within", "20d"], onTerminal: true
      ).ending()
      #expect(ended.code == 0, "\(ended.output)")
      let screen = ended.output.replacingOccurrences(of: "\r\n", with: "\n")
      let drawn = screen.components(separatedBy: "\r\u{1B}[K")
      #expect(drawn.count >= 2)
      #expect(drawn.last?.contains("#]  100 %  4 of 4") == true, "\(screen)")
      #expect(screen.hasSuffix("Run 1 is finished: 4 of 4 done, 0 changed, 0 failed, 0 held back.\n"), "\(screen)")
      for line in drawn.dropFirst() { #expect((line.split(separator: "\n").first?.count ?? 0) < 100) }
    }
  }

  @Test func `a service that is killed in the middle goes on where it was, and the command with it`() async throws {
    try await ServiceProcess.withConfiguration(Settings(revalidation: ["rate": "20"]), logLevel: "notice") {
      store, file in
      let first = try await ServiceProcess.start(configuration: file, environment: ["COUNTERSIGN_LOG_LEVEL": "info"])
      for number in 0..<60 {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number + 1)).receiptData
        _ = try await first.validate(receipt, user: "user-\(number)")
      }
      store.simulator.resetCalls()
      store.simulator.setDelay(.milliseconds(100))
      let command = try await ChildProcess.countersign([
        "revalidate", "--url", first.origin, "--expiring-within", "20d", "--json",
      ])
      try await eventually {
        Int(try await first.send(.get, "/v1/revalidations/1")["done"] ?? "") ?? 0 >= 10
      }
      await first.killAtOnce()

      let port = try #require(first.origin.split(separator: ":").last)
      let second = try await ServiceProcess.start(
        configuration: file, environment: ["COUNTERSIGN_SERVER_PORT": String(port), "COUNTERSIGN_LOG_LEVEL": "info"])
      let ended = await command.ending()
      #expect(ended.code == 0, "\(ended.output) \(ended.error)")
      let answer = Answer(status: 200, headers: [], body: Array(ended.output.utf8))
      #expect(answer["state"] == "finished")
      #expect(answer["due"] == "60" && answer["done"] == "60" && answer["failed"] == "0", "\(ended.output)")
      let end = await second.stop()
      #expect(end.code == 0)
      // Users who were done before are not asked about again. Rechecks are not the run's: by the machine's clock
      // everything is due, until Apple has told the service the time.
      let asked = Self.validatedByRun(end.log)
      #expect(Set(asked).count == asked.count)
      #expect(!asked.isEmpty && asked.count <= 50, "\(asked.count)")
      #expect(store.simulator.calls.total >= 60)
    }
  }

  /// The subscriptions that a run has asked about, as the log of a service names them.
  private static func validatedByRun(_ log: String) -> [Substring] {
    log.matches(of: /"message":"verdict".*"request_id":"run-1-(\d+)"/).map(\.1)
  }
}

import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// The program as it is run: started, loaded, killed, told to stop.
@Suite struct ProcessTests {
  @Test func `a crash leaves no memory on the disk`() async throws {
    try await ServiceProcess.withConfiguration { _, file in
      let service = try await ServiceProcess.start(configuration: file)
      let limits = try String(contentsOfFile: "/proc/\(service.processID)/limits", encoding: .utf8)
      #expect(limits.contains(#/Max core file size +0 /#))
      await service.killAtOnce()
    }
  }

  @Test func `a thousand receipts, a hundred at a time: all answered right, all there after kill -9`() async throws {
    // The machine may be busy: it is not speed that is looked at.
    let patient = Settings(appStore: ["deadline": "60s"])
    try await ServiceProcess.withConfiguration(patient) { store, file in
      let scenarios: [(Scenario, String)] = [
        (.renewing, "pro active renewing"), (.renewalOff, "pro cancelled renewal_off"),
        (.refunded, "free expired refunded"), (.lifetime, "premium active lifetime"),
        (.grace, "pro grace_period billing_grace"),
      ]
      let receipts = try (0..<1000).map { number in
        try store.simulator.issueReceipt(scenarios[number % scenarios.count].0, subscriber: Int64(number + 1))
          .receiptData
      }
      #expect(Set(receipts).count == 1000)
      let service = try await ServiceProcess.start(configuration: file)
      for hundred in 0..<10 {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for number in (hundred * 100)..<((hundred + 1) * 100) {
            group.addTask {
              let answer = try await service.validate(receipts[number], user: "user-\(number)")
              #expect(answer.verdict == scenarios[number % scenarios.count].1, "\(answer.text)")
            }
          }
          try await group.waitForAll()
        }
      }
      await service.killAtOnce()

      let restarted = try await ServiceProcess.start(configuration: file)
      for number in 0..<1000 {
        // The wall clock reads the state, so a running one may be held as stale by now; what was proven is still there.
        let answer = try await restarted.profile("user-\(number)")
        #expect(answer["evidence_at"] == "2024-06-15T12:00:00Z", "user-\(number): \(answer.text)")
      }
      #expect(await restarted.stop().code == 0)
    }
  }

  @Test func `a second service does not open the same ledger`() async throws {
    try await ServiceProcess.withConfiguration { _, file in
      let service = try await ServiceProcess.start(configuration: file)
      await #expect(throws: (any Error).self) { try await ServiceProcess.start(configuration: file) }
      #expect(await service.stop().log.contains(#""message":"stopped""#))
    }
  }

  @Test func `a port that is taken is named`() async throws {
    try await ServiceProcess.withConfiguration { _, file in
      let service = try await ServiceProcess.start(configuration: file)
      let port = try #require(service.origin.split(separator: ":").last)
      let second = file.deletingLastPathComponent().appending(path: "second.sqlite").path(percentEncoded: false)
      let error = await #expect(throws: ServiceProcess.NotStarted.self) {
        try await ServiceProcess.start(
          configuration: file,
          environment: ["COUNTERSIGN_SERVER_PORT": String(port), "COUNTERSIGN_LEDGER_PATH": second])
      }
      #expect(error?.description.contains("something listens on 127.0.0.1:\(port) already") == true)
      await service.stop()
    }
  }

  @Test func `SIGHUP takes up the keys of the file as it is then, and the process goes on`() async throws {
    try await ServiceProcess.withConfiguration { _, file in
      let before = try String(contentsOf: file, encoding: .utf8)
      let service = try await ServiceProcess.start(configuration: file)
      #expect(try await service.send(.get, "/v1/brake", key: "new-key").status == 401)
      let old = "{ name: backend, role: service, sha256: \(Settings.sha256(RunningService.serviceKey)) }"
      let new = "{ name: new, role: service, sha256: \(Settings.sha256("new-key")) }"
      #expect(before.contains(old))
      try before.replacing(old, with: new).write(to: file, atomically: true, encoding: .utf8)
      service.signal(SIGHUP)
      try await eventually { try await service.send(.get, "/v1/brake", key: "new-key").status == 200 }
      #expect(try await service.send(.get, "/v1/brake").status == 401)
      let end = await service.stop()
      #expect(end.code == 0)
      let reported = end.log.split(separator: "\n").filter {
        $0.contains(#""message":"the configuration was reloaded""#)
      }
      #expect(reported.count == 1)
      #expect(
        reported.allSatisfy { $0.contains(#""added":"new","api_keys":3,"#) && $0.contains(#""removed":"backend""#) })
    }
  }

  @Test func `the log has no receipt and no secret, whatever its level`() async throws {
    try await ServiceProcess.withConfiguration { store, file in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let service = try await ServiceProcess.start(configuration: file, environment: ["COUNTERSIGN_LOG_LEVEL": "trace"])
      #expect(try await service.validate(receipt, user: "user-1").status == 200)
      store.simulator.setTrouble(.html, count: nil, environment: nil)
      #expect(try await service.validate(receipt, user: "user-1").status == 200)
      let log = await service.stop().log
      #expect(log.contains(#""message":"verdict""#))
      for secret in [SimulatedStore.sharedSecret, RunningService.serviceKey, String(receipt.prefix(60)), "<html"] {
        #expect(!log.contains(secret))
      }
      // Each line is JSON.
      for line in log.split(separator: "\n") {
        #expect((try? JSONSerialization.jsonObject(with: Data(line.utf8))) != nil, "\(line)")
      }
    }
  }
}

import Entitlements
import Foundation
import HTTPTransport
import Ledger
import LedgerFixtures
import Testing

@testable import AppStoreSimulator

extension FaultTests {
  /// Whoever has the app's public key, which is in every copy of the app. Rates are those of the default configuration.
  @Suite(.serialized) struct PublicKeyAttackTests {
    private static let clock = Date(timeIntervalSince1970: 1_718_452_800.000_123_456)
    private static let length = FaultSize.choose(short: Duration.zero, full: .seconds(30))

    private static let settings: Settings = {
      var settings = Settings(server: ["trusted_proxies": "[127.0.0.1]"])
      settings.dialects = ["revenuecat"]
      return settings
    }()

    private static func from(_ address: String) -> [TransportHeader] { [TransportHeader("X-Forwarded-For", address)] }

    /// Runs attacks over and over, and asks honestly meanwhile.
    /// - Returns: the statuses that attackers got, and the durations of the honest requests.
    private static func during(
      _ attacks: [@Sendable (Int) async throws -> Answer], honest: @Sendable (Int) async throws -> Void
    ) async throws -> (statuses: [Int: Int], durations: [Duration]) {
      let tally = AttackTally()
      let durations = try await withThrowingTaskGroup(of: Void.self) { group in
        for attack in attacks {
          group.addTask {
            var number = 0
            repeat {
              tally.note(try await attack(number).status)
              number += 1
            } while number < 8 || !tally.isOver
          }
        }
        let durations = try await Self.durations(honest)
        tally.end()
        try await group.waitForAll()
        return durations
      }
      return (tally.statuses, durations)
    }

    private static func durations(_ honest: (Int) async throws -> Void) async throws -> [Duration] {
      var durations: [Duration] = []
      let end = ContinuousClock.now.advanced(by: length)
      repeat {
        for _ in 0..<FaultSize.choose(short: 8, full: 200) {
          let begin = ContinuousClock.now
          try await honest(durations.count)
          durations.append(begin.duration(to: .now))
        }
      } while ContinuousClock.now < end
      return durations
    }

    private static func p99(_ durations: [Duration]) -> Duration {
      durations.sorted()[durations.count * 99 / 100]
    }

    @Test(.ofTheFile) func `attributes of megabytes and invented customers stay small, and hold up no purchase`()
      async throws
    {
      let directory = try TemporaryDirectory()
      try await RunningService.besideStore(at: Self.clock, settings: Self.settings, directory: directory.url) {
        service, store in
        let receipts = try (1...FaultSize.choose(short: 8, full: 400)).map {
          try store.simulator.issueReceipt(.renewing, subscriber: Int64($0)).receiptData
        }
        @Sendable func buy(_ number: Int) async throws {
          let place = number % receipts.count
          #expect(try await service.validate(receipts[place], user: "user-\(place)").status == 200)
        }
        let character = String(repeating: "\u{301}", count: 90_000)
        let hundred = (0..<100).map {
          #""a\#($0)":{"value":"\#(String(repeating: "x", count: 500))","updated_at_ms":1}"#
        }
        .joined(separator: ",")
        @Sendable func send(_ path: String, _ body: String) async throws -> Answer {
          try await service.send(
            .post, path, key: RunningService.publicKey, body: body, headers: Self.from("203.0.113.7"))
        }
        let attacks: [@Sendable (Int) async throws -> Answer] = [
          { number in
            try await send(
              "/v1/receipts",
              #"{"app_user_id":"fat","fetch_token":"bm90IGEgcmVjZWlwdA==","attributes":{"#
                + #""a\#(number)":{"value":"e\#(character)","updated_at_ms":\#(number)}}}"#)
          },
          { number in
            try await send(
              "/v1/subscribers/fat/attributes",
              #"{"attributes":{"a\#(number)":{"value":"e\#(character)","updated_at_ms":\#(number)},\#(hundred)}}"#)
          },
          { number in
            try await send(
              "/v1/subscribers/fat/attributes",
              #"{"attributes":{"z":{"value":"\#(number)","updated_at_ms":\#(number)}}}"#)
          },
          { number in
            try await send("/v1/subscribers/invented-\(number)/attributes", #"{"attributes":{\#(hundred)}}"#)
          },
        ]
        let before = try await Self.durations(buy)
        // One attacker who sends one thing after the other, and then four at once, with whom the honest share processors.
        let single = try await Self.during([{ try await attacks[$0 % attacks.count]($0) }], honest: buy).durations
        let (statuses, during) = try await Self.during(attacks, honest: buy)
        let ledger = try FileManager.default.contentsOfDirectory(
          at: directory.url, includingPropertiesForKeys: [.fileSizeKey]
        )
        .filter { $0.lastPathComponent.hasPrefix("ledger") }
        .reduce(0) { $0 + (try $1.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0) }
        FaultReport.say(
          "attributes with the public key",
          "\(statuses.values.reduce(0, +)) posts \(statuses.sorted { $0.key < $1.key })",
          "\(single.count + during.count) honest posts meanwhile, 0 refused",
          "p99 \(Self.p99(before).brief) before, \(Self.p99(single).brief) beside one attacker, "
            + "\(Self.p99(during).brief) beside four", "ledger \(ledger >> 20) MiB")
        let fat = try await service.ledger.attributes(of: "fat")
        #expect(fat.reduce(0) { $0 + $1.key.utf8.count + ($1.value.value?.utf8.count ?? 0) } <= 64 << 10)
        #expect(fat.values.allSatisfy { ($0.value?.utf8.count ?? 0) <= 2_000 })
        #expect(ledger < 200 << 20)
        if FaultSize.isFull { #expect(Self.p99(single) <= Self.p99(before) * 2) }
      }
    }

    @Test func `an attacker who names another customer over and over keeps nobody out`() async throws {
      try await RunningService.besideStore(at: Self.clock, settings: Self.settings) { service, store in
        let app = RevenueCatApp(service: service)
        let receipt = try store.simulator.issueReceipt(.renewing).receiptData
        #expect(try await app.post(receipt, of: "victim", headers: Self.from("198.51.100.1")).status == 200)
        let attack: @Sendable (Int) async throws -> Answer = { _ in
          try await service.send(
            .get, "/v1/subscribers/victim", key: RunningService.publicKey, headers: Self.from("203.0.113.7"))
        }
        // Far more than one user may ask.
        for _ in 0..<60 { _ = try await attack(0) }
        let (statuses, honest) = try await Self.during([attack, attack]) { number in
          // At a customer's pace: an address each, as the machine may be quick.
          let answer = try await service.send(
            .get, "/v1/subscribers/victim", key: RunningService.publicKey,
            headers: Self.from("198.51.100.\(number % 200 + 2)"))
          #expect(answer.status == 200)
        }
        #expect(try await app.post(receipt, of: "victim", headers: Self.from("198.51.100.1")).status == 200)
        FaultReport.say(
          "a customer named by others",
          "\(statuses.values.reduce(0, +)) reads \(statuses.sorted { $0.key < $1.key })",
          "\(honest.count) reads of the customer's own, 0 refused")
      }
    }
  }
}

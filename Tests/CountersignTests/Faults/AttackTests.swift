import Foundation
import HTTPTransport
import NIOCore
import Synchronization
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import CountersignServer

extension FaultTests {
  /// Whoever wants to keep others out: with one user's token, or with no credential at all.
  ///
  /// In the short form each attack is brought to its height once, and honest requests are made then. In the full form it goes on
  /// for a while.
  @Suite(.serialized) struct AttackTests {
    private static let length = FaultSize.choose(short: Duration.zero, full: .seconds(25))

    /// In the short form nobody who attacks is let go, however slow the machine.
    private static let patience = FaultSize.choose(short: .minutes(10), full: BodyPace.usualPatience)

    private static func head(_ path: String, _ length: Int, _ headers: [String]) -> String {
      (["POST \(path) HTTP/1.1", "Host: a", "Content-Type: application/json", "Content-Length: \(length)"] + headers)
        .joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// Connections of which each begins to send a body, all of it but the last byte, and no more.
    ///
    /// - Parameter sent: how much of it; none is a body that is only announced.
    private static func bodies(
      _ count: Int, of service: RunningService, path: String, length: Int, sent: Int? = nil,
      headers: @Sendable (Int) throws -> [String]
    ) async throws -> [HeldConnection] {
      let bytes = ByteBuffer(repeating: UInt8(ascii: " "), count: sent ?? length - 1)
      var held: [HeldConnection] = []
      for number in 0..<count {
        let connection = try await HeldConnection(port: service.port)
        try await connection.send(head(path, length, try headers(number)))
        // One that was refused may be closed by now.
        try? await connection.send(bytes)
        held.append(connection)
      }
      return held
    }

    /// The statuses of those that were answered, when as many were as there have to be.
    private static func answers(of held: [HeldConnection], atLeast least: Int) async -> [Substring] {
      await withTaskGroup { group in
        for connection in held {
          group.addTask { await connection.next().map { $0.dropFirst("HTTP/1.1 ".count).prefix(3) } }
        }
        var answers: [Substring] = []
        for await answer in group {
          if let answer { answers.append(answer) }
          if answers.count >= least { break }
        }
        group.cancelAll()
        return answers
      }
    }

    /// Honest requests while an attack goes on.
    private struct Honest: Sendable {
      var count = 0
      /// Statuses that tell of an attack: refused, too many, too slow.
      var refused: [Int] = []
      var longest = Duration.zero

      mutating func note(_ answer: Answer, after time: Duration) {
        count += 1
        if answer.status == 408 || answer.status == 429 || answer.status >= 500 { refused.append(answer.status) }
        longest = max(longest, time)
      }

      mutating func ask(_ request: () async throws -> Answer) async throws {
        let begin = ContinuousClock.now
        note(try await request(), after: begin.duration(to: .now))
      }
    }

    /// Brings an attack about again and again, and asks honestly meanwhile.
    private static func during(
      _ attack: () async throws -> [HeldConnection], asking request: () async throws -> Answer
    ) async throws -> Honest {
      var honest = Honest()
      let end = ContinuousClock.now.advanced(by: length)
      repeat {
        let held = try await attack()
        for _ in 0..<FaultSize.choose(short: 10, full: 100) { try await honest.ask(request) }
        for connection in held { await connection.close() }
      } while ContinuousClock.now < end
      return honest
    }

    private static let settings = Settings(
      server: [
        "request_deadline": FaultSize.choose(short: "10m", full: "15s"), "trusted_proxies": "[127.0.0.1]",
        "address_rate_limit": "0", "user_rate_limit": "0",
      ],
      jwt: ["secret": TokenMint.secret])

    // MARK: Bodies of users

    @Test func `bodies that one user announces, or sends all but the end of, keep nobody out`() async throws {
      let mallory = "Authorization: Bearer \(try TokenMint.user("mallory", at: noon))"
      let anna = try TokenMint.user("anna", at: noon)
      try await RunningService.run(
        apple: .unreachable, settings: Self.settings, bodyPatience: Self.patience
      ) { service in
        for caller in [RunningService.serviceKey, anna] {
          func ask() async throws -> Answer {
            try await service.post(["user_id": "u", "receipt_data": "no receipt"], key: caller)
          }
          let announced = try await Self.during {
            try await Self.bodies(16, of: service, path: "/v1/validations", length: 4 << 20, sent: 0) { _ in [mallory] }
          } asking: {
            try await ask()
          }
          let sent = try await Self.during {
            let held = try await Self.bodies(16, of: service, path: "/v1/validations", length: 4 << 20) { _ in [mallory]
            }
            // At most two bodies of a user are read; the others are refused before their end.
            let answers = await Self.answers(of: held, atLeast: 14)
            #expect(answers.count >= 14 && answers.allSatisfy { $0 == "429" }, "\(answers)")
            return held
          } asking: {
            try await ask()
          }
          let name = caller == anna ? "another user" : "a backend"
          FaultReport.say(
            "bodies of one user", "\(announced.count) honest posts of \(name) while 16 are announced",
            "\(announced.refused.count) refused", "\(sent.count) while 16 are sent but for a byte",
            "\(sent.refused.count) refused", "longest \(max(announced.longest, sent.longest).brief)")
          #expect(announced.refused == [] && sent.refused == [])
        }
      }
    }

    @Test func `bodies of many users at once keep no backend out, and no support`() async throws {
      let tokens = try (0..<20).map { try TokenMint.user("mallory-\($0)", at: noon) }
      var settings = Self.settings
      settings.server["max_body"] = "256KiB"
      settings.server["max_bytes_in_flight"] = "4MiB"
      try await RunningService.run(
        apple: .unreachable, settings: settings, bodyPatience: Self.patience
      ) { service in
        func attack() async throws -> [HeldConnection] {
          let held = try await Self.bodies(40, of: service, path: "/v1/validations", length: 256 << 10) {
            ["Authorization: Bearer \(tokens[$0 / 2])"]
          }
          // Twelve fit into three quarters.
          let answers = await Self.answers(of: held, atLeast: 28)
          #expect(answers.count >= 28 && answers.allSatisfy { $0 == "503" }, "\(answers)")
          return held
        }
        let posts = try await Self.during(attack) {
          try await service.post(["user_id": "u", "receipt_data": String(repeating: "a", count: 100_000)])
        }
        let asked = try await Self.during(attack) {
          try await service.send(
            .post, "/v1/profiles/u/revalidation", key: RunningService.supportKey, body: #"{"note":"why"}"#)
        }
        FaultReport.say(
          "bodies of 20 users", "\(posts.count) honest posts of a backend", "\(posts.refused.count) refused",
          "\(asked.count) re-validations of support's", "\(asked.refused.count) refused")
        #expect(posts.refused == [] && asked.refused == [])
      }
    }

    // MARK: Without a credential

    @Test func `notifications that one address sends all but the end of do not keep Apple's out`() async throws {
      try await RunningService.run(
        apple: .unreachable, settings: Self.settings, bodyPatience: Self.patience
      ) { service in
        let path = "/v1/notifications/app-store"
        func ask() async throws -> Answer {
          try await service.send(
            .post, path, key: nil, body: #"{"signedPayload":"a.b.c"}"#,
            headers: [TransportHeader("X-Forwarded-For", "17.58.0.1")])
        }
        let large = try await Self.during {
          let held = try await Self.bodies(4, of: service, path: path, length: 4 << 20, sent: 0) { _ in
            ["X-Forwarded-For: 203.0.113.7"]
          }
          #expect(await Self.answers(of: held, atLeast: 4) == ["413", "413", "413", "413"])
          return held
        } asking: {
          try await ask()
        }
        let sent = try await Self.during {
          let held = try await Self.bodies(40, of: service, path: path, length: 512 << 10) { _ in
            ["X-Forwarded-For: 203.0.113.7"]
          }
          let answers = await Self.answers(of: held, atLeast: 38)
          #expect(answers.count >= 38 && answers.allSatisfy { $0 == "429" }, "\(answers)")
          return held
        } asking: {
          try await ask()
        }
        FaultReport.say(
          "notifications of one address", "\(large.count) honest ones while 4 of 4 MiB are announced",
          "\(large.refused.count) refused", "\(sent.count) while 40 of 512 KiB are sent but for a byte",
          "\(sent.refused.count) refused", "longest \(max(large.longest, sent.longest).brief)")
        #expect(large.refused == [] && sent.refused == [])
      }
    }

    @Test func `notifications of a million values hold up no validation`() async throws {
      try await RunningService.besideStore(settings: Self.settings) { service, store in
        let receipts = try (0..<FaultSize.choose(short: 4, full: 200)).map {
          try store.simulator.issueReceipt(.renewing, subscriber: Int64($0 + 1)).receiptData
        }
        func post(_ number: Int) async throws -> Answer {
          try await service.validate(receipts[number % receipts.count], user: "user-\(number % receipts.count)")
        }
        // A body with few enough values to be read, and one with too many.
        let bodies = [250_000, 850_000].map {
          #"{"notification_type":"X","z":["# + Array(repeating: "1", count: $0).joined(separator: ",") + "]}"
        }
        let tally = AttackTally()
        var before = Honest()
        for number in receipts.indices { try await before.ask { try await post(number) } }
        let after = try await withThrowingTaskGroup(of: Void.self) { group in
          for attacker in 0..<4 {
            group.addTask {
              repeat {
                let answer = try await service.notify(bodies[attacker % 2])
                tally.note(answer.status)
              } while !tally.isOver
            }
          }
          var honest = Honest()
          let end = ContinuousClock.now.advanced(by: Self.length)
          repeat {
            for number in receipts.indices { try await honest.ask { try await post(number) } }
          } while ContinuousClock.now < end
          tally.end()
          try await group.waitForAll()
          return honest
        }
        let seen = tally.statuses
        FaultReport.say(
          "large notifications", "\(seen.values.reduce(0, +)) of them", "\(after.count) posts meanwhile",
          "\(after.refused.count) refused", "longest \(before.longest.brief) before, \(after.longest.brief) during")
        // None was parsed: then it would be 401, for want of our password.
        #expect(Set(seen.keys).isSubset(of: [200, 413, 429]), "\(seen)")
        #expect(after.refused == [])
      }
    }

    @Test(.enabled(if: ConnectionCountsTests.ownAddress != nil, "this machine has the loopback only"))
    func `connections of one address keep no other out`() async throws {
      let host = try #require(ConnectionCountsTests.ownAddress)
      let most = FaultSize.choose(short: 8, full: 200)
      let attempts = FaultSize.choose(short: 40, full: 4_000)
      let settings = Settings(
        server: [
          "host": "0.0.0.0", "max_connections": "\(most * 2)", "max_connections_per_address": "\(most)",
        ])
      try await RunningService.run(apple: .unreachable, settings: settings) { service in
        var held: [HeldConnection] = []
        var honest = Honest()
        for attempt in 0..<attempts {
          held.append(try await HeldConnection(host: host, port: service.port))
          if attempt % (attempts / 20) == 0 {
            // On a connection of its own each time, from the loopback.
            let begin = ContinuousClock.now
            let answer = try await service.exchange("GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            honest.count += 1
            honest.longest = max(honest.longest, begin.duration(to: .now))
          }
        }
        let closed = await Self.closed(of: held, atLeast: attempts - most)
        FaultReport.say(
          "connections of one address", "\(attempts) opened", "\(closed) closed at once",
          "\(honest.count) new ones of another address meanwhile", "longest \(honest.longest.brief)")
        #expect(closed == attempts - most)
      }
    }

    /// How many of the connections the service closed, once so many are.
    private static func closed(of held: [HeldConnection], atLeast least: Int) async -> Int {
      await withTaskGroup { group in
        for connection in held { group.addTask { await connection.next() == nil && !Task.isCancelled } }
        var closed = 0
        for await isClosed in group where isClosed {
          closed += 1
          if closed >= least { break }
        }
        group.cancelAll()
        return closed
      }
    }
  }
}

/// The answers to attackers, and whether they may stop.
final class AttackTally: Sendable {
  /// Guards both.
  private let state = Mutex((statuses: [Int: Int](), isOver: false))

  var statuses: [Int: Int] { state.withLock { $0.statuses } }
  var isOver: Bool { state.withLock { $0.isOver } }

  func note(_ status: Int) { state.withLock { $0.statuses[status, default: 0] += 1 } }

  func end() { state.withLock { $0.isOver = true } }
}

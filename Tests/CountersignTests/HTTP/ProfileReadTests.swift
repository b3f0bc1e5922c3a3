import Foundation
import HTTPTransport
import Synchronization
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Reading an entitlement: from the ledger, without a call to Apple.
@Suite struct ProfileReadTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800)

  @Test func `a read has an entity tag and spares the body that is known already`() async throws {
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, now: { Self.clock }) { service in
        let before = try await service.profile()
        #expect(before.status == 200)
        #expect(before.verdict == "free active no_purchases")
        let tag = try #require(before.header("ETag"))
        #expect(before.text.hasSuffix("}\n"))
        #expect(before.header("Content-Length") == "\(before.body.count)")
        for known in [tag, "W/\(tag)", "\"other\", \(tag)", "*"] {
          let again = try await service.profile(headers: [TransportHeader("If-None-Match", known)])
          #expect(again.status == 304)
          #expect(again.body.isEmpty)
          #expect(again.header("ETag") == tag)
        }
        _ = try await service.validate(try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData)
        let calls = store.simulator.calls.total
        let after = try await service.profile(headers: [TransportHeader("If-None-Match", tag)])
        #expect(after.status == 200)
        #expect(after.verdict == "pro active renewing")
        #expect(after["source"] == "ledger")
        #expect(store.simulator.calls.total == calls)
      }
    }
  }

  @Test(arguments: [("a%40b.c", "a@b.c"), ("auth0%7C12", "auth0|12"), ("a:b", "a:b"), ("%61", "a")])
  func `an ID in the path may be percent-encoded`(path: String, user: String) async throws {
    try await RunningService.run(apple: .unreachable, now: { Self.clock }) { service in
      let answer = try await service.profile(path)
      #expect(answer.status == 200)
      #expect(answer["user_id"] == user)
    }
  }

  @Test(arguments: ["%", "%4", "%zz", "%ff", "a%2Fb", "%6De"])
  func `a path that encodes no ID is refused`(path: String) async throws {
    try await RunningService.run(apple: .unreachable, now: { Self.clock }) { service in
      let answer = try await service.profile(path)
      #expect([400, 403].contains(answer.status), "\(answer.text)")
    }
  }

  @Test func `after its end a state stands, stale, for the outage hold, and is unproven then`() async throws {
    let now = Mutex(Self.clock)
    try await SimulatedStore.run(at: Self.clock) { store in
      // No job asks Apple anew meanwhile, whose clock stands.
      let pause = Duration.seconds(3600)
      try await RunningService.run(apple: store.apple, jobPause: pause, now: { now.withLock { $0 } }) { service in
        let receipt = try store.simulator.issueReceipt(.renewalOff, subscriber: 1)
        let answer = try await service.validate(receipt.receiptData)
        #expect(answer["access_until"] == "2024-06-30T12:00:00Z")
        let end = Self.clock.addingTimeInterval(15 * 86_400)
        let hold: TimeInterval = 7 * 86_400
        let expected: [(TimeInterval, String, String)] = [
          (-0.001, "pro cancelled renewal_off", "false"), (0, "pro cancelled renewal_off", "true"),
          (hold - 0.001, "pro cancelled renewal_off", "true"), (hold, "free expired unproven", "true"),
        ]
        for (offset, verdict, stale) in expected {
          now.withLock { $0 = end.addingTimeInterval(offset) }
          let read = try await service.profile()
          #expect(read.verdict == verdict, "\(offset)")
          #expect(read["stale"] == stale, "\(offset)")
        }
        // A clock of ours that runs behind Apple's proves nothing.
        now.withLock { $0 = Self.clock.addingTimeInterval(-365 * 86_400) }
        #expect(try await service.profile().verdict == "pro cancelled renewal_off")
      }
    }
  }
}

import HTTPTransport
import Testing

@testable import AppStoreSimulator

/// Reading an entitlement: from the ledger, without a call to Apple.
@Suite struct ProfileReadTests {
  @Test func `a read has an entity tag and spares the body that is known already`() async throws {
    try await RunningService.besideStore { service, store in
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

  @Test func `an ID in the path may be percent-encoded, and one that is none is refused`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      for (path, user) in [("a%40b.c", "a@b.c"), ("auth0%7C12", "auth0|12"), ("a:b", "a:b"), ("%61", "a")] {
        let answer = try await service.profile(path)
        #expect(answer.status == 200 && answer["user_id"] == user, "\(answer.text)")
      }
      for path in ["%", "%4", "%zz", "%ff", "a%2Fb", "%6De"] {
        let answer = try await service.profile(path)
        #expect([400, 403].contains(answer.status), "\(answer.text)")
      }
    }
  }
}

import Foundation
import HTTPTransport
import SeededRandom
import TestSupport
import Testing
import Validation

/// Grants and trials that begin now, by the machine's own clock: no moment is chosen, and each has nanoseconds.
@Suite struct SystemClockTests {
  /// `make cases` has a thousand.
  private static let count = SeededRandom.cases(1_000) == 1_000 ? 1_000 : 20

  private func run(_ body: @Sendable (RunningService, ProfileStoreDouble) async throws -> Void) async throws {
    try await ProfileStoreDouble.running { profiles in
      let settings = Settings(
        server: ["address_rate_limit": "0", "user_rate_limit": "0"], jwt: ["secret": TokenMint.secret],
        profileStore: .store(profiles.url, deadline: "1m"))
      try await RunningService.run(apple: .unreachable, settings: settings, clock: .system()) { service in
        try await body(service, profiles)
        let tiers = profiles.rows.values.map { $0["subscription_tier"] }
        #expect(tiers.count == Self.count && tiers.allSatisfy { $0 == .text("pro") })
      }
    }
  }

  /// Sees that it is read, in the history alone, and in the app's row.
  private func expect(
    _ reason: String, from source: String, of user: String, _ service: RunningService, _ profiles: ProfileStoreDouble
  ) async throws {
    let read = try await service.profile(user)
    #expect(read.verdict == "pro active \(reason)" && read["source"] == source, "\(read.text)")
    let history = try await service.history(of: user)
    #expect(history.entries.count == 1 && history.answer.text.contains(#""reason":"\#(reason)""#), "\(user)")
    #expect(profiles.row(user)?["subscription_tier"] == .text("pro"), "\(user)")
  }

  @Test func `each grant is recorded and written, and the same when it is repeated with its key`() async throws {
    try await run { service, profiles in
      for number in 0..<Self.count {
        let user = "user-\(number)"
        func give() async throws -> Answer {
          try await service.send(
            .post, "/v1/profiles/\(user)/grants", body: #"{"tier":"pro","for":"30d"}"#,
            headers: [TransportHeader("Idempotency-Key", "once")])
        }
        let first = try await give()
        #expect(first.status == 201)
        try await expect("granted", from: "grant", of: user, service, profiles)
        let second = try await give()
        #expect(second.status == 201 && second.text == first.text, "\(second.text)")
        #expect(try await service.history(of: user).entries.count == 1)
      }
    }
  }

  @Test func `each trial is recorded and written, and the same when it is begun again`() async throws {
    try await run { service, profiles in
      for number in 0..<Self.count {
        let user = "user-\(number)"
        let body = #"{"user_id":"\#(user)","device_id":"\#(UUID().uuidString.lowercased())"}"#
        let first = try await service.send(.post, "/v1/trials", body: body)
        #expect(first.status == 201)
        try await expect("trial", from: "trial", of: user, service, profiles)
        let second = try await service.send(.post, "/v1/trials", body: body)
        #expect(second.status == 200 && second.text == first.text, "\(second.text)")
        #expect(try await service.history(of: user).entries.count == 1)
      }
    }
  }
}

import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Work that an earlier process, or a write that was never answered, left undone in the app's rows is made up for.
@Suite struct ProfileCatchUpTests {
  @Test func `a store that is configured later gets every user that the ledger knows`() async throws {
    let directory = try TemporaryDirectory()
    try await SimulatedStore.run { store in
      try await RunningService.run(apple: store.apple, directory: directory.url) { service in
        for number in 1...25 {
          let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number)).receiptData
          #expect(try await service.validate(receipt, user: "user-\(number)")["profile_write"] == "none")
        }
        #expect(try await service.profile("user-1")["profile_write"] == "none")
        #expect(try await service.send(.get, "/readyz", key: nil)["profile_store"] == "none")
      }
      try await ProfileStoreDouble.running { profiles in
        let settings = Settings(profileStore: .store(profiles.url))
        try await RunningService.run(
          apple: store.apple, settings: settings, directory: directory.url
        ) { service in
          try await eventually { profiles.rows.count == 25 }
          #expect(profiles.applied.count == 25)
          #expect(profiles.rows.values.allSatisfy { $0["subscription_tier"] == .text("pro") })
          try await eventually { try await service.profile("user-25")["profile_write"] == "committed" }
        }
      }
    }
  }

  // MARK: Writes that are carried out late, where no version column refuses them

  private static func withoutVersion(_ url: String) -> [String: String] {
    ["url": "\"\(url)\"", "key": "\"sb_secret_for_tests\"", "deadline": "3s"]
  }

  private static func expectPro(_ profiles: ProfileStoreDouble) {
    #expect(profiles.row("user-1")?["subscription_tier"] == .text("pro"))
  }

  @Test func `a write that was under way when the process ended is delivered too, and once more`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock()
    try await SimulatedStore.run { store in
      try await ProfileStoreDouble.running { profiles in
        let settings = Settings(profileStore: Self.withoutVersion(profiles.url))
        profiles.set(.http503)
        try await RunningService.run(
          apple: store.apple, settings: settings, directory: directory.url, now: { clock.date }
        ) { service in
          let receipt = try store.simulator.issueReceipt(.renewing).receiptData
          #expect(try await service.validate(receipt)["profile_write"] == "queued")
        }
        profiles.set(.ok)
        clock.advance(by: 1)
        // A replica waits for the pause after the failure, and for the lease of whoever claimed the write before it.
        try await RunningService.run(
          apple: store.apple, settings: settings, directory: directory.url, now: { clock.date }
        ) { service in
          try await eventually(clock, step: TestEngine.isPostgreSQL ? 5 : 0) {
            try await service.profile()["profile_write"] == "committed"
          }
          Self.expectPro(profiles)
          profiles.overwrite("user-1", with: ["subscription_tier": .text("free")])
          try await eventually(clock, step: 5) { profiles.row("user-1")?["subscription_tier"] == .text("pro") }
        }
      }
    }
  }
}

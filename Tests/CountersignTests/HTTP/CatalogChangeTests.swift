import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// A service started again with another catalog: nobody loses anything by a slip, and who gains something has it in the
/// app's row too.
@Suite struct CatalogChangeTests {
  static let payers = 80
  static let monthly = "com.example.app.pro.monthly"
  static let misspelt = "com.example.app.pro.monthlyy"

  /// The app's rows, over several starts on one ledger.
  private struct Deployment: Sendable {
    var directory: URL
    var store: SimulatedStore
    var profiles: ProfileStoreDouble
    var settings: Settings
    let clock = MovingClock()

    func run<Result: Sendable>(
      _ change: (inout Settings) -> Void = { _ in },
      body: @Sendable (RunningService) async throws -> Result
    ) async throws -> Result {
      var settings = settings
      change(&settings)
      return try await RunningService.run(
        apple: store.apple, settings: settings, directory: directory,
        now: { clock.date },
        body: body)
    }

    /// Why the service does not start.
    func refusal(_ change: (inout Settings) -> Void) async throws -> ServiceStartError? {
      do {
        try await run(change) { _ in }
        return nil
      } catch let error as ServiceStartError { return error }
    }

    func tiers() -> [String: Int] {
      (0..<payers).reduce(into: [:]) { tiers, number in
        if case .text(let tier)? = profiles.row("user-\(number)")?["subscription_tier"] {
          tiers[tier, default: 0] += 1
        }
      }
    }
  }

  private func deploy(_ body: @Sendable (Deployment) async throws -> Void) async throws {
    let directory = try TemporaryDirectory()
    try await SimulatedStore.run { store in
      try await ProfileStoreDouble.running { profiles in
        try await body(
          Deployment(
            directory: directory.url, store: store, profiles: profiles,
            settings: Settings(profileStore: .store(profiles.url))))
      }
    }
  }

  private func subscribe(
    _ service: RunningService, _ deployment: Deployment, users: Int = payers, _ scenario: Scenario = .renewing
  ) async throws {
    for number in 0..<users {
      let receipt = try deployment.store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData
      #expect(try await service.validate(receipt, user: "user-\(number)").status == 200)
    }
  }

  private static func misspell(_ settings: inout Settings) {
    settings.products[monthly] = nil
    settings.products[misspelt] = "{ tier: pro }"
  }

  private static func misspellAndAccept(_ settings: inout Settings) {
    misspell(&settings)
    settings.catalog["accept_loss"] = "[\(monthly)]"
  }

  /// tier, status, reason, and what goes with it, by how many users read it.
  private func reads(_ service: RunningService) async throws -> [String: Int] {
    var reads: [String: Int] = [:]
    for number in 0..<Self.payers {
      let read = try await service.profile("user-\(number)")
      reads["\(read.verdict) \(read["stale"] ?? "-") \(read["profile_write"] ?? "-")", default: 0] += 1
    }
    return reads
  }

  private func withheld(_ service: RunningService) async throws -> Int {
    Int(try await service.send(.get, "/v1/brake")["withheld_by_rules"] ?? "") ?? -1
  }

  @Test func `eighty payers and one letter wrong: the start is refused, a loss that is accepted waits`()
    async throws
  {
    try await deploy { deployment in
      try await deployment.run { try await subscribe($0, deployment) }
      let refusal = try #require(try await deployment.refusal(Self.misspell))
      #expect(refusal.isConfiguration)
      #expect(
        refusal.description.contains(
          "80 of \(Self.monthly) are kept, and it is not in the catalog; did you mean \(Self.misspelt)?"))
      // Nothing came of it: with the letter right all is as it was.
      try await deployment.run { (service) async throws -> Void in
        #expect(try await reads(service) == ["pro active renewing false committed": Self.payers])
        #expect(try await withheld(service) == 0)
      }

      // A loss that is accepted is withheld from everybody, through a restart, until somebody releases it.
      let held = ["pro active renewing true committed": Self.payers]
      for _ in 0..<2 {
        try await deployment.run(Self.misspellAndAccept) { service in
          #expect(try await reads(service) == held)
          try await eventually { try await withheld(service) == Self.payers }
          #expect(try await reads(service) == held)
          #expect(deployment.tiers() == ["pro": Self.payers])
          #expect(try await service.send(.get, "/readyz", key: nil)["withheld_by_rules"] == "80")
          let metrics = try await service.send(.get, "/metrics", key: nil).text
          #expect(metrics.contains("countersign_withheld_by_rules 80\n"))
          #expect(try await service.send(.get, "/v1/brake")["engaged"] == "false", "renewals go on")
          #expect(
            service.log.lines.contains {
              $0.contains("the catalog or a policy would lower subscribers") && $0.contains("80 of \(Self.monthly)")
            })
        }
      }
      try await deployment.run(Self.misspellAndAccept) { service in
        let released = try await service.send(.delete, "/v1/brake", key: RunningService.supportKey)
        #expect(released.status == 200)
        #expect(released["withheld_by_rules"] == "0")
        try await eventually { deployment.tiers() == ["free": Self.payers] }
        try await eventually {
          try await reads(service) == ["free active no_known_product false committed": Self.payers]
        }
        #expect(try await withheld(service) == 0)
      }
      // Nobody has anything that the catalog could lack, and everybody gets it back.
      try await deployment.run { service in
        try await eventually { deployment.tiers() == ["pro": Self.payers] }
        #expect(try await reads(service).keys.allSatisfy { $0.hasPrefix("pro active renewing false") })
      }
    }
  }

  @Test func `below the percentage it is a warning, and the few keep what they have`() async throws {
    try await deploy { deployment in
      try await deployment.run { service in
        try await subscribe(service, deployment, users: 9)
        let receipt = try deployment.store.simulator.issueReceipt(.lifetime, subscriber: 99).receiptData
        #expect(try await service.validate(receipt, user: "for-life").verdict == "premium active lifetime")
      }
      try await deployment.run({ $0.products["com.example.app.forever"] = nil }) { service in
        #expect(
          service.log.lines.contains {
            $0.contains("the catalog lacks products that subscribers have")
              && $0.contains("1 of com.example.app.forever is kept")
          })
        try await eventually { try await withheld(service) == 1 }
        let read = try await service.profile("for-life")
        #expect(read.verdict == "premium active lifetime")
        #expect(read["stale"] == "true")
        #expect(try await service.profile("user-0")["stale"] == "false")
        // Apple's own word about the purchase decides, by the catalog of today.
        let receipt = try deployment.store.simulator.issueReceipt(.lifetime, subscriber: 99).receiptData
        #expect(try await service.validate(receipt, user: "for-life").verdict == "free active no_known_product")
        #expect(try await service.profile("for-life").verdict == "free active no_known_product")
      }
    }
  }

  @Test func `who is withheld is counted anew within a minute`() async throws {
    try await deploy { deployment in
      try await deployment.run { try await subscribe($0, deployment, users: 10) }
      try await deployment.run(Self.misspellAndAccept) { service in
        try await eventually { try await withheld(service) == 10 }
        // Apple's own word about a purchase decides, by the catalog of today.
        let receipt = try deployment.store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
        #expect(try await service.validate(receipt, user: "user-0").verdict == "free active no_known_product")
        deployment.clock.advance(by: 60)
        try await eventually { try await withheld(service) == 9 }
      }
    }
  }

  @Test func `a product that is added is in the read and in the row, for a purchase for life as well`() async throws {
    try await deploy { deployment in
      try await deployment.run({ $0.products = ["com.example.app.pro.yearly": "{ tier: pro }"] }) { service in
        try await subscribe(service, deployment, users: 2)
        let receipt = try deployment.store.simulator.issueReceipt(.lifetime, subscriber: 99).receiptData
        #expect(try await service.validate(receipt, user: "for-life").verdict == "free active no_known_product")
      }
      try await deployment.run { service in
        #expect(try await service.profile("for-life").verdict == "premium active lifetime")
        for (user, tier) in [("for-life", "premium"), ("user-1", "pro")] {
          try await eventually { try await service.profile(user)["profile_write"] == "committed" }
          #expect(deployment.profiles.row(user)?["subscription_tier"] == .text(tier))
        }
        #expect(try await service.profile("user-1").verdict == "pro active renewing")
        // Apple is asked when the period ends.
        #expect(
          try await service.ledger.claimRechecks(dueAt: noon.addingTimeInterval(40 * 86_400), limit: 9).count == 2
        )
      }
    }
  }

  @Test func `support's readings of a user and of a purchase are withheld too`() async throws {
    try await deploy { deployment in
      let id = try await deployment.run { service in
        let receipt = try deployment.store.simulator.issueReceipt(.renewing, subscriber: 1)
        #expect(try await service.validate(receipt.receiptData).status == 200)
        return try #require(receipt.originalTransactionIDs.first)
      }
      try await deployment.run(Self.misspellAndAccept) { service in
        let key = RunningService.supportKey
        let history = try await service.send(.get, "/v1/profiles/user-1/history", key: key).text
        #expect(history.contains("the app's catalog or a policy has changed since and would give less"))
        let purchase = try await service.send(.get, "/v1/transactions/\(id)", key: key).text
        #expect(purchase.contains(#""tier":"pro""#) && !purchase.contains("no_known_product"))
      }
    }
  }
}

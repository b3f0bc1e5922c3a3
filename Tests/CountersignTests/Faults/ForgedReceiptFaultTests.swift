import Foundation
import Testing

@testable import AppStoreSimulator
@testable import Countersign

extension FaultTests {
  /// Many users post forged receipts and spoilt ones while others buy, and Apple is well but for an error now and then.
  @Suite(.serialized) struct ForgedReceiptFaultTests {
    @Test func `forged receipts under load: none is kept, none has a tier, and no honest post loses its retry`()
      async throws
    {
      let run = try await Self.play()
      FaultReport.say(
        "forged receipts", "\(run.forged) posts of forged or spoilt receipts by \(run.attackers) users",
        "forged receipts kept: \(run.kept)", "a tier granted against Apple's word: \(run.granted)",
        "\(run.honest) honest posts with one 21009 each", "honest posts that lost their retry: \(run.lostRetry)",
        "\(run.alarms) false alarms", run.findings.figures)
      #expect(run.forged >= run.attackers * 10)
      #expect(run.kept == 0)
      #expect(run.granted == 0)
      #expect(run.honest > 0)
      #expect(run.lostRetry == 0)
      #expect(run.alarms == 0)
      #expect(run.findings.isClean, "\(run.findings)")
    }

    #if PLANTED_DEFECTS
      @Test func `planted: a service that takes Apple's refusal for trouble is noticed`() async throws {
        let run = try await Self.play(environment: ["COUNTERSIGN_PLANTED_DEFECT": "refusal_is_trouble"])
        FaultReport.planted(
          "refusal_is_trouble", "\(run.kept) kept, \(run.granted) granted", isCaught: run.kept > 0 && run.granted > 0)
        #expect(run.kept > 0)
        #expect(run.granted > 0)
      }
    #endif

    struct Run: Sendable {
      var attackers = 0
      var forged = 0
      /// Answers that acknowledged a forged receipt, and receipts that wait in the ledger at the end.
      var kept = 0
      /// Attackers who have more than the default tier, or were told so.
      var granted = 0
      var honest = 0
      /// Honest posts, each with one failure of Apple's, that were not answered with Apple's word.
      var lostRetry = 0
      /// Lines of the log that say that Apple is away.
      var alarms = 0
      var findings = LedgerAudit.Findings()
    }

    /// The answers to one attacker.
    private struct Tally: Sendable {
      var posts = 0
      var acknowledged = 0
      var isGranted = false
    }

    private static func attack(
      _ service: ServiceProcess, as user: String, with receipts: [String], rounds: Int
    ) async throws -> Tally {
      var tally = Tally()
      for round in 0..<rounds {
        for receipt in receipts.shuffled().prefix(round == 0 ? receipts.count : 1) {
          let answer = try await service.validate(receipt, user: user)
          tally.posts += 1
          if (200..<300).contains(answer.status) { tally.acknowledged += 1 }
          if let tier = answer["tier"], tier != "free" { tally.isGranted = true }
        }
      }
      if try await service.profile(user)["tier"] != "free" { tally.isGranted = true }
      return tally
    }

    private static func play(environment: [String: String] = [:]) async throws -> Run {
      let attackers = FaultSize.choose(short: 4, full: 16)
      let customers = FaultSize.choose(short: 16, full: 400)
      let rounds = FaultSize.choose(short: 10, full: 200)
      var settings = Settings()
      settings.policy["provisional"] = "24h"
      return try await FaultWorld.run(customers: customers, settings: settings, withProfiles: false) { world in
        var run = Run()
        run.attackers = attackers
        let service = try await world.start(environment: environment)
        let reported = FaultLoad()
        let tallies = try await withThrowingTaskGroup(of: Tally.self) { group in
          for number in 0..<attackers {
            let receipts = try (0..<20).map { copy in
              try world.simulator.issueReceipt(
                .renewing, subscriber: Int64(100_000 + number * 100 + copy), format: copy % 2 == 0 ? .forged : .padded
              ).receiptData
            }
            group.addTask { try await attack(service, as: "attacker-\(number)", with: receipts, rounds: rounds) }
          }
          // Meanwhile, one after the other: one in twelve has an internal error of Apple's, and then Apple is well. Retries
          // may be a tenth of the calls: were it more, honest posts would use them up among themselves once the attack is
          // over, and it would not be known who did.
          for (index, customer) in world.customers.enumerated() {
            if index % 12 == 11 {
              run.honest += 1
              world.simulator.setTrouble(.status21009, count: 1, subscriber: Int64(index + 1))
            }
            let answer = try await service.validate(customer.receipt, user: customer.user)
            _ = reported.note(answer, of: customer.user, after: .zero)
            if answer.status != 200 || answer["stale"] == "true" { run.lostRetry += 1 }
          }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        let ending = await service.stop()
        run.forged = tallies.map(\.posts).reduce(0, +)
        run.granted = tallies.count { $0.isGranted }
        run.alarms = ending.log.split(separator: "\n")
          .count { $0.contains("Apple cannot be asked") || $0.contains(#""message":"a circuit breaker changed""#) }
        let audit = try LedgerAudit(path: world.ledgerPath)
        run.kept = tallies.map(\.acknowledged).reduce(0, +) + audit.pending.count
        run.findings = audit.findings(acknowledged: reported.figures.acknowledged)
        return run
      }
    }
  }
}

import Foundation
import Testing

@testable import AppStoreSimulator
@testable import Countersign

extension FaultTests {
  /// The host's clock jumps under the running service; Apple's does not.
  @Suite(.serialized, .played(with: "a C compiler", if: JumpingClock.compiler != nil))
  struct ClockFaultTests {
    @Test(arguments: [365, -365])
    func `a clock that jumps by a year changes nobody's tier`(days: Int) async throws {
      let run = try await Self.play(days: days)
      FaultReport.say(
        "clock \(days) days", "\(run.customers) users", "\(run.changedReads) tiers read otherwise",
        "\(run.changedAnswers) answered otherwise while Apple is away", "\(run.changedVerdicts) verdicts otherwise",
        "\(run.fresh) of \(run.customers) fresh",
        run.findings.figures)
      #expect(run.changedReads == 0)
      #expect(run.changedAnswers == 0)
      #expect(run.changedVerdicts == 0)
      #expect(run.findings.isClean, "\(run.findings)")
    }

    #if PLANTED_DEFECTS
      @Test func `planted: a service that judges by the wall clock is noticed`() async throws {
        let run = try await Self.play(
          days: 365, environment: ["COUNTERSIGN_PLANTED_DEFECT": "judge_by_wall_clock"])
        let changed = run.changedReads + run.changedAnswers
        FaultReport.planted("judge_by_wall_clock", "\(changed) tiers otherwise", isCaught: changed > 0)
        #expect(changed > 0)
      }
    #endif

    struct Run: Sendable {
      var customers = 0
      var changedReads = 0
      var changedAnswers = 0
      var changedVerdicts = 0
      /// Verdicts of Apple's under the wrong clock. TLS judges certificates by it, so there may be none.
      var fresh = 0
      var findings = LedgerAudit.Findings()
    }

    private static func play(days: Int, environment: [String: String] = [:]) async throws -> Run {
      var settings = Settings()
      settings.appStore["deadline"] = "1s"
      return try await FaultWorld.run(
        customers: FaultSize.choose(short: 10, full: 200), settings: settings, withProfiles: false
      ) { world in
        let clock = try JumpingClock(in: world.directory)
        let service = try await world.start(environment: environment.merging(clock.environment) { $1 })
        let before = FaultLoad()
        for customer in world.customers { await before.post(customer, to: service) }
        let tiers = Dictionary(before.figures.acknowledged.map { ($0.user, $0.tier) }) { $1 }

        try clock.jump(days: days)
        var run = Run()
        run.customers = tiers.count
        for customer in world.customers {
          let answer = try await service.profile(customer.user)
          if answer["tier"] != tiers[customer.user] { run.changedReads += 1 }
        }
        world.simulator.setTrouble(.http500)
        let during = FaultLoad()
        for customer in world.customers.prefix(5) { await during.post(customer, to: service) }
        run.changedAnswers =
          during.figures.acknowledged.count { $0.tier != tiers[$0.user] }
          + during.figures.refused.values.reduce(0, +)
        world.simulator.setTrouble(nil)
        let after = FaultLoad()
        for customer in world.customers { await after.post(customer, to: service) }
        run.changedVerdicts =
          after.figures.acknowledged.count { $0.tier != tiers[$0.user] }
          + after.figures.refused.values.reduce(0, +)
        run.fresh = after.figures.acknowledged.count { !$0.isStale }
        await service.stop()
        run.findings = try LedgerAudit(path: world.ledgerPath).findings(
          acknowledged: before.figures.acknowledged + during.figures.acknowledged + after.figures.acknowledged)
        return run
      }
    }
  }
}

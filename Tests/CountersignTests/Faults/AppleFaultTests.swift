import Foundation
import Testing

@testable import AppStoreSimulator

extension FaultTests {
  /// Apple in each kind of trouble for a while, then well.
  @Suite(.serialized) struct AppleFaultTests {
    @Test func `Apple in trouble: no tier is lowered, calls are bounded, and everything is settled after`() async throws
    {
      let random = FaultRandom()
      let run = try await Self.play(
        FaultSize.choose(short: Self.someTroubles, full: Trouble.allCases.filter { $0.befalls(.verifyReceipt) }),
        random: random)
      FaultReport.say(
        "Apple", seed: random.seed, "\(run.troubles) troubles of \(run.each.brief)", "\(run.posts) posts",
        "\(run.calls) calls to Apple meanwhile", "most in one outage \(run.mostCalls) (\(run.worst))",
        "\(run.callsAnswered) more where Apple answers at once",
        "\(run.lowered.count) tiers lowered", "\(run.kept) new purchases kept",
        "\(run.unsettled) unsettled \(run.settledAfter.brief) after", run.findings.figures)
      #expect(run.lowered == [], "seed \(random.seed)")
      #expect(run.unanswered == 0)
      #expect(run.unsettled == 0)
      #expect(run.kept > 0)
      #expect(run.wronglySettled == [])
      #expect(run.findings.isClean, "\(run.findings)")
      #expect(run.unbounded == [])
    }

    @Test func `planted: a tier that falls by our clock alone is noticed`() async throws {
      // With no hold a state ends when it ends by our clock, whatever Apple would have said: the wrong policy stands for
      // a service that lowers a tier because Apple cannot be asked.
      var lowered: Set<String> = []
      // On a busy machine the subscriptions may have ended before they were proven: then later.
      for lead in [2.0, 8, 32] where lowered.isEmpty {
        lowered = try await Self.play(
          [.http503], for: .seconds(lead + 1), lead: lead, random: FaultRandom(),
          environment: ["COUNTERSIGN_POLICY_OUTAGE_HOLD": "0"]
        ).lowered
      }
      FaultReport.planted("no outage hold", "\(lowered.count) tiers lowered", isCaught: !lowered.isEmpty)
      #expect(!lowered.isEmpty)
    }

    #if PLANTED_DEFECTS
      @Test func `planted: a service that takes trouble for the end of a subscription is noticed`() async throws {
        let run = try await Self.play(
          [.http503], for: .seconds(1), random: FaultRandom(),
          environment: ["COUNTERSIGN_PLANTED_DEFECT": "trouble_ends_access"])
        FaultReport.planted(
          "trouble_ends_access", "\(run.lowered.count) tiers lowered", isCaught: !run.lowered.isEmpty)
        #expect(!run.lowered.isEmpty)
      }

      @Test func `planted: a service without a breaker is noticed`() async throws {
        var unbounded: [String] = []
        // On a busy machine it takes longer until there were too many calls.
        for seconds in [2, 8, 32] where unbounded.isEmpty {
          unbounded = try await Self.play(
            [.http503], for: .seconds(seconds), random: FaultRandom(),
            environment: ["COUNTERSIGN_PLANTED_DEFECT": "no_breaker"]
          ).unbounded
        }
        FaultReport.planted("no_breaker", unbounded.joined(), isCaught: !unbounded.isEmpty)
        #expect(!unbounded.isEmpty)
      }
    #endif

    struct Run: Sendable {
      var troubles = 0
      var each: Duration = .zero
      var posts = 0
      var calls = 0
      var mostCalls = 0
      var worst = "-"
      var callsAnswered = 0
      /// Troubles with more calls to Apple than there may be.
      var unbounded: [String] = []
      var unanswered = 0
      /// Users who were told a lower tier than was proven.
      var lowered: Set<String> = []
      /// New purchases acknowledged with 202.
      var kept = 0
      var unsettled = 0
      var settledAfter: Duration = .zero
      /// New purchases that were settled, and not with the tier that they prove.
      var wronglySettled: Set<String> = []
      var findings = LedgerAudit.Findings()
    }

    /// In these Apple answers at once, and the answer may be about this receipt alone: no reason not to ask about others.
    private static let answered: Set<Trouble> = [
      .status21000, .status21001, .status21002, .status21003, .status21004, .statusUnheardOf, .badDate, .giant,
      .endless,
      .pingPong,
    ]

    /// Apple may be asked so often in an outage: a few times until the breaker opens, then now and then. Each outage may
    /// find it closed, and eight callers with three attempts each on their way. It opens when half of the calls of the
    /// last 10 s have failed: as many as were answered before have to fail first. Without an outage a post may ask twice.
    private static func callLimit(_ trouble: Trouble, lasting duration: Duration, posts: Int, before: Int) -> Int {
      answered.contains(trouble) ? 100 + 2 * posts : 100 + Int(duration / .seconds(1)) * 4 + before
    }

    /// One of each sort: HTTP, no answer, no connection, statuses, and answers that only look like one.
    private static let someTroubles: [Trouble] = [
      .http503, .html, .stall, .reset, .status21002, .status21003, .status21004, .status21100NotRetryable,
      .missingReceipt, .badDate,
    ]

    /// - Parameter lead: for how many seconds from now the subscriptions without renewal run.
    private static func play(
      _ troubles: [Trouble], for given: Duration? = nil, lead: Double = 2, random: FaultRandom,
      environment: [String: String] = [:]
    ) async throws -> Run {
      var settings = Settings()
      settings.appStore["deadline"] = "1s"
      settings.policy["provisional"] = "24h"
      let known = 20
      let fresh = 2
      // Receipts of 15 days ago, asked about for the first time seconds before the subscriptions without renewal end: they
      // end while Apple cannot be asked, and have to be held.
      let today = Date()
      let issued = today.addingTimeInterval(-15 * 86_400 + lead)
      return try await FaultWorld.run(
        customers: known + troubles.count * fresh, at: issued, settings: settings, withProfiles: false
      ) { world in
        world.simulator.setClock(today)
        var run = Run()
        let each = given ?? FaultSize.choose(short: .milliseconds(400), full: .seconds(10))
        run.each = each
        let service = try await world.start(environment: environment)
        let proven = FaultLoad()
        let customers = Array(world.customers.prefix(known))
        for customer in customers { await proven.post(customer, to: service) }
        let tiers = Dictionary(proven.figures.acknowledged.map { ($0.user, $0.tier) }) { $1 }
        var all = proven.figures.acknowledged
        var random = random
        var answeredBefore = 0
        for (number, trouble) in troubles.enumerated() {
          run.troubles += 1
          world.simulator.setTrouble(trouble)
          world.simulator.resetCalls()
          let during = FaultLoad()
          let began = ContinuousClock.now
          let own = random.fork()
          for customer in world.customers.dropFirst(known + number * fresh).prefix(fresh) {
            let answer = try? await service.validate(customer.receipt, user: customer.user)
            _ = during.note(answer, of: customer.user, after: .zero)
            if answer?.status == 202 { run.kept += 1 }
          }
          await during.run(service, customers: customers, random: own, pace: .milliseconds(10)) {
            // On a busy machine the posts before may have taken all the time.
            ContinuousClock.now - began < each || during.figures.posts < fresh + 8
          }
          let took = ContinuousClock.now - began
          let calls = world.simulator.calls.total
          let figures = during.figures
          if Self.answered.contains(trouble) {
            run.callsAnswered += calls
          } else {
            run.calls += calls
            if calls > run.mostCalls { (run.mostCalls, run.worst) = (calls, trouble.rawValue) }
          }
          if calls > Self.callLimit(trouble, lasting: took, posts: figures.posts, before: answeredBefore) {
            run.unbounded.append("\(trouble.rawValue): \(calls) calls")
          }
          answeredBefore = Self.answered.contains(trouble) ? calls : 0
          run.posts += figures.posts
          run.unanswered += figures.unanswered
          all += figures.acknowledged
          for answer in figures.acknowledged {
            if let tier = tiers[answer.user], Self.rank(answer.tier) < Self.rank(tier) {
              run.lowered.insert(answer.user)
            }
          }
          for customer in customers {
            let tier = try await service.profile(customer.user)["tier"] ?? "-"
            if let proven = tiers[customer.user], Self.rank(tier) < Self.rank(proven) {
              run.lowered.insert(customer.user)
            }
          }
        }
        world.simulator.setTrouble(nil)
        let recovered = ContinuousClock.now
        if troubles.count > 1 {
          _ = try await eventually(within: .seconds(120), every: .milliseconds(100)) {
            run.unsettled = try LedgerAudit(path: world.ledgerPath).pending.count
            return run.unsettled == 0
          }
          run.settledAfter = ContinuousClock.now - recovered
        }
        for customer in world.customers.dropFirst(known) where Set(all.map(\.user)).contains(customer.user) {
          let tier = try await service.profile(customer.user)["tier"]
          if tier != (customer.scenario == .lifetime ? "premium" : "pro") { run.wronglySettled.insert(customer.user) }
        }
        await service.stop()
        run.findings = try LedgerAudit(path: world.ledgerPath).findings(acknowledged: all)
        return run
      }
    }

    private static func rank(_ tier: String) -> Int { ["free", "pro", "premium"].firstIndex(of: tier) ?? -1 }
  }
}

import Foundation
import Synchronization
import Testing

@testable import AppStoreSimulator
@testable import Countersign

extension FaultTests {
  /// SIGTERM, as every deployment sends it.
  @Suite(.serialized) struct ShutdownFaultTests {
    private static let grace = FaultSize.choose(short: 60, full: 10)

    @Test func `SIGTERM under load: every accepted request is answered, and the process ends in time`() async throws {
      let random = FaultRandom()
      let rounds = FaultSize.choose(short: 3, full: 50)
      var settings = Settings()
      settings.server["shutdown_grace"] = "\(Self.grace)s"
      try await FaultWorld.run(customers: 200, settings: settings, withProfiles: false) { world in
        let total = try await Self.play(rounds: rounds, in: world, random: random)
        FaultReport.say(
          "SIGTERM", seed: random.seed, "\(rounds) times", "\(total.posts) posts", "\(total.answered) answered",
          "\(total.notAccepted) not accepted", "\(total.dropped) accepted and not answered",
          "\(total.inFlight) in flight at the signal", "slowest end \(total.slowest.brief)", "exit codes \(total.codes)"
        )
        #expect(total.dropped == 0)
        #expect(total.codes == [0])
        #expect(total.slowest < .seconds(Self.grace))
        #expect(total.inFlight >= rounds * 4, "nothing was in flight when the signal came")
        let findings = try LedgerAudit(path: world.ledgerPath).findings(acknowledged: total.acknowledged)
        #expect(findings.isClean, "\(findings)")
      }
    }

    /// Without grace requests are cancelled, and answered even so: what answers nobody is a process that is killed.
    @Test func `planted: a process that ends at once is noticed`() async throws {
      let random = FaultRandom()
      try await FaultWorld.run(customers: 200, settings: Settings(), withProfiles: false) { world in
        let total = try await Self.play(rounds: 1, in: world, random: random, signal: SIGKILL)
        let isCaught = total.dropped > 0 && total.codes != [0]
        FaultReport.planted(
          "an end at once", "\(total.dropped) accepted and not answered, exit codes \(total.codes)", isCaught: isCaught)
        #expect(isCaught)
      }
    }

    struct Total: Sendable {
      var posts = 0
      var answered = 0
      /// No answer, and Apple was never asked: the service had closed the connection before it read the request.
      var notAccepted = 0
      var dropped = 0
      var inFlight = 0
      var slowest: Duration = .zero
      var codes: Set<Int32> = []
      var acknowledged: [FaultLoad.Acknowledgement] = []
    }

    /// Hands out each customer once, so that what Apple was asked about tells what was accepted.
    private final class Queue: Sendable {
      /// Guards who is next, and who got no answer.
      private let state: Mutex<(waiting: ArraySlice<FaultWorld.Customer>, silent: [FaultWorld.Customer])>

      init(_ customers: [FaultWorld.Customer]) { state = Mutex((customers[...], [])) }

      var silent: [FaultWorld.Customer] { state.withLock { $0.silent } }

      func next() -> FaultWorld.Customer? { state.withLock { $0.waiting.popFirst() } }

      func note(silent customer: FaultWorld.Customer) { state.withLock { $0.silent.append(customer) } }
    }

    private static func play(
      rounds: Int, in world: FaultWorld, random: FaultRandom, signal: Int32 = SIGTERM
    ) async throws -> Total {
      var random = random
      var total = Total()
      // Longer than the pause below, so that calls are in flight when the signal comes, however busy the machine.
      world.simulator.setDelay(.seconds(2))
      for _ in 0..<rounds {
        // A little, for the answers to be news; with the days the service would ask of itself, and the count be off.
        world.simulator.advanceClock(by: .seconds(1))
        world.simulator.resetCalls()
        let service = try await world.start()
        let load = FaultLoad()
        let queue = Queue(world.customers)
        let pause = Duration.milliseconds(Int.random(in: 0...400, using: &random))
        var reported = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 0..<32 {
            group.addTask {
              while let customer = queue.next() {
                guard await load.post(customer, to: service) else { return queue.note(silent: customer) }
              }
            }
          }
          // At a random moment, but under load.
          _ = try await eventually(within: .seconds(60)) { world.simulator.calls.inFlight > 8 }
          try await Task.sleep(for: pause)
          _ = try await eventually(within: .seconds(60)) { world.simulator.calls.inFlight > 8 }
          total.inFlight += world.simulator.calls.inFlight
          reported = .now
          service.signal(signal)
          try await group.waitForAll()
        }
        let ending = await service.ending()
        total.slowest = max(total.slowest, ContinuousClock.now - reported)
        total.codes.insert(ending.code)
        let figures = load.figures
        total.posts += figures.posts
        total.answered += figures.posts - figures.unanswered
        total.acknowledged += figures.acknowledged
        let asked = world.simulator.calls.byReceipt
        for customer in queue.silent {
          if asked[Settings.sha256(customer.receipt)] != nil { total.dropped += 1 } else { total.notAccepted += 1 }
        }
      }
      return total
    }
  }
}

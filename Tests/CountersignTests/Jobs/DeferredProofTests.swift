import AppStore
import Entitlements
import Foundation
import Synchronization
import Testing

@testable import AppStoreSimulator
@testable import Validation

/// The check of a receipt's signature is made when its result matters, and then once.
@Suite struct DeferredProofTests {
  private func run(
    _ settings: Settings = Settings(), body: @Sendable (JobBench, RunningSimulator) async throws -> Void
  ) async throws {
    try await JobBench.besideStore(by: MovingClock(), settings: settings) { bench, store, _ in
      try await body(bench, store.simulator)
    }
  }

  @Test func `only the first receipt of a frame is checked before Apple is asked`() async throws {
    try await run { bench, simulator in
      let gateway = bench.validator.gateway
      let known = try [Int64(1), 2].map { subscriber in
        let issued = try simulator.issueReceipt(.renewing, subscriber: subscriber)
        return try gateway.proof(of: gateway.decode(issued.receiptData)).isKnown
      }
      #expect(known == [true, false])
    }
  }

  @Test func `a receipt that has to be proven here is checked at once`() async throws {
    try await run(Settings(policy: ["local_verification": "require"])) { bench, simulator in
      let gateway = bench.validator.gateway
      for subscriber: Int64 in [1, 2] {
        let issued = try simulator.issueReceipt(.renewing, subscriber: subscriber)
        #expect(try gateway.proof(of: gateway.decode(issued.receiptData)).isKnown)
      }
    }
  }

  /// Each answer, and the checks that it needs: for the breaker, or for the verdict on a refusal.
  @Test(arguments: [
    (nil, 0), (Trouble.status21002, 1), (.status21003, 1), (.status21005, 1), (.status21009, 1),
    (.status21100Retryable, 1), (.status21199, 1), (.status21004, 0), (.http500, 0), (.notJSON, 0), (.reset, 0),
  ])
  func `a good answer needs no check, and trouble at most one`(_ trouble: Trouble?, _ checks: Int) async throws {
    try await run { bench, simulator in
      let gateway = bench.validator.gateway
      let receipt = try gateway.decode(simulator.issueReceipt(.renewing, subscriber: 1).receiptData)
      if let trouble { simulator.setTrouble(trouble, count: nil, environment: nil) }
      let made = Mutex(0)
      let reference = PurchaseReference(
        receipt: receipt,
        proof: DeferredProof {
          made.withLock { $0 += 1 }
          return gateway.unrequiredProof(of: receipt)
        })
      do {
        _ = try await gateway.ask(about: reference, for: "anna", mayReuse: false, logger: bench.log.logger)
        #expect(trouble == nil)
      } catch {
        #expect(trouble != nil)
      }
      #expect(made.withLock { $0 } == checks)
      #expect(reference.proof.check == .passed)
      #expect(made.withLock { $0 } == 1)
    }
  }
}

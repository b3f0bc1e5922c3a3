import Entitlements
import Foundation
import Ledger
import Profiles
import Synchronization
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Validation

/// A write that was never answered may be carried out after a newer one, so that the newer one is written once more, when
/// the older cannot come any more.
@Suite struct ProfileConfirmationTests {
  private static let user = UserID("user-1")

  /// A store that cannot tell old from new, and gives the answers it was told to give, the last one again and again.
  private final class Store: ProfileStore {
    private let answers: Mutex<[ProfileWriteOutcome]>
    private let written = Mutex<[Int64]>([])

    init(_ answers: ProfileWriteOutcome...) { self.answers = Mutex(answers) }

    /// The versions that came.
    var versions: [Int64] { written.withLock { $0 } }

    var refusesOlder: Bool { false }
    func check(deadline: ContinuousClock.Instant) async -> ProfileStoreCheck { .ok }

    func apply(_ update: ProfileUpdate, deadline: ContinuousClock.Instant) async -> ProfileWriteOutcome {
      written.withLock { $0.append(update.version) }
      return answers.withLock { $0.count > 1 ? $0.removeFirst() : $0.first ?? .applied }
    }
  }

  private static let lost = ProfileWriteOutcome.unavailable(
    ProfileStoreTrouble(code: "timed_out", sentence: "No answer", mayStillBeApplied: true), retryAfter: nil)

  /// A user whose verdict is recorded and not written yet.
  private func run(
    _ store: Store, body: @Sendable (JobBench, ProfileWriteBack, UpdateDeliverer, MovingClock) async throws -> Void
  ) async throws {
    let clock = MovingClock()
    try await SimulatedStore.run { simulated in
      try await JobBench.run(apple: simulated.apple, now: { clock.date }) { bench in
        let writeBack = ProfileWriteBack(
          store: store, ledger: bench.ledger, deadline: .seconds(4), now: { clock.date }, startedAt: { noon },
          jitter: { _ in .zero }, health: ProfileStoreHealth())
        var bench = bench
        let validator = bench.validator
        bench.validator = ReceiptValidator(
          gateway: validator.gateway, ledger: validator.ledger,
          verdicts: VerdictContext(rules: validator.rules, now: bench.now, writeBack: writeBack),
          ownership: validator.ownership, provisional: validator.provisional)
        let deliverer = UpdateDeliverer(
          writeBack: writeBack, ledger: bench.ledger, logger: bench.log.logger, now: { clock.date })
        try await bench.validate(try simulated.simulator.issueReceipt(.renewing, subscriber: 1).receiptData)
        try await body(bench, writeBack, deliverer, clock)
      }
    }
  }

  @Test func `a confirming write is made when it is due, not at the next request`() async throws {
    let store = Store(Self.lost, .applied)
    try await run(store) { bench, writeBack, deliverer, clock in
      let logger = bench.log.logger
      #expect(await writeBack.write(Self.user, logger: logger) == .settled(.written))
      let version = try #require(store.versions.first)
      #expect(store.versions == [version, version])
      // Another request, and a sweep that had claimed what was not written then.
      #expect(await writeBack.write(Self.user, logger: logger) == .settled(.written))
      #expect(await writeBack.write(Self.user, confirming: version - 1, logger: logger) == .settled(.written))
      clock.advance(by: 59)
      #expect(await deliverer.sweep(limit: 10) == 0)
      #expect(store.versions == [version, version])
      clock.advance(by: 1)
      #expect(await deliverer.sweep(limit: 10) == 1)
      #expect(store.versions == [version, version, version])
      clock.advance(by: 3600)
      #expect(await deliverer.sweep(limit: 10) == 0)
      #expect(store.versions == [version, version, version])
    }
  }

  @Test func `a recorded verdict is left to its request, and delivered if that does not write it`() async throws {
    let away = ProfileWriteOutcome.unavailable(
      ProfileStoreTrouble(code: GuardedProfileStore.refusal, sentence: "Not asked"), retryAfter: nil)
    let store = Store(away, .applied)
    try await run(store) { _, _, deliverer, clock in
      // The request asked in vain; nothing was put back.
      #expect(store.versions.count == 1)
      clock.advance(by: 7.999)
      #expect(await deliverer.sweep(limit: 10) == 0)
      clock.advance(by: 0.001)
      #expect(await deliverer.sweep(limit: 10) == 1)
      #expect(store.versions.count == 2)
      clock.advance(by: 3600)
      #expect(await deliverer.sweep(limit: 10) == 0)
    }
  }

  @Test func `a user ID that no row can have is missing, does not wait, and is told with its cause`() async throws {
    let trouble = ProfileStoreTrouble(code: "22P02", sentence: "The user ID cannot be one of the profile store's")
    let store = Store(.impossibleUserID(trouble))
    try await run(store) { bench, _, _, _ async throws in
      #expect(store.versions.count == 1)
      #expect(try await bench.ledger.profile(of: Self.user)?.write == .missing)
      #expect(try await bench.ledger.backlog(at: .distantFuture).updates == 0)
      let told = bench.log.lines.filter { $0.contains("the profile store has no such profile") }
      #expect(told.count == 1 && told.first?.contains("cannot be one of the profile store's") == true, "\(told)")
    }
  }

  @Test func `a row that was missing is looked for at once after a start`() async throws {
    let store = Store(.noSuchProfile, .noSuchProfile, .applied)
    try await run(store) { bench, _, deliverer, clock async throws in
      clock.advance(by: 60)
      #expect(await deliverer.sweep(limit: 10) == 1)
      #expect(await deliverer.sweep(limit: 10) == 0)
      #expect(await deliverer.release())
      #expect(await deliverer.sweep(limit: 10) == 1)
      #expect(store.versions.count == 3)
      #expect(try await bench.ledger.profile(of: Self.user)?.write == .written)
    }
  }

  private static let trouble = ProfileStoreTrouble(code: "23514", sentence: "No")

  @Test(arguments: [(ProfileWriteOutcome.refused(trouble), "error"), (.misconfigured(trouble), "critical")])
  func `an update that the store refuses is told, and tried again until it is taken`(
    outcome: ProfileWriteOutcome, level: String
  ) async throws {
    let store = Store(outcome, outcome, .applied)
    try await run(store) { bench, _, deliverer, clock in
      #expect(store.versions.count == 1)
      #expect(bench.log.lines.contains { $0.contains(#""level":"\#(level)""#) && $0.contains("23514") })
      for attempt in 2...3 {
        let backlog = try await bench.ledger.backlog(at: clock.date)
        #expect(backlog.updates == 1 && backlog.lastProblem == "23514")
        clock.advance(by: 86_400)
        _ = await deliverer.sweep(limit: 10)
        #expect(store.versions.count == attempt)
      }
      #expect(try await bench.ledger.profile(of: Self.user)?.write == .written)
    }
  }

  @Test func `a row whose version lies in the future is written all the same, and so it goes on`() async throws {
    let store = Store(.superseded(by: 9_999_999_999_999_999), .applied)
    try await run(store) { bench, _, _, _ async throws in
      #expect(store.versions.last == 10_000_000_000_000_000 && store.versions.count == 2)
      #expect(try await bench.ledger.profile(of: Self.user)?.write == .written)
      #expect(bench.log.lines.count { $0.contains("the profile's version is in the future") } == 1)
    }
  }

  @Test func `one row that a trigger changes is refused alone, and two are a misconfigured store`() async throws {
    let store = Store(.misconfigured(ProfileStoreTrouble(code: "changed_by_store", sentence: "No")))
    try await run(store) { bench, writeBack, _, clock in
      let logger = bench.log.logger
      #expect(await writeBack.write(Self.user, logger: logger) == .refused)
      #expect(writeBack.health.state == .ok)
      func levels() -> [String] {
        let told = bench.log.lines.filter { $0.contains("changed_by_store") }
        return told.map { $0.contains(#""level":"critical""#) ? "critical" : "lower" }
      }
      #expect(levels() == ["lower", "lower"])
      _ = try await bench.ledger.run(
        Give(
          user: "user-2", kind: .support, tier: "pro", startsAt: clock.date, endsAt: clock.date.addingTimeInterval(60),
          author: "desk", requestID: "grant", evaluationContext: bench.validator.verdicts.evaluationContext))
      #expect(await writeBack.write("user-2", logger: logger) == .refused)
      #expect(writeBack.health.state == .misconfigured(code: "changed_by_store"))
      #expect(levels() == ["lower", "lower", "critical"])
    }
  }

  @Test func `a row that a trigger changes stays told, each time that it is written, ever more rarely`() async throws {
    let version = Int64(noon.timeIntervalSince1970) * 1000
    let trouble = ProfileStoreTrouble(code: "changed_by_store", sentence: "No")
    let store = Store(
      .misconfigured(trouble), .superseded(by: version), .misconfigured(trouble), .superseded(by: version + 1), .applied
    )
    try await run(store) { bench, _, deliverer, clock async throws in
      clock.advance(by: 60)
      #expect(await deliverer.sweep(limit: 10) == 1)
      #expect(store.versions == [version, version, version + 1])
      #expect(try await bench.ledger.profile(of: Self.user)?.write == .waiting)
      #expect(try await bench.ledger.backlog(at: clock.date).lastProblem == "changed_by_store")
      clock.advance(by: 60)
      #expect(await deliverer.sweep(limit: 10) == 0)
      // The trigger is gone.
      clock.advance(by: 60)
      #expect(await deliverer.sweep(limit: 10) == 1)
      #expect(store.versions == [version, version, version + 1, version + 1, version + 2])
      #expect(try await bench.ledger.profile(of: Self.user)?.write == .written)
    }
  }
}

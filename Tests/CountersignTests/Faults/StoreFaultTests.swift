import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

extension FaultTests {
  /// A profile store that is down, slow, or answers everything but what it should, while purchases come in.
  @Suite struct StoreFaultTests {
    /// The trouble that befalls the store, and the answers that a caller may see of it.
    enum Trouble: String, CaseIterable, Sendable {
      case refused
      case hang
      case slow
      case http500
      case http503
      case html520
      case unauthorized
      case reset
      case applyAndReset
      /// Carried out after the outage, when every newer update is in.
      case carriedOutLate

      func begin(_ store: ProfileStoreDouble) async {
        switch self {
        case .refused: await store.refuse()
        case .hang: store.set(.hang)
        case .slow: store.set(.slow(.seconds(15)))
        case .http500: store.set(.http500)
        case .http503: store.set(.http503)
        case .html520: store.set(.html520)
        case .unauthorized: store.set(.unauthorized)
        case .reset: store.set(.reset)
        case .applyAndReset: store.set(.applyAndReset)
        case .carriedOutLate: store.set(.hold)
        }
      }

      func end(_ store: ProfileStoreDouble) async throws {
        store.set(.ok)
        if self == .refused { try await store.accept() }
      }
    }

    @Test func `a store in trouble: validations keep answering, and every profile is right after`() async throws {
      let random = FaultRandom()
      try await Self.check(
        FaultSize.choose(short: [.refused, .http503, .carriedOutLate], full: Trouble.allCases), random: random,
        hasVersionColumn: true)
    }

    /// Without a version the store cannot tell an older update from a newer one: a write that was given up, and is carried
    /// out later, goes over a newer. The service writes such a row again, a minute later. The short form does not wait for
    /// that: see the planted mistake below.
    @Test func `a store in trouble whose rows have no version: every row ends as the newest`() async throws {
      let random = FaultRandom()
      try await Self.check(
        FaultSize.choose(short: [.refused], full: [.refused, .slow, .applyAndReset, .carriedOutLate]), random: random,
        hasVersionColumn: false)
    }

    private static func check(_ troubles: [Trouble], random: FaultRandom, hasVersionColumn: Bool) async throws {
      try await withThrowingTaskGroup(of: (Trouble, Run).self) { group in
        var waiting = troubles.makeIterator()
        func addNext() {
          guard let trouble = waiting.next() else { return }
          group.addTask {
            (trouble, try await play(trouble, random: random, hasVersionColumn: hasVersionColumn))
          }
        }
        // Each has a service and a store of its own.
        for _ in 0..<3 { addNext() }
        for try await (trouble, run) in group {
          addNext()
          FaultReport.say(
            "store \(trouble.rawValue)\(hasVersionColumn ? "" : ", no version column")", seed: random.seed,
            run.outage.brief, "\(run.posts) posts", "\(run.queued) queued", "p99 \(run.slowest.brief)",
            "\(run.overtaken) rows went back on the way", "all right \(run.delivered.brief) after",
            run.delivery.figures, run.findings.figures)
          #expect(run.refused == [:], "\(trouble)")
          #expect(run.queued > 0, "\(trouble)")
          #expect(run.unanswered == 0, "\(trouble)")
          // The store's deadline is 500 ms; the rest is Apple and the disk. A service that waited for the store would wait
          // for 15 s and more.
          if FaultSize.isFull { #expect(run.slowest < .seconds(5), "\(trouble)") }
          #expect(run.delivery.isClean, "\(trouble): \(run.delivery)")
          #expect(run.findings.isClean, "\(trouble): \(run.findings)")
        }
      }
    }

    @Test func `planted: an update that is forgotten, and one overtaken by an older, are noticed`() async throws {
      let random = FaultRandom()
      let forgotten = try await Self.play(.http503, random: random, outage: .seconds(1)) { world in
        world.profiles?.set(.lie)
      }
      FaultReport.planted(
        "updates forgotten (taken and not applied)", "\(forgotten.delivery.behind.count) rows behind",
        isCaught: !forgotten.delivery.behind.isEmpty)
      #expect(!forgotten.delivery.behind.isEmpty)

      let overtaken = try await Self.play(
        .refused, random: random, outage: .seconds(1),
        afterwards: { world in
          guard let last = world.profiles?.applied.last else { return }
          world.profiles?.overwrite(
            last.user, with: ["subscription_tier": .text("nonsense"), "subscription_version": .integer(1)])
        })
      let isCaught = !overtaken.delivery.behind.isEmpty && !overtaken.delivery.disordered.isEmpty
      FaultReport.planted(
        "an older update over a newer", overtaken.delivery.figures, isCaught: isCaught)
      #expect(isCaught)
    }

    @Test func `planted: a write that is carried out late and not written again is noticed`() async throws {
      var behind: [String] = []
      // Longer on a busy machine: a row has to change after the write that was given up.
      for outage in [2, 10, 40] where behind.isEmpty {
        behind = try await Self.play(
          .carriedOutLate, random: FaultRandom(), hasVersionColumn: false, outage: .seconds(outage), isConfirmed: false
        ).delivery.behind
      }
      FaultReport.planted(
        "a late write on rows without a version, not written again", "\(behind.count) rows behind",
        isCaught: !behind.isEmpty)
      #expect(!behind.isEmpty)
    }

    #if PLANTED_DEFECTS
      @Test func `planted: a service that forgets an update that failed is noticed`() async throws {
        let run = try await Self.play(
          .refused, random: FaultRandom(), environment: ["COUNTERSIGN_PLANTED_DEFECT": "forget_failed_update"],
          outage: .seconds(1), recovery: { _ in })
        FaultReport.planted(
          "forget_failed_update", "\(run.delivery.behind.count) rows behind", isCaught: !run.delivery.behind.isEmpty)
        #expect(!run.delivery.behind.isEmpty)
      }
    #endif

    struct Run: Sendable {
      var outage: Duration
      var posts = 0
      /// Answers that said the profile will follow.
      var queued = 0
      var refused: [String: Int] = [:]
      var unanswered = 0
      /// The 99th percentile of the answers during the outage.
      var slowest: Duration = .zero
      /// Rows that went back on the way, their end of access before what it had been.
      var overtaken = 0
      /// From the end of the outage until every row was right.
      var delivered: Duration = .zero
      var delivery: DeliveryAudit
      var findings: LedgerAudit.Findings
    }

    /// - Parameters:
    ///   - isConfirmed: false to look before the service has written again what was carried out late.
    ///   - recovery: done in place of the store's return to health.
    ///   - afterwards: done once everything was delivered.
    private static func play(
      _ trouble: Trouble, random: FaultRandom, hasVersionColumn: Bool = true, environment: [String: String] = [:],
      outage given: Duration? = nil, isConfirmed: Bool = true, recovery: (@Sendable (FaultWorld) -> Void)? = nil,
      afterwards: (@Sendable (FaultWorld) -> Void)? = nil
    ) async throws -> Run {
      let outage = given ?? FaultSize.choose(short: Duration.seconds(2), full: .seconds(60))
      return try await FaultWorld.run(
        customers: FaultSize.choose(short: 20, full: 200), hasVersionColumn: hasVersionColumn
      ) { world in
        guard let store = world.profiles else { throw RunningService.Failure("no store") }
        let service = try await world.start(environment: environment)
        let load = FaultLoad()
        for customer in world.customers { await load.post(customer, to: service) }

        await trouble.begin(store)
        let during = FaultLoad()
        let began = ContinuousClock.now
        await during.run(
          service, customers: world.customers, writers: 4, random: random, pace: .milliseconds(20),
          each: { _ in world.simulator.advanceClock(by: .seconds(21_600)) },
          // On a busy machine longer, until rows have changed: on the way trials of five days are renewed.
          while: { ContinuousClock.now - began < outage || during.figures.posts < 80 })
        if let recovery { recovery(world) } else { try await trouble.end(store) }

        let recovered = ContinuousClock.now
        func audit() throws -> DeliveryAudit {
          DeliveryAudit(store, ledger: try LedgerAudit(path: world.ledgerPath), hasVersion: hasVersionColumn)
        }
        // Requests that were given up may be carried out still.
        _ = try await eventually(within: .seconds(60)) { store.underWay == 0 }
        // Taken while the service runs: it goes on to ask about what is due, and is stopped between verdict and row.
        var delivery = try audit()
        _ = try await eventually(within: .seconds(recovery == nil ? 150 : 2), every: .milliseconds(200)) {
          delivery = try audit()
          return delivery.behind.isEmpty
        }
        if trouble == .carriedOutLate {
          store.carryOutHeld()
          delivery = try audit()
          _ = try await eventually(within: .seconds(isConfirmed ? 150 : 0), every: .milliseconds(200)) {
            delivery = try audit()
            return delivery.behind.isEmpty
          }
        }
        let delivered = ContinuousClock.now - recovered
        if let afterwards {
          afterwards(world)
          delivery = try audit()
        }
        await service.stop()
        let ledger = try LedgerAudit(path: world.ledgerPath)
        let figures = during.figures
        return Run(
          outage: outage, posts: figures.posts, queued: figures.acknowledged.count { $0.profileWrite == "queued" },
          refused: figures.refused, unanswered: figures.unanswered,
          slowest: figures.latencies.percentile(0.99) ?? .zero,
          overtaken: Self.overtaken(in: store), delivered: delivered,
          delivery: delivery,
          findings: ledger.findings(acknowledged: load.figures.acknowledged + figures.acknowledged))
      }
    }

    private static func overtaken(in store: ProfileStoreDouble) -> Int {
      Dictionary(grouping: store.applied, by: \.user).values.count { updates in
        // Times of one format sort as their text does.
        let ends = updates.compactMap { $0.values["subscription_expires_at"]?.text }
        return zip(ends, ends.dropFirst()).contains { $0 > $1 }
      }
    }
  }
}

import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

extension FaultTests {
  /// A disk that is full, read-only or broken under the ledger.
  @Suite(.serialized) struct DiskFaultTests {
    // MARK: Full

    @Test(.playedOnSmallDisk)
    func `a full disk: nothing is acknowledged, reads go on, and it mends itself without a restart`() async throws {
      try await Self.fill { run in
        FaultReport.say(
          "disk full", "\(run.before) posts acknowledged before", "\(run.refused) refused while full",
          "\(run.reads) reads meanwhile", "\(run.findings.lost.count) lost",
          "taken again after \(run.mended?.brief ?? "-")")
        #expect(run.findings.isClean, "\(run.findings)")
        #expect(run.refusals == ["503 ledger_unavailable"])
        #expect(run.retryAfter)
        #expect(run.refused > 0 && run.reads >= 20 && run.failedReads == 0)
        #expect(run.wasUnready)
        let mended = try #require(run.mended)
        #expect(mended < .seconds(20))
      }
    }

    @Test(.playedOnSmallDisk)
    func `planted: a disk that stays full, and a ledger put back, are noticed`() async throws {
      try await Self.fill(mends: false) { run in
        FaultReport.planted(
          "does not mend itself (space is never freed)", "not taken again", isCaught: run.mended == nil)
        #expect(run.mended == nil)
      }
      try await Self.fill(putsBack: true) { run in
        FaultReport.planted(
          "acknowledged on a full disk without recording (ledger put back)", "\(run.findings.lost.count) lost",
          isCaught: !run.findings.lost.isEmpty)
        #expect(!run.findings.lost.isEmpty)
      }
    }

    struct Full: Sendable {
      var before = 0
      var refused = 0
      var refusals: Set<String> = []
      var retryAfter = true
      var reads = 0
      var failedReads = 0
      var wasUnready = false
      /// Until a post was acknowledged again after there was room.
      var mended: Duration?
      var findings = LedgerAudit.Findings()
    }

    private static func fill(
      mends: Bool = true, putsBack: Bool = false, check: @Sendable (Full) throws -> Void
    ) async throws {
      let disk = try SmallDisk(size: "3m")
      try await FaultWorld.run(customers: 40, withProfiles: false) { world in
        try world.configure(ledgerDirectory: disk.directory)
        let ledger = disk.directory.appending(path: "ledger.sqlite")
        let service = try await world.start()
        let load = FaultLoad()
        await load.run(
          service, customers: world.customers, random: FaultRandom(),
          each: { _ in world.simulator.advanceClock(by: .seconds(3_600)) },
          while: { load.figures.refused.isEmpty && load.figures.posts < 5_000 })
        var run = Full()
        run.before = load.figures.acknowledged.count
        for customer in world.customers.prefix(20) {
          world.simulator.advanceClock(by: .seconds(3_600))
          let answer = try await service.validate(customer.receipt, user: customer.user)
          // There may be room for a small one still; it is acknowledged, and looked for in the end.
          if load.note(answer, of: customer.user, after: .zero), answer.status == 200 { continue }
          run.refusals.insert("\(answer.status) \(answer["code"] ?? "-")")
          run.retryAfter = run.retryAfter && answer.header("Retry-After") != nil
        }
        run.refused = load.figures.refused.values.reduce(0, +)
        for customer in world.customers {
          let answer = try await service.profile(customer.user)
          run.reads += 1
          if answer.status != 200 { run.failedReads += 1 }
        }
        // There is room for a heartbeat still; a record was refused all the same.
        run.wasUnready = try await service.send(.get, "/readyz").status == 503
        if mends { try disk.resize("40m") }
        run.mended = try await Self.timeUntilTaken(service, world, load, patience: .seconds(mends ? 30 : 1))
        if run.mended != nil { for customer in world.customers { await load.post(customer, to: service) } }
        await service.stop()
        if putsBack {
          // The first page of the log is gone, and with it all that was in the log alone.
          try disk.resize("40m")
          try Self.forgetHalf(of: ledger.path(percentEncoded: false))
        }
        run.findings = try LedgerAudit(path: ledger.path(percentEncoded: false))
          .findings(acknowledged: load.figures.acknowledged)
        try check(run)
      }
    }

    private static func timeUntilTaken(
      _ service: FaultyService, _ world: FaultWorld, _ load: FaultLoad, patience: Duration
    ) async throws -> Duration? {
      let began = ContinuousClock.now
      while ContinuousClock.now - began < patience {
        world.simulator.advanceClock(by: .seconds(3_600))
        for customer in world.customers.prefix(1) {
          let answer = try await service.validate(customer.receipt, user: customer.user)
          _ = load.note(answer, of: customer.user, after: .zero)
          if answer.status == 200 { return ContinuousClock.now - began }
        }
        try await Task.sleep(for: .milliseconds(100))
      }
      return nil
    }

    private static func forgetHalf(of ledger: String) throws {
      try LedgerAudit.tamper(
        with: ledger,
        """
        DELETE FROM event WHERE sequence > (SELECT max(sequence) / 2 FROM event);
        """)
    }

    // MARK: Read-only

    @Test(.playedWithStrace, arguments: ["EROFS", "EDQUOT"])
    func `a ledger that cannot be written: nothing is acknowledged, and it mends itself without a restart`(
      problem: String
    ) async throws {
      let run = try await Self.refuseWrites("pwrite64:error=\(problem)")
      FaultReport.say("writes refused with \(problem)", run.figures)
      #expect(run.refusals == ["503 ledger_unavailable": run.customers])
      #expect(run.acknowledged == 0)
      #expect(run.reads == run.customers)
      #expect(run.mended != nil)
      #expect(run.code == 0)
      #expect(run.findings.isClean, "\(run.findings)")
    }

    @Test(.playedWithStrace) func `planted: a ledger that stays read-only, and writes that go nowhere, are noticed`()
      async throws
    {
      let lasting = try await Self.refuseWrites("pwrite64:error=EROFS", mends: false)
      FaultReport.planted(
        "does not mend itself (it stays read-only)", lasting.figures, isCaught: lasting.mended == nil)
      #expect(lasting.mended == nil)
      // To the service each write is done; what it then acknowledges is nowhere. If a job writes before the first post, the
      // service finds its file damaged and ends at once: then once more.
      var swallowed = try await Self.refuseWrites("pwrite64:retval=4096")
      for _ in 0..<3 where swallowed.acknowledged == 0 {
        swallowed = try await Self.refuseWrites("pwrite64:retval=4096")
      }
      FaultReport.planted(
        "acknowledged without recording (writes go nowhere)", swallowed.figures, isCaught: swallowed.acknowledged > 0)
      #expect(swallowed.acknowledged > 0)
    }

    struct Refused: Sendable {
      var customers = 0
      /// While it could not be written.
      var acknowledged = 0
      var refusals: [String: Int] = [:]
      var reads = 0
      /// Until a post was acknowledged again.
      var mended: Duration?
      var code: Int32 = 0
      var findings = LedgerAudit.Findings()

      var figures: String {
        "\(acknowledged) acknowledged meanwhile, \(refusals) refused, \(reads) of \(customers) read, "
          + "taken again after \(mended?.brief ?? "never"), exit code \(code), \(findings.figures)"
      }
    }

    /// - Parameter mends: false to let the fault last until the service is told to stop.
    private static func refuseWrites(_ injection: String, mends: Bool = true) async throws -> Refused {
      try await FaultWorld.run(customers: 20, withProfiles: false) { world in
        let service = try await world.start()
        let before = FaultLoad()
        for customer in world.customers { await before.post(customer, to: service) }
        let attached = try await fault(in: world, [injection]).attach(to: service.processID)
        world.simulator.advanceClock(by: .seconds(86_400))
        let during = FaultLoad()
        for customer in world.customers { await during.post(customer, to: service) }
        var run = Refused(customers: world.customers.count)
        run.acknowledged = during.figures.acknowledged.count
        run.refusals = during.figures.refused
        for customer in world.customers where (try? await service.profile(customer.user))?.status == 200 {
          run.reads += 1
        }
        if mends { await attached.release() }
        run.mended = try? await timeUntilTaken(service, world, during, patience: .seconds(mends ? 30 : 1))
        await attached.release()
        run.code = await service.stop().code
        run.findings = try LedgerAudit(path: world.ledgerPath)
          .findings(acknowledged: before.figures.acknowledged + during.figures.acknowledged)
        return run
      }
    }

    // MARK: Broken

    /// Posts until the service ends, at most so many.
    private static let posts = 12

    @Test(.playedWithStrace)
    func `EIO at any write or sync: the process stops at once, and starts again with all it acknowledged`() async throws
    {
      try await FaultWorld.run(customers: 20, withProfiles: false) { world in
        let load = FaultLoad()
        let plan = try await Self.countCalls(world, load)
        var (fired, stops, slowest) = (0, 0, 0.0)
        for injection in plan.injections {
          var end = try await Self.play(injection, world, load)
          // strace counts by thread, and how many requests share a commit is chance: once more, with more of them.
          if end.delay == nil { end = try await Self.play(injection, world, load, posts: 4 * Self.posts) }
          guard let delay = end.delay else { continue }
          fired += 1
          if end.isStop { stops += 1 }
          slowest = max(slowest, delay)
        }
        let restarted = try await world.start()
        for customer in world.customers { await load.post(customer, to: restarted) }
        #expect(await restarted.stop().code == 0)
        let findings = try LedgerAudit(path: world.ledgerPath).findings(acknowledged: load.figures.acknowledged)
        FaultReport.say(
          "EIO", "\(plan.writes) writes and \(plan.syncs) syncs in a dry run",
          "\(plan.injections.count) failed in turn",
          "\(fired) of them reached", "\(stops) stopped", String(format: "slowest %.3f s", slowest),
          "\(load.figures.acknowledged.count) acknowledged", findings.figures)
        #expect(findings.isClean, "\(findings)")
        #expect(fired >= plan.injections.count * 9 / 10)
        #expect(stops == fired)
        #expect(slowest < 5)
      }
    }

    @Test(.playedWithStrace)
    func `planted: a disk that swallows writes is noticed as lost`() async throws {
      try await FaultWorld.run(customers: 20, withProfiles: false) { world in
        let load = FaultLoad()
        _ = try await Self.play(nil, world, load)
        // From the tenth write on the log takes none, and says that it has.
        _ = try await Self.play("pwrite64:retval=4096:when=10+", world, load, posts: 4 * Self.posts)
        let findings = try LedgerAudit(path: world.ledgerPath).findings(acknowledged: load.figures.acknowledged)
        let isCaught = !findings.lost.isEmpty
        FaultReport.planted(
          "a disk that swallows writes", "\(findings.lost.count) of \(load.figures.acknowledged.count) lost",
          isCaught: isCaught)
        #expect(isCaught)
      }
    }

    #if PLANTED_DEFECTS
      @Test(.playedWithStrace)
      func `planted: a service that carries on after a failed sync is noticed`() async throws {
        try await FaultWorld.run(customers: 20, withProfiles: false) { world in
          _ = try await Self.play(nil, world, FaultLoad())
          let end = try await Self.play(
            "fsync,fdatasync:error=EIO:when=3", world, FaultLoad(),
            environment: ["COUNTERSIGN_PLANTED_DEFECT": "carry_on_after_disk_failure"])
          let isCaught = !end.isStop
          FaultReport.planted("carry_on_after_disk_failure", "exit code \(end.code)", isCaught: isCaught)
          #expect(isCaught)
        }
      }
    #endif

    private struct Plan {
      var writes: Int
      var syncs: Int
      var injections: [String]
    }

    /// A run in which nothing fails, to learn how often the ledger writes and syncs.
    private static func countCalls(_ world: FaultWorld, _ load: FaultLoad) async throws -> Plan {
      // The first start makes the file; what is broken later is a ledger in use.
      _ = try await play(nil, world, load)
      let fault = fault(in: world)
      _ = try await play(nil, world, load)
      let record = try await fault.read()
      let (writes, syncs) = (record.calls(["pwrite64"]), record.calls(["fsync", "fdatasync"]))
      func indices(_ count: Int, short: [Int]) -> [Int] {
        FaultSize.choose(short: short, full: Array(1...max(1, count)))
      }
      return Plan(
        writes: writes, syncs: syncs,
        injections: indices(writes, short: [1, 8]).map { "pwrite64:error=EIO:when=\($0)" }
          + indices(syncs, short: [1, 3]).map { "fsync,fdatasync:error=EIO:when=\($0)" })
    }

    /// How a run with a fault in it ended.
    private struct End {
      var code: Int32
      /// From the fault to the end, in seconds; nil where the fault was not reached.
      var delay: Double?
      /// Whether any caller noticed.
      var hadTrouble: Bool

      /// 74: the disk failed. 1: it failed before the service was up. 0: it failed while the log was copied at the end,
      /// when all that counts is in the log.
      var isStop: Bool { code == 74 || code == 1 || (code == 0 && !hadTrouble) }
    }

    private static func fault(in world: FaultWorld, _ injections: [String] = []) -> SystemCallFault {
      SystemCallFault(
        ledger: world.ledgerPath, injections: injections,
        log: world.directory.appending(path: "strace").path(percentEncoded: false))
    }

    /// Starts the service with a fault in waiting, posts until it falls, and waits for the end.
    private static func play(
      _ injection: String?, _ world: FaultWorld, _ load: FaultLoad, posts: Int = posts,
      environment: [String: String] = [:]
    ) async throws -> End {
      let fault = fault(in: world, injection.map { [$0] } ?? [])
      let service: FaultyService
      do {
        service = try await world.start(environment: environment, under: fault.prefix)
      } catch let error as FaultyService.NotStarted {
        return End(code: error.ending.code, delay: try await fault.read().delay, hadTrouble: true)
      }
      var hadTrouble = false
      for number in 0..<posts {
        world.simulator.advanceClock(by: .seconds(3_600))
        // Two at a time, so that some share a commit.
        async let one = load.post(world.customers[2 * number % 20], to: service)
        async let two = load.post(world.customers[(2 * number + 1) % 20], to: service)
        let answers = await [one, two]
        hadTrouble = hadTrouble || answers.contains(false) || !load.figures.refused.isEmpty
        if answers.contains(false) { break }
      }
      service.signal(SIGTERM)
      let ending = await service.ending()
      return End(code: ending.code, delay: try await fault.read().delay, hadTrouble: hadTrouble)
    }
  }
}

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
        #expect(run.mended != nil)
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
        run.mended = try await Self.timeUntilTaken(service, world, load, patience: .seconds(mends ? 120 : 1))
        if run.mended != nil { for customer in world.customers { await load.post(customer, to: service) } }
        await service.stop()
        if putsBack {
          // The first page of the log is gone, and with it all that was in the log alone.
          try disk.resize("40m")
          try LedgerAudit.tamper(
            with: ledger.path(percentEncoded: false),
            "DELETE FROM event WHERE sequence > (SELECT max(sequence) / 2 FROM event)")
        }
        run.findings = try LedgerAudit(path: ledger.path(percentEncoded: false))
          .findings(acknowledged: load.figures.acknowledged)
        try check(run)
      }
    }

    private static func timeUntilTaken(
      _ service: ServiceProcess, _ world: FaultWorld, _ load: FaultLoad, patience: Duration
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

    @Test(.playedWithStrace) func `planted: a ledger that stays read-only is noticed`() async throws {
      let lasting = try await Self.refuseWrites("pwrite64:error=EROFS", mends: false)
      FaultReport.planted(
        "does not mend itself (it stays read-only)", lasting.figures, isCaught: lasting.mended == nil)
      #expect(lasting.mended == nil)
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
        let attached = try await systemCalls(of: world, [injection]).attach(to: service.processID)
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
        run.mended = try? await timeUntilTaken(service, world, during, patience: .seconds(mends ? 120 : 1))
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

    #if PLANTED_DEFECTS
      /// The short form fails writes and syncs of the log, counted in the process; the full form also those of the ledger's file,
      /// by strace, which counts by thread.
      @Test func `EIO at any write or sync: the process stops at once, and starts again with all it acknowledged`()
        async throws
      {
        try await FaultWorld.run(customers: 20, withProfiles: false) { world in
          let load = FaultLoad()
          // The first start makes the file; what is broken later is a ledger in use.
          _ = try await Self.play(nil, world, load)
          let faults = FaultSize.isFull ? try await Self.everyCall(world, load) : Self.fewCalls
          var (fired, stops, slowest) = (0, 0, Duration.zero)
          for fault in faults {
            var end = try await Self.play(fault, world, load)
            // How many requests share a commit is chance: once more, with more of them.
            if !end.isReached { end = try await Self.play(fault, world, load, posts: 4 * Self.posts) }
            guard end.isReached else { continue }
            fired += 1
            if end.isStop { stops += 1 }
            slowest = max(slowest, end.delay)
          }
          let restarted = try await world.start()
          for customer in world.customers { await load.post(customer, to: restarted) }
          #expect(await restarted.stop().code == 0)
          let findings = try LedgerAudit(path: world.ledgerPath).findings(acknowledged: load.figures.acknowledged)
          FaultReport.say(
            "EIO", "\(faults.count) writes and syncs failed in turn", "\(fired) of them reached", "\(stops) stopped",
            "slowest \(slowest.brief)", "\(load.figures.acknowledged.count) acknowledged", findings.figures)
          #expect(findings.isClean, "\(findings)")
          #expect(fired >= FaultSize.choose(short: faults.count, full: faults.count * 9 / 10))
          #expect(stops == fired)
          if FaultSize.isFull { #expect(slowest < .seconds(5)) }
        }
      }

      @Test func `planted: a disk that swallows writes is noticed as lost`() async throws {
        try await FaultWorld.run(customers: 20, withProfiles: false) { world in
          let load = FaultLoad()
          _ = try await Self.play(nil, world, load)
          _ = try await Self.play(
            nil, world, load, environment: ["COUNTERSIGN_PLANTED_DEFECT": "swallow_commits"])
          let findings = try LedgerAudit(path: world.ledgerPath).findings(acknowledged: load.figures.acknowledged)
          let isCaught = !findings.lost.isEmpty
          FaultReport.planted(
            "a disk that swallows writes", "\(findings.lost.count) of \(load.figures.acknowledged.count) lost",
            isCaught: isCaught)
          #expect(isCaught)
        }
      }

      @Test func `planted: a service that carries on after a failed sync is noticed`() async throws {
        try await FaultWorld.run(customers: 20, withProfiles: false) { world in
          _ = try await Self.play(nil, world, FaultLoad())
          let end = try await Self.play(
            // Later than those of the start, and before the last post's.
            .log("sync:10"), world, FaultLoad(),
            environment: ["COUNTERSIGN_PLANTED_DEFECT": "carry_on_after_disk_failure"])
          let isCaught = end.hadTrouble && end.code == 0
          FaultReport.planted("carry_on_after_disk_failure", "exit code \(end.code)", isCaught: isCaught)
          #expect(isCaught)
        }
      }
    #endif

    private enum Fault {
      /// A write or sync of the log fails, by its number in the process: `write:8`.
      case log(String)
      /// Calls on the ledger's files fail, in strace's words; none where there is no word.
      case calls([String])
    }

    /// Each is reached: every post waits for a commit, and each commit is written and synced.
    private static let fewCalls: [Fault] = [.log("write:1"), .log("write:8"), .log("sync:1"), .log("sync:3")]

    /// Every call of a run in which nothing fails.
    private static func everyCall(_ world: FaultWorld, _ load: FaultLoad) async throws -> [Fault] {
      let fault = systemCalls(of: world)
      _ = try await play(.calls([]), world, load)
      let record = try await fault.read()
      return (1...max(1, record.calls(["pwrite64"]))).map { .calls(["pwrite64:error=EIO:when=\($0)"]) }
        + (1...max(1, record.calls(["fsync", "fdatasync"]))).map { .calls(["fsync,fdatasync:error=EIO:when=\($0)"]) }
        + fewCalls
    }

    /// How a run with a fault in it ended.
    private struct End {
      var code: Int32
      /// Whether the fault came about.
      var isReached: Bool
      /// From the fault, or the first request without an answer, to the end.
      var delay: Duration = .zero
      /// Whether any caller noticed.
      var hadTrouble: Bool

      /// 74: the disk failed. 1: it failed before the service was up. 0: it failed while the log was copied at the end,
      /// when all that counts is in the log.
      var isStop: Bool { code == 74 || code == 1 || (code == 0 && !hadTrouble) }
    }

    private static func systemCalls(of world: FaultWorld, _ injections: [String] = []) -> SystemCallFault {
      SystemCallFault(
        ledger: world.ledgerPath, injections: injections,
        log: world.directory.appending(path: "strace").path(percentEncoded: false))
    }

    /// Starts the service with a fault in waiting, posts until it falls, and waits for the end.
    private static func play(
      _ fault: Fault?, _ world: FaultWorld, _ load: FaultLoad, posts: Int = posts,
      environment: [String: String] = [:]
    ) async throws -> End {
      var environment = environment
      var calls: SystemCallFault?
      switch fault {
      case nil: break
      case .log(let fault): environment["COUNTERSIGN_PLANTED_LOG_FAULT"] = "\(fault):\(EIO)"
      case .calls(let injections): calls = systemCalls(of: world, injections)
      }
      let refusedBefore = load.figures.refused
      let service: ServiceProcess
      do {
        service = try await world.start(environment: environment, under: calls?.prefix ?? [])
      } catch let error as ServiceProcess.NotStarted {
        return End(code: error.ending.code, isReached: true, hadTrouble: true)
      }
      var hadTrouble = false
      for number in 0..<posts {
        world.simulator.advanceClock(by: .seconds(3_600))
        // Two at a time, so that some share a commit.
        async let one = load.post(world.customers[2 * number % 20], to: service)
        async let two = load.post(world.customers[(2 * number + 1) % 20], to: service)
        let answers = await [one, two]
        hadTrouble = hadTrouble || answers.contains(false) || load.figures.refused != refusedBefore
        if answers.contains(false) { break }
      }
      let began = ContinuousClock.now
      let ending = await service.stop()
      var end = End(
        code: ending.code, isReached: hadTrouble || ending.code != 0, delay: ContinuousClock.now - began,
        hadTrouble: hadTrouble)
      if let calls {
        let delay = try await calls.read().delay
        end.isReached = delay != nil
        end.delay = .seconds(delay ?? 0)
      }
      return end
    }
  }
}

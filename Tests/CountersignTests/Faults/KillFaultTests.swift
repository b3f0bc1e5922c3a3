import Foundation
import Synchronization
import Testing

@testable import AppStoreSimulator

extension FaultTests {
  /// `kill -9`: what a process that ends between two instructions leaves behind.
  @Suite(.serialized) struct KillFaultTests {
    @Test func `kill -9 under load: nothing acknowledged is lost, doubled or overtaken`() async throws {
      let random = FaultRandom()
      let kills = FaultSize.choose(short: 6, full: 200)
      try await FaultWorld.run(customers: FaultSize.choose(short: 40, full: 400)) { world in
        let run = try await Self.play(kills: kills, in: world, random: random)
        let findings = try LedgerAudit(path: world.ledgerPath).findings(acknowledged: run.figures.acknowledged)
        let restart = run.restarts.percentile(0.99) ?? .zero
        FaultReport.say(
          "kill -9", seed: random.seed, "\(kills) kills", "\(run.figures.posts) posts",
          "\(run.figures.acknowledged.count) acknowledged", findings.figures, "restart p99 \(restart.brief)")
        #expect(findings.isClean, "\(findings)")
        #expect(run.figures.refused == [:])
        #expect(run.figures.acknowledged.count > kills, "the load was none")
        if FaultSize.isFull { #expect(restart < .seconds(3)) }
        let delivery = try #require(run.delivery)
        FaultReport.say("kill -9, profiles", seed: random.seed, delivery.figures)
        #expect(delivery.isClean, "\(delivery)")
      }
    }

    @Test func `planted: commits that are gone after a kill are noticed as lost`() async throws {
      // As if answers had gone out before their commit: after each kill the last commits are not in the log.
      try await FaultWorld.run(customers: 40, withProfiles: false) { world in
        let run = try await Self.play(
          kills: FaultSize.choose(short: 3, full: 20), in: world, random: FaultRandom(), atLeast: 8
        ) {
          try WriteAheadLog(path: world.ledgerPath + "-wal").removeLast(frames: 60)
        }
        try Self.expectLoss("acknowledged before the commit (log cut off)", run.figures.acknowledged, in: world)
      }
    }

    #if PLANTED_DEFECTS
      @Test(.playedInFull) func `planted: a service that answers before it commits is noticed`() async throws {
        try await FaultWorld.run(customers: 40, withProfiles: false) { world in
          // A disk that from now on takes three seconds for each write: the kill comes between the answer and the commit. Slow
          // syncs would not do: what was written survives the process without them.
          let slowDisk = SystemCallFault(
            ledger: world.ledgerPath, injections: ["pwrite64:delay_enter=3000000"],
            log: world.directory.appending(path: "strace").path(percentEncoded: false))
          let load = FaultLoad()
          for _ in 0..<2 {
            let service = try await world.start(
              environment: ["COUNTERSIGN_PLANTED_DEFECT": "acknowledge_before_commit"])
            let attached = try await slowDisk.attach(to: service.processID)
            try await Self.load(service, load, in: world, random: FaultRandom(), for: .zero, atLeast: 1)
            #expect(await service.ending().wasKilled)
            await attached.release()
          }
          try Self.expectLoss("acknowledge_before_commit", load.figures.acknowledged, in: world)
        }
      }
    #endif

    private static func expectLoss(
      _ defect: String, _ acknowledged: [FaultLoad.Acknowledgement], in world: FaultWorld
    ) throws {
      let lost = try LedgerAudit(path: world.ledgerPath).findings(acknowledged: acknowledged).lost.count
      FaultReport.planted(defect, "\(lost) of \(acknowledged.count) lost", isCaught: lost > 0)
      #expect(lost > 0)
    }

    @Test func `planted: a ledger that was tampered with is noticed`() async throws {
      try await FaultWorld.run(customers: 10, withProfiles: false) { world in
        let load = FaultLoad()
        let service = try await world.start()
        for _ in 0..<3 {
          for customer in world.customers { await load.post(customer, to: service) }
          world.simulator.advanceClock(by: .seconds(40 * 86_400))
        }
        await service.stop()
        let acknowledged = load.figures.acknowledged
        #expect(try LedgerAudit(path: world.ledgerPath).findings(acknowledged: acknowledged).isClean)
        for defect in ["doubled", "gap", "backwards", "damaged"] {
          let path = world.ledgerPath + "-" + defect
          try FileManager.default.copyItem(atPath: world.ledgerPath, toPath: path)
          try Self.plant(defect, in: path)
          let findings = try LedgerAudit(path: path).findings(acknowledged: acknowledged)
          let isCaught =
            switch defect {
            case "doubled": findings.doubled.count == 1
            case "gap": !findings.gaps.isEmpty && !findings.lost.isEmpty
            case "backwards": !findings.backwards.isEmpty
            default: findings.integrity != "ok"
            }
          FaultReport.planted("ledger with a \(defect) line", String(findings.figures.prefix(200)), isCaught: isCaught)
          #expect(isCaught, "\(findings)")
        }
      }
    }

    struct Run: Sendable {
      var figures: FaultLoad.Figures
      /// How long each start took until requests were taken.
      var restarts: [Duration]
      /// The state of the profile store in the end.
      var delivery: DeliveryAudit?
    }

    /// Loads the service for a while, until enough was acknowledged, and kills it under the load.
    private static func load(
      _ service: ServiceProcess, _ load: FaultLoad, in world: FaultWorld, random: FaultRandom, for life: Duration,
      atLeast least: Int
    ) async throws {
      let before = load.figures.acknowledged.count
      async let writing: Void = load.run(
        service, customers: world.customers, random: random,
        // Each answer of Apple's is news, and in the course of it subscriptions renew and end.
        each: { _ in world.simulator.advanceClock(by: .seconds(1_800)) }, while: { true })
      try await Task.sleep(for: life)
      let isLoaded = try await eventually(within: .seconds(60), every: .milliseconds(1)) {
        load.figures.acknowledged.count >= before + least
      }
      service.signal(SIGKILL)
      await writing
      #expect(isLoaded, "the load was none")
    }

    /// Starts, loads and kills the service again and again, and lets it run to an orderly end after the last time.
    ///
    /// - Parameter least: how much is acknowledged before each kill, however slow the machine.
    private static func play(
      kills: Int, in world: FaultWorld, random: FaultRandom, atLeast least: Int = 2, afterKill: () throws -> Void = {}
    ) async throws -> Run {
      var random = random
      let load = FaultLoad()
      var restarts: [Duration] = []
      for _ in 0..<kills {
        let service = try await world.start()
        restarts.append(service.readyAfter)
        let life = Duration.milliseconds(Int.random(in: 50...500, using: &random))
        try await Self.load(service, load, in: world, random: random.fork(), for: life, atLeast: least)
        #expect(await service.ending().wasKilled)
        try afterKill()
      }
      let last = try await world.start()
      restarts.append(last.readyAfter)
      for customer in world.customers.prefix(20) { await load.post(customer, to: last) }
      var delivery: DeliveryAudit?
      if let profiles = world.profiles {
        // Taken while the service runs: it goes on to ask about what is due, and is stopped between verdict and row.
        _ = try await eventually(within: .seconds(120), every: .milliseconds(200)) {
          let audit = DeliveryAudit(profiles, ledger: try LedgerAudit(path: world.ledgerPath))
          delivery = audit
          return audit.behind.isEmpty
        }
      }
      #expect(await last.stop().code == 0)
      return Run(figures: load.figures, restarts: restarts, delivery: delivery)
    }

    /// Does to a ledger what no service may do.
    private static func plant(_ defect: String, in path: String) throws {
      if defect == "damaged" {
        let file = try FileHandle(forUpdating: URL(filePath: path))
        // The middle of the file: pages of the history and its indexes.
        try file.seek(toOffset: try file.seekToEnd() / 2 / 4096 * 4096)
        try file.write(contentsOf: Data(repeating: 0xA5, count: 8192))
        return try file.close()
      }
      let user = try LedgerAudit.userWithHistory(in: path)
      switch defect {
      case "doubled":
        try LedgerAudit.tamper(
          with: path,
          """
          INSERT INTO event
            (user_id, previous, kind, recorded_at, request_id, version, changed, entitlement, receipt_sha256, evidence_at)
            SELECT user_id, newest, kind, recorded_at, request_id, event.version + 1, 1, entitlement, receipt_sha256,
              evidence_at
            FROM event JOIN account ON key = user_id WHERE sequence = verdict AND user_id = :user;
          UPDATE account SET version = version + 1, newest = last_insert_rowid(), verdict = last_insert_rowid()
            WHERE key = :user;
          """, user: user)
      case "gap":
        try LedgerAudit.tamper(with: path, "DELETE FROM event WHERE user_id = :user AND version = 1", user: user)
      default:
        try LedgerAudit.tamper(
          with: path,
          """
          UPDATE event SET entitlement = json_set(entitlement, '$.evidenceTime', 0)
          WHERE sequence = (SELECT verdict FROM account WHERE key = :user)
          """, user: user)
      }
    }
  }
}

/// SQLite's log as a file: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
struct WriteAheadLog {
  var path: String

  private static let headerLength = 32
  private static let frameHeaderLength = 24

  /// Cuts off the last frames that belong to it, as a disk does that had not written them yet.
  func removeLast(frames count: Int) throws {
    let bytes = [UInt8](try Data(contentsOf: URL(filePath: path)))
    guard bytes.count > Self.headerLength else { return }
    let pageSize = bytes[8..<12].reduce(0) { $0 << 8 | Int($1) }
    let salts = bytes[16..<24]
    let frameLength = Self.frameHeaderLength + pageSize
    var valid = 0
    // A log is written over from its start after a checkpoint; frames of the round before have other salts.
    while Self.headerLength + (valid + 1) * frameLength <= bytes.count {
      let frame = Self.headerLength + valid * frameLength
      guard Array(bytes[(frame + 8)..<(frame + 16)]) == Array(salts)
      else { break }
      valid += 1
    }
    let file = try FileHandle(forWritingTo: URL(filePath: path))
    try file.truncate(atOffset: UInt64(Self.headerLength + max(0, valid - count) * frameLength))
    try file.close()
  }
}

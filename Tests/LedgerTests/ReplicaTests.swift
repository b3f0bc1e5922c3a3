import Access
import Entitlements
import Figures
import Foundation
import LedgerFixtures
import Synchronization
import TestSupport
import Testing

@testable import Ledger

/// Several processes on one ledger in PostgreSQL. `COUNTERSIGN_FAULTS=full` plays the long forms.
@Suite(.serialized, .timeLimit(.minutes(30))) struct ReplicaTests {
  private static let isFull = ProcessInfo.processInfo.environment["COUNTERSIGN_FAULTS"] == "full"

  /// A database, and ledgers that have it open as replicas of the service would.
  private static func withReplicas<Value>(
    _ count: Int = 3, on server: PostgreSQLServer? = nil,
    _ body: ([Ledger], _ url: String) async throws -> Value
  ) async throws -> Value {
    let server = if let server { server } else { try await TestEngine.running() }
    let url = try await server.url(of: server.makeDatabase())
    var ledgers: [Ledger] = []
    for _ in 0..<count {
      ledgers.append(
        try await Ledger.open(url: url, connections: 4, settings: .init(patience: .seconds(120))))
    }
    do {
      let value = try await body(ledgers, url)
      for ledger in ledgers { await ledger.close() }
      return value
    } catch {
      for ledger in ledgers { await ledger.close() }
      throw error
    }
  }

  @Test func `replicas that start together make one schema, and a newer one refuses an older replica`() async throws {
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    let url = server.url(of: database)
    let ledgers = try await withThrowingTaskGroup(of: Ledger.self) { group in
      for _ in 0..<4 { group.addTask { try await Ledger.open(url: url, connections: 1) } }
      return try await group.reduce(into: [Ledger]()) { $0.append($1) }
    }
    for ledger in ledgers { await ledger.close() }
    try await server.run("INSERT INTO ledger_migration (identifier) VALUES ('9999 later')", on: database)
    await #expect(throws: LedgerOpenError.self) { try await Ledger.open(url: url, connections: 1) }
  }

  @Test func `one of the first exposures to several replicas is kept, and counted once`() async throws {
    try await Self.withReplicas { ledgers, url in
      for round in 0..<5 {
        let user = UserID("user-\(round)")
        let posts = (0..<12).map { number in
          AppEvent(
            user: user, type: "experiment_exposed", at: at(Double(number)), properties: "{}",
            exposure: Exposure(experiment: "paywall", variant: "v\(number)", at: at(Double(number))))
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
          for (number, post) in posts.enumerated() {
            group.addTask { try await ledgers[number % 3].record([post], at: clock(100)) }
          }
          try await group.waitForAll()
        }
        let kept = try await ledgers[0].exposures(of: user).exposures
        #expect(kept.count == 1)
        for ledger in ledgers { #expect(try await ledger.exposures(of: user).exposures == kept) }
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for ledger in ledgers { group.addTask { while try await ledger.countExposures([:], limit: 2) > 0 {} } }
        try await group.waitForAll()
      }
      while try await ledgers[0].countExposures([:], limit: 2) > 0 {}
      let figures = try await ledgers[1].readLong(ReadExperimentFigures(exposedIn: 0..<100_000))
      #expect(figures.pending == 0)
      #expect(figures.counts["paywall"]?.values.reduce(0) { $0 + ($1[""]?.exposed ?? 0) } == 5)
      #expect(try await LedgerVerification.verify(url: url).findings == [])
    }
  }

  @Test func `a receiver of events is told by one replica at a time, and by another when that one's claim is over`()
    async throws
  {
    try await Self.withReplicas(2) { ledgers, _ in
      func claim(_ replica: Int, at seconds: Double) async throws -> Set<String> {
        try await ledgers[replica].claimWebhooks(
          ["shop", "desk"], by: "replica \(replica)", overBefore: at(seconds - 10), until: at(seconds + 60))
      }
      try await ledgers[0].keepWebhooks(["shop": "https://shop.example/", "desk": "https://desk.example/"])
      #expect(try await claim(0, at: 0) == ["shop", "desk"])
      #expect(try await claim(1, at: 69) == [])
      #expect(try await claim(0, at: 10) == ["shop", "desk"])
      #expect(try await claim(1, at: 80) == [])
      #expect(try await claim(1, at: 81) == ["shop", "desk"])
      // A late record of the former replica's counts for nothing: the other may have told the event by now.
      try await ledgers[0].record([AppEvent(user: "anna", type: "e", at: at(81), properties: "{}")], at: clock(81))
      let event = try #require(
        try await ledgers[0].webhookWork(of: "shop", dueAt: clock(82), due: 1, fresh: 1).fresh.first)
      for replica in [0, 1] {
        try await ledgers[replica].settleWebhook(
          "shop", by: "replica \(replica)", [WebhookResult(of: event, .delivered)], through: event.sequence,
          isGone: false,
          at: clock(82))
        let rest = try await ledgers[0].webhookWork(of: "shop", dueAt: clock(82), due: 1, fresh: 1).fresh
        #expect(rest.isEmpty == (replica == 1))
      }
      // One that a wrong clock has made is over as one that is made now.
      #expect(try await claim(1, at: 7_200) == ["shop", "desk"])
      #expect(try await claim(0, at: 83) == [])
      try await ledgers[0].shortenWebhookClaims(to: at(83 + 60))
      #expect(try await claim(0, at: 154) == ["shop", "desk"])
      #expect(try await claim(1, at: 225) == ["shop", "desk"])
      // One that ends leaves its receivers at once.
      try await ledgers[1].releaseWebhooks(of: "replica 1")
      #expect(try await claim(0, at: 226) == ["shop", "desk"])
    }
  }

  @Test func `a server that may lose what it acknowledged is refused`() async throws {
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    try await server.run("ALTER DATABASE \(database) SET synchronous_commit = off", on: "postgres")
    let error = await #expect(throws: LedgerOpenError.self) {
      try await Ledger.open(url: server.url(of: database), connections: 1)
    }
    guard case .notDurable(_, let problem) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(problem.contains("synchronous_commit = off"))
  }

  @Test func `one receipt on a thousand accounts has one owner`() async throws {
    try await Self.withReplicas { ledgers, url in
      let outcomes = try await withThrowingTaskGroup(of: RecordOutcome.self) { group in
        for number in 0..<1_000 {
          let ledger = ledgers[number % ledgers.count]
          group.addTask { try await ledger.record(entry(UserID("u\(number)"), [evidence("1")])) }
        }
        return try await group.reduce(into: [RecordOutcome]()) { $0.append($1) }
      }
      #expect(outcomes.count { $0.recorded != nil } == 1)
      #expect(outcomes.count { $0.isRefused } == 999)
      #expect(try await LedgerVerification.verify(url: url).findings == [])
    }
  }

  @Test func `a limit of ten lets ten of a thousand consumers through`() async throws {
    try await Self.withReplicas { ledgers, _ in
      let feature = Feature(
        name: "questions", kind: .meter, values: ["free": .meter(try MeterRule.rules(["10 per month"]))],
        tiers: ["free"])
      let passed = try await withThrowingTaskGroup(of: Bool.self) { group in
        for number in 0..<1_000 {
          let ledger = ledgers[number % ledgers.count]
          group.addTask {
            if case .consumed = try await ledger.run(consuming(feature)) { return true }
            return false
          }
        }
        return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
      }
      #expect(passed == 10)
    }
  }

  @Test func `every purchase of a user through all replicas counts, and the history has no gap`() async throws {
    try await Self.withReplicas { ledgers, url in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<60 {
          let ledger = ledgers[number % ledgers.count]
          group.addTask {
            _ = try await ledger.record(
              entry("anna", [evidence("\(number)", expires: 1_000 + Double(number))], request: "r\(number)"))
          }
        }
        try await group.waitForAll()
      }
      #expect(try await ledgers[0].keys(of: "anna").count == 60)
      let profile = try #require(try await ledgers[1].profile(of: "anna"))
      #expect(profile.entitlement.expiresAt == at(1_059))
      #expect(try await LedgerVerification.verify(url: url).findings == [])
    }
  }

  @Test func `a write of one replica is in the next read of another`() async throws {
    try await Self.withReplicas(2) { ledgers, _ in
      let before = ledgers[1].generation(of: "anna")
      _ = try await ledgers[0].record(entry("anna", [evidence("1")]))
      // Nothing that was read before holds.
      #expect(ledgers[1].generation(of: "anna") != before)
      #expect(try await ledgers[1].profile(of: "anna")?.entitlement.tier == "pro")
    }
  }

  @Test func `each due check is claimed by one replica`() async throws {
    try await Self.withReplicas { ledgers, _ in
      var due = standIn
      due.nextCheck = { _, _ in at(10) }
      for number in 0..<30 {
        _ = try await ledgers[0].record(entry(UserID("u\(number)"), [evidence("\(number)")], rules: due))
        _ = try await ledgers[0].postpone(
          PendingReceipt(
            user: UserID("u\(number)"), base64: "cmVj\(1000 + number)", requestID: "r", receivedAt: clock(0)))
      }
      let claims = try await withThrowingTaskGroup(of: ([String], [String], [Int64]).self) { group in
        for ledger in ledgers {
          group.addTask {
            (
              try await ledger.claimUpdates(dueAt: clock(10_000), until: at(20_000), limit: 100).map(\.user.rawValue),
              try await ledger.claimRechecks(dueAt: clock(200_000), limit: 100).map(
                \.key.originalTransactionID.rawValue),
              try await ledger.pendingReceipts(dueAt: clock(100), limit: 100).map(\.id)
            )
          }
        }
        return try await group.reduce(into: [([String], [String], [Int64])]()) { $0.append($1) }
      }
      let updates = claims.flatMap(\.0)
      let rechecks = claims.flatMap(\.1)
      let pending = claims.flatMap(\.2)
      #expect(updates.count == Set(updates).count && Set(updates).count == 30)
      #expect(rechecks.count == Set(rechecks).count && Set(rechecks).count == 30)
      #expect(pending.count == Set(pending).count && Set(pending).count == 30)
      // When the lease is over they are another's.
      #expect(try await ledgers[2].pendingReceipts(dueAt: clock(100 + 120), limit: 100).count == 30)
    }
  }

  @Test func `retention is held up by no other job, and says when another replica is at it`() async throws {
    try await Self.withReplicas(1) { ledgers, url in
      for (user, seconds) in [("anna", 0), ("ben", 100)] as [(UserID, Double)] {
        _ = try await ledgers[0].record(entry(user, [evidence(user.rawValue)]).with { $0.recordedAt = clock(seconds) })
      }
      _ = try await ledgers[0].pruneChangeEvents(before: at(9_000), limit: 100)
      let other = try PostgreSQLAddress(url).connect()
      for lock: AdvisoryLock in [.purchases, .exposures, .limits, .history] {
        try other.run("BEGIN; SELECT pg_advisory_xact_lock(\(lock.rawValue))")
        let turn = try await ledgers[0].thinHistory(before: at(9_000), limit: 1)
        #expect(turn.isBusy == (lock == .history) && turn.examined == (turn.isBusy ? 0 : 1), "\(lock)")
        try other.run("ROLLBACK")
        try await ledgers[0].keepMemo("retention", nil)
      }
    }
  }

  @Test func `replicas count each other, and one that leaves is counted no more`() async throws {
    try await Self.withReplicas { ledgers, _ in
      for (number, ledger) in ledgers.enumerated() {
        #expect(try await ledger.beat(replica: "\(number)", name: "host") == number + 1)
      }
      try await ledgers[2].leave(replica: "2")
      #expect(try await ledgers[0].beat(replica: "0", name: "host") == 2)
    }
  }

  // MARK: Faults

  @Test func `replicas that are killed lose nothing that was acknowledged`() async throws {
    let url = try await TestEngine.newURL()
    await (try await Ledger.open(url: url, connections: 1)).close()
    var acknowledged: [String] = []
    for round in 1...(Self.isFull ? 100 : 6) {
      var probes: [Probe] = []
      for _ in 0..<3 { probes.append(try await Probe([url, "forever"])) }
      for (number, probe) in probes.enumerated() {
        try await probe.wait(forLines: 5 + (13 * round + 7 * number) % 60)
        acknowledged += await probe.kill().filter { $0.hasPrefix("ack ") }.map { String($0.dropFirst(4)) }
      }
    }
    let ledger = try await Ledger.open(url: url, connections: 4)
    var lost: [String] = []
    for user in acknowledged {
      let history = try await ledger.wholeHistory(of: UserID(user))
      if history.count != 1 { lost.append("\(user): \(history.count)") }
    }
    #expect(lost == [], "of \(acknowledged.count)")
    #expect(Set(acknowledged).count == acknowledged.count)
    await ledger.close()
    #expect(try await LedgerVerification.verify(url: url).findings == [])
    print("faults: 3 replicas killed: \(acknowledged.count) records acknowledged, \(lost.count) lost or doubled")
  }

  @Test func `a database that ends and comes back loses nothing, and doubles nothing`() async throws {
    let server = try await PostgreSQLServer.start(isDurable: true)
    try await Self.withReplicas(3, on: server) { ledgers, url in
      let log = Log()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for writer in 0..<12 {
          let ledger = ledgers[writer % ledgers.count]
          group.addTask {
            var number = 0
            while !log.isOver {
              let user = "w\(writer)-\(number)"
              number += 1
              do throws(LedgerError) {
                _ = try await ledger.record(entry(UserID(user), [evidence(user)]))
                log.note(user)
              } catch { log.refuse() }
            }
          }
        }
        for _ in 0..<(Self.isFull ? 20 : 3) {
          let before = log.acknowledged.count
          while log.acknowledged.count < before + 50 { await Task.yield() }
          // Sessions end in the middle of what they do, COMMIT included.
          _ = try? await server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'countersign'",
            on: "postgres")
          try await server.bounce()
        }
        let before = log.acknowledged.count
        while log.acknowledged.count < before + 50 { await Task.yield() }
        log.end()
        try await group.waitForAll()
      }
      let users = log.acknowledged
      var wrong: [String] = []
      for user in users {
        let history = try await ledgers[0].wholeHistory(of: UserID(user))
        if history.count != 1 { wrong.append("\(user): \(history.count)") }
      }
      #expect(wrong == [], "of \(users.count)")
      #expect(try await LedgerVerification.verify(url: url).findings == [])
      print(
        "faults: PostgreSQL ended: \(users.count) records acknowledged, \(wrong.count) lost or doubled, "
          + "\(log.refused) refused")
    }
  }

  /// The answers to the writers of a test.
  private final class Log: Sendable {
    private struct State {
      var acknowledged: [String] = []
      var refused = 0
      var isOver = false
    }

    private let state = Mutex(State())

    var acknowledged: [String] { state.withLock { $0.acknowledged } }
    var refused: Int { state.withLock { $0.refused } }
    var isOver: Bool { state.withLock { $0.isOver } }
    func note(_ user: String) { state.withLock { $0.acknowledged.append(user) } }
    func refuse() { state.withLock { $0.refused += 1 } }
    func end() { state.withLock { $0.isOver = true } }
  }
}

import Access
import Entitlements
import Foundation
import LedgerFixtures
import Synchronization
import TestSupport
import Testing

@testable import Figures
@testable import Ledger

/// The queries that are made each second, or by each scrape of the metrics, on a ledger of 20,000 users all of whom wait
/// for something.
@Suite(.ofTheFile, .serialized) struct QueryPlanTests {
  static let users = 20_000
  /// Everything of the ledger below is due at some second of 1970.
  static let epoch = Date(timeIntervalSince1970: 0)
  /// The user whom one of the purchases that nobody has names.
  static let account = "00000000-0000-4000-8000-000000900007"
  static let question = UsageQuestion(range: epoch..<at(10), keeping: 1)
  static let largeRun = RunOrder(expiringWithin: .seconds(86_400), limit: 100_000)

  /// Two statements sort what they found in two ranges: the purchases of a run, as it begins, and the users who are overdue,
  /// of whom there are none while Apple answers.
  static let sorted = [
    "INSERT INTO run_item", ") overdue JOIN account", "attempts FROM pending_receipt WHERE user_id",
    ") AS page GROUP BY type",
  ]

  /// Whether a step of a plan reads what the statement has put together itself: that may be read to its end.
  private static func isOwn(_ step: String) -> Bool {
    // There are a handful of memos, and of frames (`ProofFrame.limit`).
    step.lowercased().contains("subquery") || step == "SCAN CONSTANT ROW" || step == "SCAN memo"
      || step == "SCAN proof_frame"
      || [
        "SCAN overdue", "SCAN scheduled", "SCAN newest", "SCAN begun", "SCAN page", "SCAN accounts", "SCAN ordered",
        "SCAN rest",
      ].contains(step)
  }

  @Test func `no claim reads a whole table`() async throws {
    let scratch = try await Self.large()
    let file = try SQLiteConnection(path: scratch.path)
    let now = clock(10)
    let operations: [(String, @Sendable (LedgerTables) throws -> Void)] = [
      ("hasUpdates", { _ = try $0.outbox.hasAny(dueAt: now) }),
      ("claimUpdates", { _ = try $0.outbox.claim(dueAt: now, until: at(40), limit: 200) }),
      ("releaseUpdates", { _ = try $0.outbox.release(putOffBeyond: now, limit: 10) }),
      ("settleUpdate", { try $0.outbox.settle(updateOf: "u7", version: 1, isDoubtful: false, confirmingAt: nil) }),
      (
        "retryUpdate",
        { try $0.outbox.retry(updateOf: "u8", version: 1, at: at(60), problem: "timeout", isDoubtful: false) }
      ),
      ("raiseUpdate", { try $0.outbox.raise(updateOf: "u8", version: 1, above: 9) }),
      ("waitingUpdate", { _ = try $0.outbox.waitingUpdate(of: "u9") }),
      ("hasConsumptionRequests", { _ = try $0.schedule.hasClaimable(in: "consumption_request", of: nil, at: now) }),
      (
        "claimConsumptionRequests",
        { _ = try $0.consumptionRequests.claim(in: nil, dueAt: now, until: at(40), limit: 8) }
      ),
      ("forgetConsumption", { try $0.consumptionRequests.forget(requestsOf: key("7"), []) }),
      ("hasAccountTokens", { _ = try $0.schedule.hasClaimable(in: "account_token_due", of: nil, at: now) }),
      ("claimAccountTokens", { _ = try $0.accountTokens.claim(in: nil, dueAt: now, until: at(40), limit: 8) }),
      ("refundQuestions", { _ = try $0.consumptionRequests.refundQuestions(after: 99_990, limit: 5) }),
      ("hasExtensions", { _ = try $0.schedule.hasClaimable(in: "renewal_extension", of: nil, at: now) }),
      ("claimExtensions", { _ = try $0.extensions.claim(in: nil, dueAt: now, until: at(40), limit: 8) }),
      ("openExtensions", { _ = try $0.extensions.openExtensions(of: .purchase("7"), .production) }),
      ("extensions, of a purchase", { _ = try $0.extensions.records(of: key("7"), limit: 8) }),
      ("extensions, the newest", { _ = try $0.extensions.records(ofProducts: true, limit: 8) }),
      ("countExtension", { try $0.extensions.countExtension(of: pro, in: .production, succeeded: true) }),
      ("forgetExtensions", { try $0.extensions.forget(recordsOf: key("7")) }),
      ("hasRechecks", { _ = try $0.schedule.hasRechecks(dueAt: now) }),
      ("claimRechecks", { _ = try $0.schedule.claimRechecks(dueAt: now, limit: 20) }),
      ("missUpdate", { try $0.outbox.miss(updateOf: "u8", version: 1, retryAt: at(60)) }),
      ("returnUpdates", { try $0.outbox.giveBack(updatesOf: ["u8", "u9"], claimedUntil: at(40)) }),
      ("schedule", { try $0.schedule.schedule(7, .init(scheduledAt: 500, dueAt: 500)) }),
      ("pendingReceipts", { _ = try $0.pending.receipts(dueAt: now, limit: 50) }),
      ("retryPending", { try $0.pending.retry(1, at: at(60)) }),
      ("hasGrants", { _ = try $0.provisionalGrants.hasAny(endedAt: now) }),
      ("grants", { _ = try $0.provisionalGrants.grants(endedAt: now) }),
      ("hasGiven", { _ = try $0.given.hasAny(endedAt: now) }),
      ("given, over", { _ = try $0.given.given(endedAt: now, limit: 500) }),
      ("given, to a user", { _ = try $0.given.given(to: "u7", limit: 200) }),
      ("given, under a key", { _ = try $0.given.given(to: "u7", under: "k") }),
      ("usage, of a rolling window", { _ = try $0.usage.usage(of: "trips", of: "u7", [Self.question]) }),
      ("consumption, under a key", { _ = try $0.usage.consumption(of: "trips", of: "u7", under: "k") }),
      ("returns", { _ = try $0.usage.returns(of: "trips", of: "u7", in: Self.question.range) }),
      ("forgetKeys", { try $0.usage.forgetKeys(of: "trips", of: "u7", in: Self.question.range) }),
      (
        "forgetConsumptions",
        { try $0.usage.forgetConsumptions(of: "trips", of: "u8", before: now, keepsReturned: true) }
      ),
      (
        "takeBack",
        { tables in
          let answer = FeatureAnswer(tier: "free", access: FeatureAccess(isAllowed: true))
          let consumption = KeyedConsumption(consumedAt: at(0), number: 0, amount: 1, request: "", answer: answer)
          try tables.usage.add(1, of: "trips", of: "u9", at: clock(0), number: 0, key: nil, request: nil, answer: nil)
          try tables.usage.takeBack(consumption, of: "trips", of: "u9")
        }
      ),
      ("time zone", { _ = try $0.usage.timeZone(of: "u7") }),
      ("exposures", { _ = try $0.exposures.exposures(of: "u7") }),
      (
        "keep what a user saw",
        { try $0.exposures.keep(Exposure(experiment: "paywall", variant: "a", at: now), of: "u7") }
      ),
      ("markExposures", { try $0.marks.markExposures(of: "u7") }),
      ("markTrials", { try $0.marks.markTrials(of: "u7") }), ("markTrial", { try $0.marks.markTrial(7) }),
      ("markLimits", { try $0.marks.markLimits(of: "u7") }),
      ("countedExperiments", { _ = try $0.figures.countedExperiments(limit: 10) }),
      ("customer", { _ = try $0.customers.customer("u7") }),
      ("customer, joined", { _ = try $0.accounts.key(of: "$RCAnonymousID:0123456789abcdef0123456789abcdef") }),
      ("meet", { try $0.customers.meet("u7", at: now) }), ("join", { try $0.customers.join("u7", to: "u8") }),
      ("moveBelongings", { try $0.customers.moveBelongings(of: "u7", to: "u8") }),
      (
        "attributes",
        {
          _ = try $0.customers.attributes(of: "u7")
          try $0.customers.save(CustomerAttribute(value: "1", updatedAtMilliseconds: 1), named: "a", of: "u7")
        }
      ),
      ("bareCustomers", { _ = try $0.customers.bareCustomers(seenBefore: now, limit: 10) }),
      ("isBare", { _ = try $0.customers.isBare("u7") }),
      ("forgetCustomer", { try $0.customers.forget("u7") }),
      ("hasReport", { _ = try $0.changeEvents.hasReport("r7", of: "u7") }),
      ("countReport", { _ = try $0.changeEvents.countReport(1, of: "u7", on: 1) }),
      ("provisionalEvidence", { _ = try $0.provisionalGrants.evidence(of: "u7") }),
      ("removePending", { try $0.pending.remove(2) }),
      ("take, of somebody's purchase", { _ = try notification("n", [part("7", reported: 9)]).run($0) }),
      ("take, of nobody's purchase", { _ = try notification("n", [part("0", reported: 9)]).run($0) }),
      (
        "record, of what nobody has",
        { tables in
          let unclaimed = part("900007", reported: 9, environment: .sandbox)
          let entry = posted(UserID(Self.account), [unclaimed])
          _ = try RecordOperation(prepared: PreparedEntry(entry), tables: tables).run()
        }
      ),
      (
        "record, of a purchase that goes to another",
        { tables in
          let entry = entry("u8", [evidence("7", time: 9), evidence("8", time: 9)], ownership: .transfer)
          _ = try RecordOperation(prepared: PreparedEntry(entry), tables: tables).run()
        }
      ),
      (
        "postpone",
        { tables in
          let receipt = pending("receipt", of: "u9")
          _ = try Postpone(receipt, provisional: [signed("9", time: 9)], evaluationContext).run(tables)
        }
      ),
      ("transfer", { _ = try moving("7", to: "u8", at: 10).run($0) }),
      ("take, of RevenueCat's", { tables in for report in RevenueCatReport.samples { _ = try report.run(tables) } }),
      ("store turns", { _ = try $0.storeTransfers.turns(dueAt: now, limit: 100) }),
      ("reports due", { _ = try $0.otherStores.reports(dueAt: now, limit: 100) }),
      ("set turn", { try $0.storeTransfers.setTurn(of: RevenueCatReport.playKey, at: nil) }),
      (
        "settle report",
        { tables in
          try PostponeReport(key("9000"), for: .seconds(60), until: at(60), evaluationContext).run(tables)
          try SettleReport(key("9000"), upTo: at(60), evaluationContext).run(tables)
        }
      ),
      (
        "erase",
        { tables in
          let erasure = Erasure(user: "u7", reset: Anna.reset, evaluationContext: reevaluated(at: 10))
          _ = try EraseUser(erasure: erasure, known: [], traces: NameTraces()).run(tables)
        }
      ),
      ("record of a user", { _ = try $0.export.record(of: "u9") }),
      ("exported purchases", { _ = try $0.export.purchases(ofKey: "u9", from: 0, limit: 5) }),
      ("exported consumptions", { _ = try $0.export.consumptions(ofKey: "u9", after: nil, limit: 5) }),
      ("notifications", { _ = try $0.notifications.notifications(of: key("7"), limit: 20) }),
      ("hasNotifications", { _ = try $0.notifications.hasAny(before: now) }),
      ("pruneNotifications", { _ = try $0.notifications.prune(before: now, limit: 100) }),
      (
        "noteRefused",
        { tables in
          let refused = RefusedNotification(problem: "signature", payload: "x", receivedAt: now)
          try tables.notifications.keep(refused, payload: "x", digest: ReceiptDigest(of: "x"))
        }
      ),
      ("recheckSoon", { _ = try $0.schedule.recheckSoon("7", at: 9) }),
      ("unscheduled", { _ = try $0.schedule.unscheduled(after: 99_990, limit: 5) }),
      ("profiles", { _ = try $0.accounts.profiles(after: "u5", limit: 100) }),
      ("usersOverdue", { _ = try $0.accounts.usersOverdue(since: now, limit: 20) }),
      ("raiseSessions", { try $0.trials.raiseSessions(of: 7, to: 3) }),
      ("countTrials", { _ = try $0.trials.count(runningAt: now) }),
      ("newestNotification", { _ = try $0.notifications.newest() }),
      ("refusedNotifications", { _ = try $0.notifications.refused(isSigned: true, limit: 100) }),
      ("newestRevenueCatReport", { _ = try $0.notifications.newestRevenueCatReport() }),
      ("changeEvents", { _ = try $0.changeEvents.events(after: 7, limit: 100) }),
      ("newestChangeEvent", { _ = try $0.changeEvents.newest() }),
      ("hasChangeEvents", { _ = try $0.changeEvents.hasAny(before: now) }),
      ("pruneChangeEvents", { _ = try $0.changeEvents.prune(before: now, limit: 100) }),
      (
        "admitsRefusalEvent",
        { _ = try $0.changeEvents.admitsRefusalEvent(of: "limit trips", to: "u7", at: now, until: at(60)) }
      ),
      (
        "cover",
        { tables in
          try tables.changeEvents.cover(tables.accounts.verdict(of: "u7"), of: "u7")
          _ = try tables.changeEvents.coveredVerdict(of: "u7")
        }
      ),
      ("webhookWork", { _ = try $0.webhooks.work(of: "shop", dueAt: now, due: 10, fresh: 10) }),
      ("webhookStatus", { _ = try $0.webhooks.status("shop") { _ in true } }),
      ("deadLetters", { _ = try $0.webhooks.deadLetters(of: "shop", after: 7, limit: 100) }),
      ("redeliver", { _ = try $0.webhooks.redeliver(.dead, to: "shop") { _ in true } }),
      ("key of a purchase", { tables in _ = try [7, -7].map { try tables.purchases.key(ofPurchase: $0) } }),
      ("newestDigest", { tables in _ = try tables.accounts.account(of: "u7").map(tables.accounts.newestDigest) }),
      ("activeRun", { _ = try $0.runs.active() }),
      ("startRun", { _ = try $0.runs.start(Self.largeRun, key: "again", at: Self.epoch) }),
      ("countDue", { _ = try $0.runs.countDue(Self.largeRun, at: Self.epoch) }),
      (
        "run",
        { tables in
          guard case .started(let run) = try tables.runs.start(Self.largeRun, key: nil, at: Self.epoch) else { return }
          let items = try tables.runs.claimItems(of: run.id, dueAt: now, until: at(900), limit: 100).items
          for item in items.prefix(3) { try tables.runs.settleItem(item.id, of: run.id, .done(changed: true)) }
          for item in items.suffix(3) { try tables.runs.retry(item, at: at(60), isCounted: true) }
          try tables.runs.giveBack(Array(items.suffix(9)))
          _ = try tables.runs.hasItems(of: run.id, dueAt: now)
          _ = try tables.runs.finish(run.id, at: now)
          _ = try tables.runs.stop(run.id, .downgradeBrake, at: now)
        }
      ),
    ]
    for (name, operation) in operations {
      let (statements, time) = try Self.run(operation, on: file)
      print("ledger of \(Self.users): \(name) \(time)")
      for statement in statements {
        let isSorted = Self.sorted.contains { statement.contains($0) }
        for step in try Self.plan(of: statement, on: file) {
          // People ask for extensions, one by one, and a note on any of them may name whoever is erased.
          let isErasures = name == "erase" && step == "SCAN renewal_extension"
          #expect(!step.hasPrefix("SCAN") || Self.isOwn(step) || isErasures, "\(name): \(step)")
          #expect(!step.contains("TEMP B-TREE") || isSorted, "\(name): \(step) of \(statement)")
        }
      }
    }
  }

  @Test func `every read of one user or purchase uses an index`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    for step in 0..<3 {
      let user: UserID = step == 1 ? "ben" : "anna"
      _ = try await ledger.record(entry(user, [evidence("1", time: Double(step))], ownership: .transfer))
    }
    await ledger.close()
    let file = try SQLiteConnection(path: scratch.path)
    let found: @Sendable (Int, Int) -> Void = { count, expected in #expect(count == expected) }
    let operations: [(String, @Sendable (LedgerTables) throws -> Void)] = [
      ("timeline", { found(try $0.events.timeline(of: "anna", before: nil, limit: 50).events.count, 6) }),
      (
        "timeline, from a place on",
        { found(try $0.events.timeline(of: "anna", before: .init(5), limit: 50).events.count, 2) }
      ),
      ("profile", { found(try $0.accounts.ledgerProfile(of: "anna") == nil ? 0 : 1, 1) }),
      (
        "evidence",
        { tables in found(try tables.accounts.account(of: "anna").map(tables.purchases.evidence)?.count ?? 0, 1) }
      ),
      (
        "knowledge",
        { found(try $0.purchases.knowledge(of: ReceiptDigest(ofReceipt: "cmVjZWlwdA=="), for: "anna").proves.count, 1) }
      ),
      ("receipts mentioning", { found(try $0.purchases.receipts(mentioning: "1").count, 1) }),
      ("receipts", { found(try $0.support.receipts(of: "anna", limit: 5).count, 1) }),
      ("ownedPurchases", { found(try $0.support.ownedPurchases("1").first?.changes.count ?? 0, 3) }),
      ("leave", { try $0.proofs.leave(proof: 1) }),
      ("isKnown", { found(try $0.accounts.isKnown("nobody") ? 1 : 0, 0) }),
    ]
    for (name, operation) in operations {
      for statement in try Self.run(operation, on: file).statements {
        for step in try Self.plan(of: statement, on: file) {
          #expect(!step.hasPrefix("SCAN") || Self.isOwn(step), "\(name): \(step)")
          #expect(!step.contains("INTEGER PRIMARY KEY (rowid<?)"), "\(name): \(step)")
        }
      }
    }
  }

  /// To count is to look at each; but in an index, not in rows that hold receipts and verdicts.
  @Test func `the backlog is counted in indexes`() async throws {
    let scratch = try await Self.large()
    let file = try SQLiteConnection(path: scratch.path)
    let (statements, time) = try Self.run({ _ = try $0.backlog(at: clock(10)) }, on: file)
    print("ledger of \(Self.users): backlog \(time)")
    #expect(statements.count == 8)
    for statement in statements {
      for step in try Self.plan(of: statement, on: file) where step.hasPrefix("SCAN") {
        let isByIndex = step.contains("USING COVERING INDEX") || step.contains("USING INDEX")
        // The first row by ID.
        #expect(isByIndex || statement.contains("ORDER BY id LIMIT 1"), "\(step)")
      }
    }
  }

  @Test func `claims of the last process are due again within a moment of the start`() async throws {
    let scratch = try await Self.large()
    try await scratch.change("UPDATE outbox SET due_at = 9; UPDATE purchase SET due_at = 9, attempts = 1")
    let clock = ContinuousClock()
    let begin = clock.now
    let ledger = try await scratch.open()
    print("ledger of \(Self.users): open with everything claimed \(clock.now - begin)")
    #expect(try await ledger.claimUpdates(dueAt: LedgerFixtures.clock(-1e9), until: at(0), limit: 5).count == 5)
    await ledger.close()
  }

  private static func run(
    _ operation: (LedgerTables) throws -> Void, on file: SQLiteConnection
  ) throws -> (statements: [String], time: Duration) {
    try file.run("BEGIN")
    let clock = ContinuousClock()
    let begin = clock.now
    try operation(LedgerTables(file))
    let time = clock.now - begin
    try file.run("ROLLBACK; BEGIN")
    let statements = try file.traced { try operation(LedgerTables(file)) }
    try file.run("ROLLBACK")
    let own = statements.filter { sql in
      ["SELECT", "UPDATE", "DELETE", "INSERT"].contains { sql.hasPrefix($0) }
    }
    return (own, time)
  }

  private static func plan(of statement: String, on file: SQLiteConnection) throws -> [String] {
    // Its columns: id, parent, notused, detail.
    try file.rows(of: "EXPLAIN QUERY PLAN " + statement) { try $0.get(3) }
  }

  /// 20,000 users with a purchase each, of which every row waits to be written and every recheck is due; 2 000 receipts
  /// of 100 kB that wait, with a grant each; as many notifications, and purchases that nobody has.
  private static func large() async throws -> Scratch {
    let scratch = try Scratch()
    await (try await scratch.open()).close()
    let file = try SQLiteFile(scratch.path)
    let verdict = """
      {"explanation":{"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,\
      "reason":"renewing","status":"active","tier":"pro"}
      """
    try file.transaction {
      try file.run(
        """
        CREATE TEMP TABLE number AS
          WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(users)) SELECT i FROM n;
        INSERT INTO event
            (sequence, user_id, kind, recorded_at, request_id, version, changed, receipt_sha256, entitlement)
          SELECT i, 'u' || i, 'verdict', i, 'r', 1, 1, zeroblob(32), '\(verdict)' FROM number;
        INSERT INTO account
          SELECT 'u' || i, NULL, 1, i, i, 'pro', 'active', NULL, i, 0, 1, '[' || i || ']', NULL, i, i FROM number;
        INSERT INTO given_period
          SELECT i, 'u' || i, 'support', 'pro', i, i + 1, NULL, 'desk', NULL, 'r', i, i % 1000 > 0, 'k' FROM number;
        INSERT INTO consumption SELECT 'u' || i, 'trips', j, j, 2, NULL, NULL, NULL, NULL, 2 * j
          FROM number, (SELECT 1 j UNION SELECT 2);
        INSERT INTO feature_total SELECT 'u' || i, 'trips', 4, 9, 0 FROM number;
        INSERT INTO user_time_zone SELECT 'u' || i, 'Europe/Berlin', 0 FROM number;
        INSERT INTO outbox SELECT 'u' || i, 1, 'waiting', 0, i, 1, i % 1000, 'timeout', i, NULL, NULL FROM number;
        INSERT INTO proof
          SELECT i, randomblob(32), 'production', 'com.example.app', 1, x'78', 0, 1, NULL, NULL FROM number;
        INSERT INTO purchase
          SELECT i, 'production', i, 'u' || i, 'proof', i, 'verify_receipt', 0, 0, 0,
            '{"names":[],"purchases":[],"renewals":[]}', NULL, NULL, i, i, 0
          FROM number;
        INSERT INTO pending_receipt
          SELECT i, 'u' || i, randomblob(32), hex(zeroblob(50000)), 'r', i, 0, i FROM number WHERE i <= 2000;
        INSERT INTO provisional_grant
          SELECT 'sandbox', i, 'u' || i, i, 'signature', 0, 0, 9000000000000, 0, '{"names":[],"purchases":[],"renewals":[]}'
          FROM number WHERE i <= 2000;
        INSERT INTO notification
          SELECT 'n' || i, 'DID_RENEW', NULL, 'production', 'com.example.app', i % 1000, i, i, 'unclaimed', NULL, 'signed'
          FROM number;
        INSERT INTO refused_notification SELECT i, randomblob(32), 'signature', 'x', i, i % 2 FROM number WHERE i <= 1000;
        INSERT INTO unclaimed_evidence
          SELECT 'sandbox', i + 900000, 'notification', 0, 0, '{"names":[],"parts":{},"purchases":[],"renewals":[]}',
            '00000000-0000-4000-8000-000000' || (i + 900000), 'com.example.app', 'jws', 0, 0, 0 FROM number;
        """)
    }
    file.close()
    return scratch
  }
}

internal import Dispatch
internal import Entitlements
internal import GRDB

/// A check that every row of a ledger agrees with the others: what no constraint of the schema can hold.
///
/// - The events of each user form one chain without gaps: each verdict's version is one more than the last.
/// - Each purchase has one owner, who lists it, and a proof that is what its digest says.
/// - The periods that were given and are not over are those that the user's account lists.
/// - The outbox has the version of the user's row, or resets that of an erased user; the counts of access are those of
///   the verdicts.
/// - Against an older ledger: each line of its history is a line of this one, word for word.
package struct LedgerVerification: Hashable, Sendable {
  package var users = 0
  package var events = 0
  package var purchases = 0
  /// Those at other stores, which RevenueCat reported.
  package var storePurchases = 0
  /// Lines of the older ledger that were compared.
  package var compared = 0
  /// What does not agree, as sentences; at most `findingLimit`.
  package var findings: [String] = []
  package var findingCount = 0

  package static let findingLimit = 20

  package var isSound: Bool { findingCount == 0 }

  /// Reads a ledger beside a service that may have it open, as of the last commit.
  /// - Parameters:
  ///   - path: the ledger.
  ///   - former: a backup of it, made before an upgrade; `nil` compares nothing.
  package static func verify(
    path: String, against former: String? = nil
  ) async throws(LedgerOpenError) -> LedgerVerification {
    let result: Result<LedgerVerification, LedgerOpenError> = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          returning: Result { () throws(LedgerOpenError) in try verifyNow(path: path, against: former) })
      }
    }
    return try result.get()
  }

  /// Reads a ledger wherever it is.
  package static func verify(
    at place: LedgerPlace, against former: String? = nil
  ) async throws(LedgerOpenError) -> LedgerVerification {
    switch place {
    case .file(let path): return try await verify(path: path, against: former)
    case .database(let url, _):
      guard former == nil else {
        throw .inaccessible(path: "in PostgreSQL", problem: "an older one is compared with a file alone")
      }
      return try await verify(url: url)
    }
  }

  /// Reads a ledger in PostgreSQL, as of the last commit.
  /// - Parameter url: as for `Ledger.open(url:connections:)`.
  package static func verify(url: String) async throws(LedgerOpenError) -> LedgerVerification {
    let address = try PostgreSQLAddress(url)
    let result: Result<LedgerVerification, LedgerOpenError> = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          returning: Result { () throws(LedgerOpenError) in
            try address.checked { connection in
              guard try connection.run("SELECT to_regclass('account')::text") != nil else {
                throw LedgerOpenError.inaccessible(path: "in \(address.description)", problem: "it has no tables yet")
              }
              try connection.run("SET statement_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
              var verification = LedgerVerification()
              try verification.check(LedgerTables(connection))
              try connection.run("COMMIT")
              return verification
            }
          })
      }
    }
    return try result.get()
  }

  private static func verifyNow(
    path given: String, against former: String?
  ) throws(LedgerOpenError) -> LedgerVerification {
    let path = try LedgerFile.resolve(given)
    do {
      let queue = try Self.open(path)
      defer { try? queue.close() }
      let isPresent = try queue.read { db in
        try db.tableExists("account") && !db.tableExists("subscription")
          && db.columns(in: "outbox").contains { $0.name == "reset" }
      }
      guard isPresent else {
        throw LedgerOpenError.inaccessible(
          path: path, problem: "it is of an older version; start the service once, which upgrades it")
      }
      var verification = LedgerVerification()
      try queue.read { db in try verification.check(LedgerTables(db: db)) }
      guard let former else { return verification }
      let formerPath = try LedgerFile.resolve(former)
      let older = try Self.open(formerPath)
      defer { try? older.close() }
      try queue.read { db in
        try older.read { formerDB in
          guard try formerDB.tableExists("history") else {
            throw LedgerOpenError.inaccessible(path: formerPath, problem: "it is not of an older version")
          }
          try verification.compare(LedgerTables(db: db), with: LedgerTables(db: formerDB))
        }
      }
      return verification
    } catch {
      throw LedgerInspection.openError(error, path: path)
    }
  }

  private static func open(_ path: String) throws -> DatabaseQueue {
    var configuration = Configuration()
    configuration.readonly = true
    configuration.busyMode = .timeout(10)
    let queue = try DatabaseQueue(path: path, configuration: configuration)
    try LedgerInspection.expectOurs(queue, path: path)
    return queue
  }

  private mutating func expect(_ holds: Bool, _ sentence: @autoclosure () -> String) {
    guard !holds else { return }
    findingCount += 1
    if findings.count < Self.findingLimit { findings.append(sentence()) }
  }

  // MARK: One ledger

  private static let page = 1_000

  mutating func check(_ tables: LedgerTables) throws {
    var access: [AccessCount] = []
    var counts: [Account.Access: Int] = [:]
    var chained: Int64 = 0
    var givenPeriods = 0
    var key = ""
    while true {
      let page = try tables.all("SELECT key FROM account WHERE key > ? ORDER BY key LIMIT ?", key, Self.page) {
        try $0.get(0, as: String.self)
      }
      guard let last = page.last else { break }
      key = last
      for name in page {
        guard let account = try tables.account(withKey: name) else {
          expect(false, "The account of \(name) is not found by its key.")
          continue
        }
        users += 1
        chained += try checkChain(of: account, key: name, tables)
        try checkPurchases(of: account, key: name, tables)
        let given = try tables.givenNotOver(to: account.user)
        givenPeriods += given.count
        expect(account.given == given, "The account of \(name) lists other given periods than there are.")
        if var given = account.access, account.version > 0 {
          given.until = nil
          counts[given, default: 0] += 1
        }
      }
    }
    for (given, count) in counts where given.status != .expired {
      guard let product = given.product else { continue }
      let row = access.firstIndex {
        $0.tier == given.tier && $0.product == product && $0.isForLife == given.isForLife
      }
      if let row {
        access[row].users += count
      } else {
        access.append(AccessCount(tier: given.tier, product: product, isForLife: given.isForLife, users: count))
      }
    }
    let stored = try tables.accessGiven()
    expect(Set(stored) == Set(access), "The counts of users with access are not those of the verdicts.")
    events = try tables.first("SELECT count(*) FROM event") { try $0.get(0) } ?? 0
    let loose = try tables.first("SELECT count(*) FROM event WHERE user_id IS NULL") { try $0.get(0, as: Int64.self) }
    let (total, reached) = (events, chained + (loose ?? 0))
    expect(Int64(total) == reached, "Of \(total) events \(reached) belong to a user's chain.")
    let given = try tables.first("SELECT count(*) FROM given_period WHERE is_over = 0") { try $0.get(0, as: Int.self) }
    expect(given == givenPeriods, "Of \(given ?? 0) given periods \(givenPeriods) belong to a user.")
    try checkTrials(tables)
    let (listed, kept) = (storePurchases, try tables.storePurchaseCount())
    expect(listed == kept, "Of \(kept) purchases at other stores \(listed) are listed by their owners.")
    try checkProofs(tables)
    try checkOutbox(tables)
  }

  /// Each trial is a given period of the same user.
  private mutating func checkTrials(_ tables: LedgerTables) throws {
    let counts = try tables.first(
      """
      SELECT (SELECT count(*) FROM trial),
        (SELECT count(*) FROM trial JOIN given_period USING (id, user_id) WHERE kind = 'trial')
      """
    ) { (all: try $0.get(0, as: Int.self), given: try $0.get(1, as: Int.self)) }
    expect(
      counts.map { $0.all == $0.given } ?? false,
      "Of \(counts?.all ?? 0) trials \(counts?.given ?? 0) are given periods of their users.")
  }

  private struct Link {
    var user: String?
    var previous: Int64?
    var kind: String
    var version: Int64?
    var entitlement: String?
    var note: Int64?
  }

  /// - Returns: the length of the chain.
  private mutating func checkChain(of account: Account, key: String, _ tables: LedgerTables) throws -> Int64 {
    var next = account.newest
    var length: Int64 = 0
    var version = account.version
    var isNewestVerdict = true
    while let sequence = next {
      let link = try tables.first(
        "SELECT user_id, previous, kind, version, entitlement, note FROM event WHERE sequence = ?", sequence
      ) { row in
        Link(
          user: try row.get(0), previous: try row.get(1), kind: try row.get(2), version: try row.get(3),
          entitlement: try row.get(4), note: try row.get(5))
      }
      guard let link else {
        expect(false, "Event \(sequence) of \(key) is missing.")
        break
      }
      length += 1
      expect(link.user == key, "Event \(sequence) is in the chain of \(key), and not theirs.")
      if let note = link.note {
        expect(
          try tables.exists("SELECT 1 FROM event WHERE sequence = ? AND kind = 'note'", note),
          "The note of event \(sequence) is missing.")
      }
      if link.kind == "verdict" {
        expect(
          link.version == version, "A verdict of \(key) has version \(link.version ?? 0), not \(version).")
        version -= 1
        let entitlement = link.entitlement.flatMap { try? StoredForm.value(Entitlement.self, $0) }
        expect(entitlement != nil, "The verdict of event \(sequence) cannot be read.")
        if isNewestVerdict {
          expect(account.verdict == sequence, "The account of \(key) does not name the newest verdict.")
          expect(entitlement.map(Account.Access.init) == account.access, "The account of \(key) is not of its verdict.")
          isNewestVerdict = false
        }
      }
      next = link.previous
    }
    expect(version == 0, "The history of \(key) lacks \(version) verdicts.")
    return length
  }

  private mutating func checkPurchases(of account: Account, key: String, _ tables: LedgerTables) throws {
    expect(Set(account.purchases).count == account.purchases.count, "\(key) lists a purchase twice.")
    for id in account.purchases where id < 0 {
      let owner = try tables.storePurchase(id: id)?.owner.key
      expect(owner == key, "\(key) lists purchase \(id), which is missing or another user's.")
      storePurchases += 1
    }
    for id in account.purchases where id > 0 {
      let owner = try tables.first("SELECT user_id FROM purchase WHERE id = ?", id) { try $0.get(0, as: String.self) }
      guard let owner else {
        expect(false, "\(key) lists purchase \(id), which is missing.")
        continue
      }
      expect(owner == key, "\(key) lists purchase \(id), which is another user's.")
      purchases += 1
    }
  }

  private mutating func checkProofs(_ tables: LedgerTables) throws {
    let total = try tables.first("SELECT count(*) FROM purchase") { try $0.get(0, as: Int.self) } ?? 0
    let listed = purchases
    expect(total == listed, "Of \(total) purchases \(listed) are listed by their owners.")
    var uses: [Int64: Int] = [:]
    var place: Int64 = 0
    while true {
      let page = try tables.all("SELECT id FROM purchase WHERE id > ? ORDER BY id LIMIT ?", place, Self.page) {
        try $0.get(0, as: Int64.self)
      }
      guard let last = page.last else { break }
      place = last
      for id in page {
        guard let purchase = try? tables.purchase(id: id) else {
          expect(false, "Purchase \(id) cannot be read.")
          continue
        }
        uses[purchase.proof, default: 0] += 1
      }
    }
    place = 0
    while true {
      let page = try tables.all("SELECT id, uses FROM proof WHERE id > ? ORDER BY id LIMIT ?", place, Self.page) {
        (id: try $0.get(0, as: Int64.self), uses: try $0.get(1, as: Int.self))
      }
      guard let last = page.last else { break }
      place = last.id
      for (id, count) in page {
        expect(uses.removeValue(forKey: id) == count, "Proof \(id) is not used by \(count) purchases.")
        let proof = try tables.proof(id)
        expect(ReceiptDigest(of: proof.receipt.base64) == proof.digest, "Proof \(id) is not what its digest says.")
      }
    }
    expect(uses.isEmpty, "\(uses.count) proofs of purchases are missing.")
  }

  private mutating func checkOutbox(_ tables: LedgerTables) throws {
    let strange = try tables.all(
      """
      SELECT outbox.key FROM outbox LEFT JOIN account USING (key)
      WHERE outbox.reset IS NULL
        AND (account.version IS NULL OR account.version = 0 OR account.row_version <> outbox.version)
      """
    ) { try $0.get(0, as: String.self) }
    for key in strange { expect(false, "The outbox has another version of the row of \(key) than the account.") }
    let early = try tables.all(
      "SELECT outbox.key FROM outbox JOIN account USING (key) WHERE outbox.reset IS NOT NULL AND account.version > 0"
    ) { try $0.get(0, as: String.self) }
    for key in early { expect(false, "The outbox resets the row of \(key), who has a verdict.") }
    expect(try tables.memo("erasing") == nil, "An erasure was left unfinished: the history may be changed.")
  }

  // MARK: Against an older ledger

  /// A line of a history, of either version.
  private struct Line: Hashable {
    var recordedAt: Int64
    var requestID: String
    var changed: Bool
    var digest: ReceiptDigest
    var evidenceAt: Int64?
    var entitlement: String
  }

  private mutating func compare(_ tables: LedgerTables, with former: LedgerTables) throws {
    var user = ""
    while true {
      let page = try former.all(
        "SELECT user_id FROM profile WHERE user_id > ? ORDER BY user_id LIMIT ?", user, Self.page
      ) { try $0.get(0, as: UserID.self) }
      guard let last = page.last else { break }
      user = last.rawValue
      for user in page { try compare(user, tables, with: former) }
    }
    for (table, sql): (String, StaticString) in [
      ("purchases", "SELECT count(*) FROM subscription"), ("notes", "SELECT count(*) FROM note"),
      ("changes of owner", "SELECT count(*) FROM ownership_change"),
    ] {
      let before = try former.first(sql) { try $0.get(0, as: Int.self) } ?? 0
      let now =
        switch table {
        case "purchases": try tables.first("SELECT count(*) FROM purchase") { try $0.get(0, as: Int.self) } ?? 0
        case "notes":
          try tables.first("SELECT count(*) FROM event WHERE kind = 'note'") { try $0.get(0, as: Int.self) } ?? 0
        default:
          try tables.first("SELECT count(*) FROM event WHERE kind = 'gained'") { try $0.get(0, as: Int.self) } ?? 0
        }
      compared += before
      expect(now >= before, "There were \(before) \(table), and there are \(now).")
    }
  }

  private mutating func compare(_ user: UserID, _ tables: LedgerTables, with former: LedgerTables) throws {
    let before = try former.all(
      """
      SELECT recorded_at, request_id, changed, receipt_sha256, evidence_at, entitlement FROM history
      WHERE user_id = ? ORDER BY version
      """, user, read: Self.line)
    var lines: [Line: Int] = [:]
    var next = try tables.account(of: user)?.newest
    while let sequence = next {
      let event = try tables.first(
        """
        SELECT recorded_at, request_id, changed, receipt_sha256, evidence_at, entitlement, previous, kind FROM event
        WHERE sequence = ?
        """, sequence
      ) { row in
        (
          line: try row.get(7, as: String.self) == "verdict" ? try Self.line(row) : nil,
          previous: try row.get(6, as: Int64?.self)
        )
      }
      if let line = event?.line { lines[line, default: 0] += 1 }
      next = event?.previous
    }
    compared += before.count
    for line in before {
      let count = lines[line] ?? 0
      expect(count > 0, "A line of \(user) of request \(line.requestID) is missing or differs.")
      lines[line] = count - 1
    }
  }

  private static func line(_ row: SQLRow) throws -> Line {
    Line(
      recordedAt: try row.get(0), requestID: try row.get(1), changed: try row.get(2), digest: try row.get(3),
      evidenceAt: try row.get(4), entitlement: try row.get(5))
  }
}

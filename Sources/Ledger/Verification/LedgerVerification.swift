internal import Entitlements
internal import Glibc

/// A check that every row of a ledger agrees with the others: what no constraint of the schema can hold.
///
/// - The events of each user form one chain without gaps: each verdict's version is one more than the last. Where retention
///   has taken events out, a row of `thinned` has their number and the number of their verdicts.
/// - Each purchase has one owner, who lists it, and a proof that is what its digest says.
/// - The periods that were given and are not over are those that the user's account lists.
/// - The outbox has the version of the user's row, or resets that of an erased user; the counts of access are those of
///   the verdicts.
/// - What users saw of experiments is counted, or waits to be.
/// - The running totals of a user's consumption grow by its amounts.
/// - Against an older ledger: each line of its history is a line of this one, word for word, or among those that retention has
///   taken out, as their digest says.
package struct LedgerVerification: Hashable, Sendable {
  package var users = 0
  package var events = 0
  /// Those that retention has taken out.
  package var removed = 0
  package var purchases = 0
  /// Those at other stores, which RevenueCat reported.
  package var revenueCatPurchases = 0
  /// Lines of the older ledger that were compared, and those among them that retention has taken out since.
  package var compared = 0
  package var comparedRemoved = 0
  /// Disagreements, as sentences; at most `findingLimit`.
  package var findings: [String] = []
  package var findingCount = 0

  package static let findingLimit = 20

  package var isSound: Bool { findingCount == 0 }

  /// Checks a ledger beside a service that may have it open, as of the last commit.
  /// - Parameter former: a backup of it, made before an upgrade; `nil` compares nothing.
  package static func verify(
    at place: LedgerPlace, against former: String? = nil
  ) async throws(LedgerOpenError) -> LedgerVerification {
    if case .database = place, former != nil {
      throw .inaccessible(path: "in PostgreSQL", problem: "an older one is compared with a file alone")
    }
    return try await reading(place) { tables in
      var verification = LedgerVerification()
      try verification.check(tables)
      guard let former else { return verification }
      let formerPath = try LedgerFile.resolve(former)
      guard access(formerPath, R_OK) == 0 else {
        throw LedgerOpenError.inaccessible(path: formerPath, problem: LedgerFile.problem(errno))
      }
      let older = try open(formerPath)
      defer { older.close() }
      try older.read { try verification.compare(tables, with: LedgerTables(older)) }
      return verification
    }
  }

  /// Reads anything from a ledger, wherever it is, as of the last commit.
  static func reading<Value: Sendable>(
    _ place: LedgerPlace, _ read: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerOpenError) -> Value {
    try await blocking { () throws(LedgerOpenError) in
      switch place {
      case .file(let path): try readingNow(path, read)
      case .database(let url, _): try readingNow(PostgreSQLAddress(url), read)
      }
    }
  }

  private static func readingNow<Value>(
    _ address: PostgreSQLAddress, _ read: (LedgerTables) throws -> Value
  ) throws(LedgerOpenError) -> Value {
    try address.checked { connection in
      guard try PostgreSQLSchema.isPresent(connection) else {
        throw LedgerOpenError.inaccessible(
          path: "in \(address.description)", problem: "it has no tables yet, or is of an older version")
      }
      try connection.run("SET statement_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
      let result = try read(LedgerTables(connection))
      try connection.run("COMMIT")
      return result
    }
  }

  private static func readingNow<Value>(
    _ given: String, _ read: (LedgerTables) throws -> Value
  ) throws(LedgerOpenError) -> Value {
    let path = try LedgerFile.resolveReadable(given)
    do {
      let connection = try open(path)
      defer { connection.close() }
      guard try LedgerSchema.present.isComplete(in: connection) else {
        throw LedgerOpenError.inaccessible(
          path: path, problem: "it is of an older version; start the service once, which upgrades it")
      }
      return try connection.read { try read(LedgerTables(connection)) }
    } catch {
      throw LedgerInspection.openError(error, path: path)
    }
  }

  private static func open(_ path: String) throws -> SQLiteConnection {
    let connection = try SQLiteConnection(path: path, isReadOnly: true, patience: .seconds(10))
    try LedgerInspection.expectOurs(connection, path: path)
    return connection
  }

  mutating func expect(_ holds: Bool, _ sentence: @autoclosure () -> String) {
    guard !holds else { return }
    findingCount += 1
    if findings.count < Self.findingLimit { findings.append(sentence()) }
  }

  // MARK: One ledger

  static let page = 1_000

  mutating func check(_ tables: LedgerTables) throws {
    /// The users of each access, whose own number stays zero.
    var counts: [AccessCount: Int] = [:]
    var chained: Int64 = 0
    var givenPeriods = 0
    var key = ""
    while true {
      let page = try tables.all(
        "SELECT key FROM account WHERE key > ? ORDER BY key LIMIT ?", key, Self.page, as: String.self)
      guard let last = page.last else { break }
      key = last
      for name in page {
        guard let account = try tables.accounts.account(withKey: name) else {
          expect(false, "The account of \(name) is not found by its key.")
          continue
        }
        users += 1
        chained += try checkChain(of: account, key: name, tables)
        try checkPurchases(of: account, key: name, tables)
        let given = try tables.given.notOver(to: account.user)
        givenPeriods += given.count
        expect(account.given == given, "The account of \(name) lists other given periods than there are.")
        if let access = account.access, account.version > 0, access.status != .expired, let product = access.product {
          let place = AccessCount(tier: access.tier, product: product, isForLife: access.isForLife, users: 0)
          counts[place, default: 0] += 1
        }
      }
    }
    let access = counts.map { AccessCount(tier: $0.tier, product: $0.product, isForLife: $0.isForLife, users: $1) }
    let stored = try tables.accounts.accessGiven()
    expect(Set(stored) == Set(access), "The counts of users with access are not those of the verdicts.")
    events = try tables.first("SELECT count(*) FROM event") ?? 0
    let loose = try tables.first("SELECT count(*) FROM event WHERE user_id IS NULL", as: Int64.self)
    let (total, reached) = (events, chained + (loose ?? 0))
    expect(Int64(total) == reached, "Of \(total) events \(reached) belong to a user's chain.")
    let (found, noted) = (removed, try tables.retention.report(before: nil).removed)
    expect(found == noted, "Of \(noted) events that retention has taken out \(found) belong to a user's chain.")
    let given = try tables.first("SELECT count(*) FROM given_period WHERE is_over = 0", as: Int.self)
    expect(given == givenPeriods, "Of \(given ?? 0) given periods \(givenPeriods) belong to a user.")
    try checkTrials(tables)
    let (listed, kept) = (revenueCatPurchases, try tables.first("SELECT count(*) FROM revenuecat_purchase") ?? 0)
    expect(listed == kept, "Of \(kept) purchases at other stores \(listed) are listed by their owners.")
    try checkProofs(tables)
    try checkOutbox(tables)
    let lost = try tables.first(
      """
      SELECT count(*) FROM exposure
      WHERE NOT EXISTS (SELECT 1 FROM counted_exposure AS counted WHERE counted.user_id = exposure.user_id)
        AND NOT EXISTS (SELECT 1 FROM exposure_due AS due WHERE due.user_id = exposure.user_id)
      """, as: Int.self)
    expect(lost == 0, "Of what users saw of experiments \(lost ?? 0) are neither counted nor to be counted.")
    let wrong = try tables.first(
      """
      SELECT count(*) FROM (
        SELECT running_total - lag(running_total)
          OVER (PARTITION BY user_id, feature ORDER BY consumed_at, number) - amount AS difference FROM consumption
      ) AS ordered WHERE difference <> 0
      """, as: Int.self)
    expect(wrong == 0, "Running totals of consumption that do not fit its amounts: \(wrong ?? 0).")
  }

  /// Each trial is a given period of the same user.
  private mutating func checkTrials(_ tables: LedgerTables) throws {
    let counts = try tables.first(
      """
      SELECT (SELECT count(*) FROM trial),
        (SELECT count(*) FROM trial JOIN given_period USING (id, user_id) WHERE kind = 'trial')
      """, as: (Int, Int).self)
    let (all, given) = counts ?? (0, 0)
    expect(all == given, "Of \(all) trials \(given) are given periods of their users.")
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
        "SELECT user_id, previous, kind, version, entitlement, note FROM event WHERE sequence = ?", sequence,
        into: Link.init(user:previous:kind:version:entitlement:note:))
      guard let link else {
        guard let stretch = try tables.thinnedHistory.stretch(ofKey: key, endingWith: sequence) else {
          expect(false, "Event \(sequence) of \(key) is missing.")
          break
        }
        removed += stretch.events
        version -= Int64(stretch.verdicts)
        next = stretch.previous
        continue
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
      let owner = try tables.otherStores.purchase(id: id)?.owner.key
      expect(owner == key, "\(key) lists purchase \(id), which is missing or another user's.")
      revenueCatPurchases += 1
    }
    for id in account.purchases where id > 0 {
      let owner = try tables.first("SELECT user_id FROM purchase WHERE id = ?", id, as: String.self)
      guard let owner else {
        expect(false, "\(key) lists purchase \(id), which is missing.")
        continue
      }
      expect(owner == key, "\(key) lists purchase \(id), which is another user's.")
      purchases += 1
    }
  }

  private mutating func checkProofs(_ tables: LedgerTables) throws {
    let total = try tables.first("SELECT count(*) FROM purchase", as: Int.self) ?? 0
    let listed = purchases
    expect(total == listed, "Of \(total) purchases \(listed) are listed by their owners.")
    var uses: [Int64: Int] = [:]
    var place: Int64 = 0
    while true {
      let page = try tables.all(
        "SELECT id FROM purchase WHERE id > ? ORDER BY id LIMIT ?", place, Self.page, as: Int64.self)
      guard let last = page.last else { break }
      place = last
      for id in page {
        guard let purchase = try? tables.purchases.purchase(id: id) else {
          expect(false, "Purchase \(id) cannot be read.")
          continue
        }
        uses[purchase.proof, default: 0] += 1
      }
    }
    place = 0
    while true {
      let page = try tables.all(
        "SELECT id, uses FROM proof WHERE id > ? ORDER BY id LIMIT ?", place, Self.page, as: (Int64, Int).self)
      guard let (last, _) = page.last else { break }
      place = last
      for (id, count) in page {
        expect(uses.removeValue(forKey: id) == count, "Proof \(id) is not used by \(count) purchases.")
        do {
          let proof = try tables.proofs.proof(id)
          expect(
            ReceiptDigest(ofReceipt: proof.receipt.base64) == proof.digest, "Proof \(id) is not what its digest says.")
        } catch is StoredForm.Unstorable {
          expect(false, "Proof \(id) cannot be read.")
        }
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
      """, as: String.self)
    for key in strange { expect(false, "The outbox has another version of the row of \(key) than the account.") }
    let early = try tables.all(
      "SELECT outbox.key FROM outbox JOIN account USING (key) WHERE outbox.reset IS NOT NULL AND account.version > 0",
      as: String.self)
    for key in early { expect(false, "The outbox resets the row of \(key), who has a verdict.") }
    expect(try tables.memo("erasing") == nil, "An erasure was left unfinished: the history may be changed.")
  }
}

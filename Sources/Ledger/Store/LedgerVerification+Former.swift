internal import Entitlements

/// Against an older ledger: a backup of this version's form, or one of before an upgrade.
extension LedgerVerification {
  // MARK: Of this version

  /// Compares every event of a backup.
  ///
  /// - Parameter hasThinned: whether the backup knows of retention.
  mutating func compare(_ tables: LedgerTables, with former: LedgerTables, hasThinned: Bool) throws {
    var key = ""
    while true {
      let page = try former.all("SELECT key, newest FROM account WHERE key > ? ORDER BY key LIMIT ?", key, Self.page) {
        (key: try $0.get(0, as: String.self), newest: try $0.get(1, as: Int64.self))
      }
      guard let last = page.last else { break }
      key = last.key
      for account in page {
        try compare(account.key, newest: account.newest, tables, with: former, hasThinned: hasThinned)
      }
    }
  }

  private mutating func compare(
    _ key: String, newest: Int64, _ tables: LedgerTables, with former: LedgerTables, hasThinned: Bool
  ) throws {
    // The backup's chain, the newest first, and what had been taken out of it before.
    var chain: [Int64] = []
    var stretches: [ThinnedHistory] = []
    var next = Optional(newest)
    while let sequence = next {
      if let event = try former.facts(ofEvent: sequence) {
        chain.append(sequence)
        next = event.previous
      } else if hasThinned, let stretch = try former.thinned(ofKey: key, endingWith: sequence) {
        stretches.append(stretch)
        next = stretch.previous
      } else {
        return expect(false, "Event \(sequence) of \(key) is missing in the backup.")
      }
    }
    compared += chain.count
    var missing: Set<Int64> = []
    // The key of a user who was erased since is a pseudonym.
    var present = key
    for sequence in chain {
      guard let facts = try tables.facts(ofEvent: sequence) else {
        missing.insert(sequence)
        continue
      }
      expect(
        try facts.values == former.facts(ofEvent: sequence)?.values, "Event \(sequence) of \(key) is not as it was.")
      present = try tables.first("SELECT user_id FROM event WHERE sequence = ?", sequence) { try $0.get(0) } ?? present
    }
    guard !missing.isEmpty else { return }
    for stretch in try tables.thinned(ofKey: present) {
      let own = chain.filter { missing.contains($0) && (stretch.oldest...stretch.newest).contains($0) }
      missing.subtract(own)
      comparedRemoved += own.count
      // A stretch that has grown beyond the backup is not proven by it.
      guard own.first == stretch.newest else { continue }
      let begun = stretches.first { $0.oldest == stretch.oldest }
      var digest = begun?.digest ?? []
      for sequence in own.reversed() {
        guard let facts = try former.facts(ofEvent: sequence) else { continue }
        digest = LedgerTables.digest(digest, over: facts.values)
      }
      expect(
        digest == stretch.digest && own.count + (begun?.events ?? 0) == stretch.events,
        "Retention took other events of \(key) out than those from \(stretch.oldest) to \(stretch.newest).")
    }
    for sequence in missing.sorted() { expect(false, "Event \(sequence) of \(key) is missing.") }
  }

  // MARK: Of before the upgrade

  /// A line of a history, of either version.
  private struct Line: Hashable {
    var recordedAt: Int64
    var requestID: String
    var changed: Bool
    var digest: ReceiptDigest
    var evidenceAt: Int64?
    var entitlement: String
  }

  mutating func compare(_ tables: LedgerTables, withLinesOf former: LedgerTables) throws {
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
      // Retention may have taken notes out.
      guard table != "notes" || removed == 0 else { continue }
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
    let account = try tables.account(of: user)
    var stretches: [ThinnedHistory] = []
    var next = account?.newest
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
      guard event == nil, let account else { continue }
      let stretch = try tables.thinned(ofKey: account.user.key, endingWith: sequence)
      stretches += [stretch].compactMap(\.self)
      next = stretch?.previous
    }
    compared += before.count
    for line in before {
      let count = lines[line] ?? 0
      let at = StoredForm.date(line.recordedAt)
      if count == 0, stretches.contains(where: { ($0.firstAt...$0.lastAt).contains(at) }) {
        comparedRemoved += 1
        continue
      }
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

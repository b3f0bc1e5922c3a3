internal import Entitlements

/// Against a backup.
extension LedgerVerification {
  /// Compares every event of a backup.
  mutating func compare(_ tables: LedgerTables, with former: LedgerTables) throws {
    var key = ""
    while true {
      let page = try former.all(
        "SELECT key, newest FROM account WHERE key > ? ORDER BY key LIMIT ?", key, Self.page, as: (String, Int64).self)
      guard let (last, _) = page.last else { break }
      key = last
      for (key, newest) in page { try compare(key, newest: newest, tables, with: former) }
    }
  }

  private mutating func compare(
    _ key: String, newest: Int64, _ tables: LedgerTables, with former: LedgerTables
  ) throws {
    // The backup's chain, the newest first, and what had been taken out of it before.
    var chain: [Int64] = []
    var stretches: [ThinnedHistory] = []
    var next = Optional(newest)
    while let sequence = next {
      if let event = try former.thinnedHistory.facts(ofEvent: sequence) {
        chain.append(sequence)
        next = event.previous
      } else if let stretch = try former.thinnedHistory.stretch(ofKey: key, endingWith: sequence) {
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
      guard let facts = try tables.thinnedHistory.facts(ofEvent: sequence) else {
        missing.insert(sequence)
        continue
      }
      expect(
        try facts.values == former.thinnedHistory.facts(ofEvent: sequence)?.values,
        "Event \(sequence) of \(key) is not as it was.")
      present = try tables.first("SELECT user_id FROM event WHERE sequence = ?", sequence) ?? present
    }
    guard !missing.isEmpty else { return }
    for stretch in try tables.thinnedHistory.stretches(ofKey: present) {
      let own = chain.filter { missing.contains($0) && (stretch.oldest...stretch.newest).contains($0) }
      missing.subtract(own)
      comparedRemoved += own.count
      // A stretch that has grown beyond the backup is not proven by it.
      guard own.first == stretch.newest else { continue }
      let begun = stretches.first { $0.oldest == stretch.oldest }
      var digest = begun?.digest ?? []
      for sequence in own.reversed() {
        guard let facts = try former.thinnedHistory.facts(ofEvent: sequence) else { continue }
        digest = ThinnedHistoryTable.digest(digest, over: facts.values)
      }
      expect(
        digest == stretch.digest && own.count + (begun?.events ?? 0) == stretch.events,
        "Retention took other events of \(key) out than those from \(stretch.oldest) to \(stretch.newest).")
    }
    for sequence in missing.sorted() { expect(false, "Event \(sequence) of \(key) is missing.") }
  }
}

/// Sums of history that retention removed.
struct ThinnedHistoryTable: LedgerTable {
  let tables: LedgerTables

  static let columns = "newest, oldest, previous, events, verdicts, first_at, last_at, digest"
  private static let row = "SELECT \(columns) FROM thinned WHERE user_id = ?"
  private static let byNewest = SQL("\(row) AND newest = ?")
  private static let around = SQL("\(row) AND newest >= ? ORDER BY newest LIMIT 1")
  private static let ofUser = SQL("\(row) ORDER BY newest")

  /// The stretch that ends with an event of a user's chain; `nil` if that one was not taken out.
  func stretch(ofKey key: String, endingWith newest: Int64) throws -> ThinnedHistory? {
    try first(Self.byNewest, key, newest, into: ThinnedHistory.init)
  }

  /// The stretch that an event of a user's chain was in.
  func stretch(ofKey key: String, with sequence: Int64) throws -> ThinnedHistory? {
    try first(Self.around, key, sequence, into: ThinnedHistory.init).flatMap { $0.oldest <= sequence ? $0 : nil }
  }

  /// Everything that was taken out of a user's history, the oldest first.
  func stretches(ofKey key: String) throws -> [ThinnedHistory] {
    try all(Self.ofUser, key, into: ThinnedHistory.init)
  }

  /// The digest of a stretch, continued over an event: over its facts, which an erasure leaves as they are.
  static func digest(_ former: [UInt8], over facts: [CopiedValue]) -> [UInt8] {
    var digest = RowDigest(value: former)
    digest.update(facts)
    return digest.value
  }

  /// The facts of an event, and when it was recorded; `nil` for one that is not there.
  func facts(ofEvent sequence: Int64) throws -> (values: [CopiedValue], recordedAt: Int64, previous: Int64?)? {
    try first(
      """
      SELECT sequence, previous, kind, recorded_at, note, version, changed, evidence_at, entitlement, purchase_id, author
      FROM event WHERE sequence = ?
      """, sequence
    ) { row in
      func integer(_ column: Int) throws -> CopiedValue {
        try row.get(column, as: Int64?.self).map(CopiedValue.integer) ?? .null
      }
      func text(_ column: Int) throws -> CopiedValue {
        try row.get(column, as: String?.self).map(CopiedValue.text) ?? .null
      }
      let values = try [
        integer(0), integer(1), text(2), integer(3), integer(4), integer(5), integer(6), integer(7), text(8),
        integer(9), text(10),
      ]
      return (values, try row.get(3), try row.get(1))
    }
  }
}

extension LedgerTables {
  static let thinnedColumns = "newest, oldest, previous, events, verdicts, first_at, last_at, digest"
  private static let thinnedRow = "SELECT \(thinnedColumns) FROM thinned WHERE user_id = ?"
  private static let thinnedByNewest = SQL("\(thinnedRow) AND newest = ?")
  private static let thinnedAround = SQL("\(thinnedRow) AND newest >= ? ORDER BY newest LIMIT 1")
  private static let thinnedOfUser = SQL("\(thinnedRow) ORDER BY newest")

  /// The stretch that ends with an event of a user's chain; `nil` if that one was not taken out.
  func thinned(ofKey key: String, endingWith newest: Int64) throws -> ThinnedHistory? {
    try first(Self.thinnedByNewest, key, newest, into: ThinnedHistory.init)
  }

  /// The stretch that an event of a user's chain was in.
  func thinned(ofKey key: String, with sequence: Int64) throws -> ThinnedHistory? {
    try first(Self.thinnedAround, key, sequence, into: ThinnedHistory.init).flatMap { $0.oldest <= sequence ? $0 : nil }
  }

  /// Everything that was taken out of a user's history, the oldest first.
  func thinned(ofKey key: String) throws -> [ThinnedHistory] {
    try all(Self.thinnedOfUser, key, into: ThinnedHistory.init)
  }
}

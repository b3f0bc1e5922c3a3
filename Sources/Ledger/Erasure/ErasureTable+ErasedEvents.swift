internal import Entitlements

extension ErasureTable {
  /// Events that are about an erased user or name one, among some of those after a place.
  /// - Returns: `last`: the number of the last one that was looked at; `nil` at the end.
  func changeEvents(
    naming names: ErasedNames, after sequence: Int64, limit: Int
  ) throws -> (sequences: [Int64], last: Int64?) {
    let page = try all(
      "SELECT sequence, user_id, data FROM change_event WHERE sequence > ? ORDER BY sequence LIMIT ?", sequence, limit
    ) { row in
      let detail = try row.get(2, as: String?.self).map { try StoredForm.decoded(ChangeEvent.Detail.self, $0) }
      return (
        sequence: try row.get(0, as: Int64.self),
        isNamed: try names.isName(row.get(1)) || (detail.map { $0.redacted(names, nil) != $0 } ?? false)
      )
    }
    return (page.filter(\.isNamed).map(\.sequence), page.count == limit ? page.last?.sequence : nil)
  }

  /// Deletes an event about an erased user, with its deliveries; of another's takes the name out. The newest one leaves its
  /// number.
  /// - Returns: whether there was one to delete.
  func erase(changeEvent sequence: Int64, _ names: ErasedNames, as pseudonym: UserID?) throws -> Bool {
    let known = try first("SELECT user_id, data FROM change_event WHERE sequence = ?", sequence) { row in
      (user: try row.get(0, as: String.self), data: try row.get(1, as: String?.self))
    }
    guard let known else { return false }
    guard names.isName(known.user) else {
      guard let data = known.data else { return false }
      let detail = try StoredForm.decoded(ChangeEvent.Detail.self, data).redacted(names, pseudonym)
      try execute("UPDATE change_event SET data = ? WHERE sequence = ?", StoredForm.encoded(detail), sequence)
      return false
    }
    for name in try all("SELECT name FROM webhook ORDER BY name", as: String.self) {
      try execute("DELETE FROM webhook_delivery WHERE webhook = ? AND sequence = ?", name, sequence)
    }
    if try exists("SELECT 1 FROM change_event WHERE sequence > ? LIMIT 1", sequence) {
      try execute("DELETE FROM change_event WHERE sequence = ?", sequence)
    } else {
      try execute(
        """
        UPDATE change_event SET user_id = ?, type = 'user.erased', verdict = NULL, former = NULL, data = NULL,
          purchased_at = NULL, sale = NULL
        WHERE sequence = ?
        """, pseudonym ?? .erased, sequence)
    }
    return true
  }
}

extension ChangeEvent.Detail {
  /// The detail of another user's event, without the names of an erased one.
  fileprivate func redacted(_ names: ErasedNames, _ pseudonym: UserID?) -> Self {
    func renamed(_ user: UserID?) -> UserID? {
      user.map { names.isName($0.rawValue) ? pseudonym ?? .erased : $0 }
    }
    var copy = self
    (copy.from, copy.to) = (renamed(from), renamed(to))
    copy.properties = properties.map(names.redacted(inJSON:))
    copy.reportedID = reportedID.map { names.redacted($0) }
    return copy
  }
}

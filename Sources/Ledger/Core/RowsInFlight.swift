internal import Entitlements
internal import Synchronization

/// This process's knowledge of the app's rows beyond the ledger: which update is a user's newest, so that it can be written
/// without reading it back, and which was written and waits for the next commit to say so.
///
/// An entry comes with the commit of an update, and stays until the next one. Of a user without an entry only the ledger
/// knows.
final class RowsInFlight: Sendable {
  private struct Row: Equatable {
    var version: Int64
    var isSettled = false
  }

  /// Guards the rows.
  private let rows = Mutex<[String: Row]>([:])

  /// More are not remembered, as while the store is away for long, and when it is back.
  static let limit = 20_000

  private static func makeRoom(in rows: inout [String: Row]) { if rows.count >= limit { rows.removeAll() } }

  func note(_ changed: [String: Int64]) {
    guard !changed.isEmpty else { return }
    rows.withLock { rows in
      Self.makeRoom(in: &rows)
      for (key, version) in changed { rows[key] = Row(version: version) }
    }
  }

  /// Whether an update is certainly its user's newest, and was not written yet.
  func isNewest(_ version: Int64, of user: UserID) -> Bool {
    rows.withLock { $0[user.key] == Row(version: version) }
  }

  func settle(_ version: Int64, of user: UserID) {
    rows.withLock { rows in
      // A newer update is not settled by an older write.
      guard rows[user.key].map({ $0.version == version }) ?? true else { return }
      Self.makeRoom(in: &rows)
      rows[user.key] = Row(version: version, isSettled: true)
    }
  }

  /// Forgets that a version was written, which the ledger could not note.
  func forget(_ version: Int64, of user: UserID) {
    rows.withLock { rows in
      if rows[user.key] == Row(version: version, isSettled: true) { rows[user.key] = nil }
    }
  }

  /// Whether a version was written, whatever the ledger says yet.
  func isSettled(_ version: Int64, of user: UserID) -> Bool {
    rows.withLock { $0[user.key] == Row(version: version, isSettled: true) }
  }
}

internal import Entitlements
internal import Synchronization

/// The cached reads that the open transaction invalidates.
///
/// It belongs to the connection's thread; the lock is for the compiler.
final class TransactionChanges: Sendable {
  struct Changes {
    /// The app's rows that became outdated, with the versions that they have to get.
    var rows: [String: Int64] = [:]
    /// Keys of users whose cached reads are invalid.
    var users: Set<String> = []
    /// The keys of users whose consumption changed.
    var consumers: Set<String> = []
    /// A read of any user may say something else.
    var isGeneral = false
    /// An event for others was appended.
    var hasEvents = false
  }

  private let changes = Mutex(Changes())

  func invalidate(row version: Int64, of user: UserID) {
    changes.withLock { changes in
      changes.rows[user.key] = version
      changes.users.insert(user.key)
    }
  }

  func invalidate(_ user: UserID) { changes.withLock { _ = $0.users.insert(user.key) } }

  func invalidate(usageOf user: UserID) { changes.withLock { _ = $0.consumers.insert(user.key) } }

  func invalidateAll() { changes.withLock { $0.isGeneral = true } }

  func noteEvent() { changes.withLock { $0.hasEvents = true } }

  /// - Returns: what was noted since the last call.
  func take() -> Changes {
    changes.withLock { changes in
      defer { changes = Changes() }
      return changes
    }
  }
}

/// A number for each user that grows with every commit that changes what a read of the user may say. A cached answer
/// holds while the number is the one from before the read.
///
/// Advanced before the commit is acknowledged: no caller reads a state older than one it was told of.
/// Users share numbers: a change of one may make the answers on others look outdated.
final class ReadGenerations: Sendable {
  /// Guards the numbers.
  private let numbers = Mutex([UInt64](repeating: 0, count: 1 << 16))
  /// Whether other processes change what is read: then nothing holds, and each number is a new one.
  private let isShared: Bool

  init(isShared: Bool) { self.isShared = isShared }

  subscript(user: UserID) -> UInt64 {
    if isShared { advance(user) }
    let place = Self.place(of: user.key)
    return numbers.withLock { $0[place] }
  }

  func advance(_ changes: TransactionChanges.Changes) {
    guard changes.isGeneral else { return advance(changes.users) }
    numbers.withLock { numbers in
      for place in numbers.indices { numbers[place] += 1 }
    }
  }

  func advance(_ keys: Set<String>) {
    guard !keys.isEmpty else { return }
    numbers.withLock { numbers in
      for key in keys { numbers[Self.place(of: key)] += 1 }
    }
  }

  func advance(_ user: UserID) { numbers.withLock { $0[Self.place(of: user.key)] += 1 } }

  private static func place(of key: String) -> Int { Int(UInt(bitPattern: key.hashValue) & 0xffff) }
}

/// This process's knowledge of the app's rows beyond the ledger: which update is a user's newest, so that it can be written
/// without reading it back, and which was written and waits for the next commit to say so.
///
/// An entry comes with the commit of an update, and stays until the next one. Of a user without an entry only the ledger
/// knows.
final class RowsInFlight: Sendable {
  private struct Row {
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
    rows.withLock { rows in
      guard let row = rows[user.key] else { return false }
      return row.version == version && !row.isSettled
    }
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
      if rows[user.key].map({ $0.version == version && $0.isSettled }) == true { rows[user.key] = nil }
    }
  }

  /// Whether a version was written, whatever the ledger says yet.
  func isSettled(_ version: Int64, of user: UserID) -> Bool {
    rows.withLock { rows in
      guard let row = rows[user.key] else { return false }
      return row.version == version && row.isSettled
    }
  }
}

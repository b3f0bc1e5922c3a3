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

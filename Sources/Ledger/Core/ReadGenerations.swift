internal import Entitlements
internal import Synchronization

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

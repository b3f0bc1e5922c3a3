import Synchronization

/// How many bytes of request bodies may be in memory at once, over all connections.
///
/// A bound on each body alone is none: four hundred bodies of 2 MB are close to a gigabyte.
final class ByteBudget: Sendable {
  /// Guards the number of bytes lent out.
  private let used = Mutex(0)
  private let limit: Int

  init(limit: Int) { self.limit = limit }

  /// Bytes taken from the budget; they go back when this value is gone.
  final class Loan: Sendable {
    private let budget: ByteBudget
    /// Guards the size of this loan.
    private let bytes = Mutex(0)

    fileprivate init(_ budget: ByteBudget) { self.budget = budget }

    /// Takes more; `false` when the budget has not that many left.
    func extend(by more: Int) -> Bool {
      guard budget.take(more) else { return false }
      bytes.withLock { $0 += more }
      return true
    }

    deinit { budget.giveBack(bytes.withLock { $0 }) }
  }

  /// A loan of nothing yet.
  func loan() -> Loan { Loan(self) }

  var inUse: Int { used.withLock { $0 } }

  private func take(_ bytes: Int) -> Bool {
    used.withLock { used in
      guard bytes >= 0, used + bytes <= limit else { return false }
      used += bytes
      return true
    }
  }

  private func giveBack(_ bytes: Int) { used.withLock { $0 -= bytes } }
}

import Synchronization

/// How many bytes of request bodies may be in memory at once.
///
/// A bound on each body alone is none: four hundred bodies of 2 MB are close to a gigabyte. Nor is a bound on all of them,
/// for those who come second: one caller could hold it all. So no borrower gets more than a share, and a budget may be a part
/// of another.
package final class ByteBudget: Sendable {
  /// Why bytes are not lent.
  enum Shortage: Error, Hashable {
    /// The borrower has its share already.
    case share
    /// All borrowers together have all there is.
    case budget
  }

  private struct State {
    var used = 0
    /// By borrower; one who has nothing is not in it.
    var shares: [String: Int] = [:]
  }

  /// Guards what is lent out.
  private let state = Mutex(State())
  private let limit: Int
  private let share: Int
  /// What is lent here is lent of this budget too.
  private let whole: ByteBudget?

  /// - Parameter share: the most that one borrower may have.
  init(limit: Int, share: Int = .max, within whole: ByteBudget? = nil) {
    self.limit = limit
    self.share = share
    self.whole = whole
  }

  /// Bytes taken from the budget; they go back when this value is gone.
  package final class Loan: Sendable {
    private let budget: ByteBudget
    private let borrower: String?
    /// Guards the size of this loan.
    private let bytes = Mutex(0)

    fileprivate init(_ budget: ByteBudget, _ borrower: String?) {
      self.budget = budget
      self.borrower = borrower
    }

    /// Takes more, or throws and has as much as before.
    func extend(by more: Int) throws(Shortage) {
      try budget.take(more, for: borrower)
      bytes.withLock { $0 += more }
    }

    deinit { budget.giveBack(bytes.withLock { $0 }, of: borrower) }
  }

  /// A loan of nothing yet.
  ///
  /// - Parameter borrower: whose share it counts against; `nil` where nobody is known, and no share counts.
  func loan(to borrower: String? = nil) -> Loan { Loan(self, borrower) }

  var inUse: Int { state.withLock { $0.used } }

  private func take(_ bytes: Int, for borrower: String?) throws(Shortage) {
    let shortage: Shortage? = state.withLock { state in
      let own = borrower.map { state.shares[$0] ?? 0 } ?? 0
      if borrower != nil, bytes > share - own { return .share }
      guard bytes >= 0, bytes <= limit - state.used else { return .budget }
      state.used += bytes
      if let borrower, bytes > 0 { state.shares[borrower] = own + bytes }
      return nil
    }
    if let shortage { throw shortage }
    do throws(Shortage) { try whole?.take(bytes, for: nil) } catch {
      release(bytes, of: borrower)
      throw error
    }
  }

  private func giveBack(_ bytes: Int, of borrower: String?) {
    release(bytes, of: borrower)
    whole?.giveBack(bytes, of: nil)
  }

  private func release(_ bytes: Int, of borrower: String?) {
    state.withLock { state in
      state.used -= bytes
      guard let borrower, let own = state.shares[borrower] else { return }
      state.shares[borrower] = own > bytes ? own - bytes : nil
    }
  }
}

import Synchronization

/// A limit on the bytes of request bodies in memory.
///
/// A limit per body is not enough: four hundred bodies of 2 MB are close to a gigabyte. A limit on the total is not enough
/// either: one caller could use all of it. So each borrower has a share, of some budgets at most half of what the others leave,
/// and a budget may be part of another.
final class ByteBudget: Sendable {
  /// The reason why no bytes are lent.
  enum Shortage: Error, Hashable {
    /// The borrower has used its share.
    case share
    /// All borrowers together have used the budget.
    case budget
  }

  private struct State {
    var used = 0
    /// Bytes by borrower; a borrower without bytes has no entry.
    var shares: [String: Int] = [:]
  }

  /// The bytes that a borrower may have while there are any: most receipts have fewer.
  static let floor = 256 * 1024

  /// Guards the bytes lent.
  private let state = Mutex(State())
  private let limit: Int
  private let share: Int
  private let isHalved: Bool
  /// The budget that this one is part of: a loan counts against both.
  private let whole: ByteBudget?

  /// - Parameters:
  ///   - share: the most bytes of one borrower.
  ///   - isHalved: whether a borrower has at most half of what the others leave, so that a few of them leave something.
  init(limit: Int, share: Int = .max, isHalved: Bool = false, within whole: ByteBudget? = nil) {
    self.limit = limit
    self.share = share
    self.isHalved = isHalved
    self.whole = whole
  }

  /// Bytes taken from the budget; they return when the value is released.
  final class Loan: Sendable {
    private let budget: ByteBudget
    private let borrower: String?
    /// Guards the size of this loan.
    private let bytes = Mutex(0)

    fileprivate init(_ budget: ByteBudget, _ borrower: String?) {
      self.budget = budget
      self.borrower = borrower
    }

    /// Takes more bytes, or throws and changes nothing.
    func extend(by more: Int) throws(Shortage) {
      try budget.take(more, for: borrower)
      bytes.withLock { $0 += more }
    }

    deinit { budget.giveBack(bytes.withLock { $0 }, of: borrower) }
  }

  /// An empty loan.
  ///
  /// - Parameter borrower: the name of the share that it counts against; `nil` for none.
  func loan(to borrower: String? = nil) -> Loan { Loan(self, borrower) }

  var inUse: Int { state.withLock { $0.used } }

  private func take(_ bytes: Int, for borrower: String?) throws(Shortage) {
    let shortage: Shortage? = state.withLock { state in
      let own = borrower.map { state.shares[$0] ?? 0 } ?? 0
      if borrower != nil, bytes > share - own { return .share }
      guard bytes >= 0, bytes <= limit - state.used else { return .budget }
      if isHalved, borrower != nil, own + bytes > max(Self.floor, (limit - state.used + own) / 2) { return .budget }
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

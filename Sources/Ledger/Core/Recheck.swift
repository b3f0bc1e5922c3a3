package import Entitlements
import Resilience

package import struct FoundationEssentials.Date

/// A subscription due for a check with Apple.
package struct Recheck: Hashable, Sendable {
  package var key: SubscriptionKey
  package var owner: UserID
  package var receipt: KeptReceipt
  /// The check time that its state asked for.
  package var scheduledAt: Date
  /// When it was due.
  package var dueAt: Date
  /// Claims since then, this one included.
  package var attempts: Int
  /// When it is due again without an answer.
  package var dueAgainAt: Date
}

/// When claimed work is due again if it is not settled: the lease and the backoff in one.
///
///     claim      1      2      3      4       5       6     …  11 …  71 …
///     again in   2 min  4 min  8 min  16 min  32 min  1 h   …  24 h  30 d
///
/// A subscription that Apple still cannot report by then is one it has forgotten: a tester's purchases for instance.
enum RecheckSchedule {
  static let backoff = Backoff(base: .seconds(120), cap: .seconds(86_400))
  /// Claims, over two months, after which checks become rare.
  static let patience = 70
  static let seldom: Int64 = 30 * 86_400_000
  /// Milliseconds until a row that cannot be read is looked at again.
  static let unreadable: Int64 = 86_400_000
  /// Milliseconds over which checks scheduled for the same moment are spread.
  static let spread: UInt64 = 60_000

  /// Milliseconds until the next claim, by the number of claims before.
  static func delay(after attempts: Int) -> Int64 {
    attempts < patience ? backoff.ceiling(after: attempts).wholeMilliseconds : seldom
  }

  /// A subscription's fixed share of the spread, derived from its key by FNV-1a instead of a random number.
  static func offset(of key: SubscriptionKey) -> Int64 {
    let text = "\(key.environment.rawValue) \(key.originalTransactionID.rawValue)"
    let hash = text.utf8.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    return Int64(hash % spread)
  }
}

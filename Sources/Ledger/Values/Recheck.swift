package import Entitlements
import Resilience

package import struct FoundationEssentials.Date

/// A subscription that Apple has to be asked about again.
package struct Recheck: Hashable, Sendable {
  package var key: SubscriptionKey
  package var owner: UserID
  package var receipt: KeptReceipt
  /// When its state asked for it.
  package var scheduledAt: Date
  /// How often it was claimed since, this time included.
  package var attempts: Int
}

/// When work that was claimed is due again if nothing comes of it: the lease and the backoff in one.
///
///     claim      1      2      3      4       5       6     …  11 …  71 …
///     again in   2 min  4 min  8 min  16 min  32 min  1 h   …  24 h  30 d
///
/// What Apple does not know by then, it has forgotten: a tester's purchases for instance.
enum RecheckSchedule {
  static let backoff = Backoff(base: .seconds(120), cap: .seconds(86_400))
  /// Claims, of two months, after which it is asked seldom.
  static let patience = 70
  static let seldom: Int64 = 30 * 86_400_000
  /// Rechecks that were scheduled for the same moment are spread over so many milliseconds.
  static let spread: UInt64 = 60_000

  /// Milliseconds until the next claim of what was claimed so often before.
  static func delay(after attempts: Int) -> Int64 {
    attempts < patience ? backoff.ceiling(after: attempts).wholeMilliseconds : seldom
  }

  /// The part of the spread that a subscription always gets: its key decides, so that no chance is needed (FNV-1a).
  static func offset(of key: SubscriptionKey) -> Int64 {
    let text = "\(key.environment.rawValue) \(key.originalTransactionID.rawValue)"
    let hash = text.utf8.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    return Int64(hash % spread)
  }
}

import Entitlements
import Ledger
import Logging

import struct FoundationEssentials.Date

/// The job that asks Apple for extensions whose answer is not known, and for the status of those of a product.
struct ExtensionFollower: LeasedJob {
  static let width = 4
  static let pieces = "extensions of renewal dates"

  var extensions: RenewalExtensions
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var pacer: Pacer
  var deadline: Duration
  var isAway: @Sendable (StoreEnvironment) -> Bool
  var pause: Duration

  func claim(
    in environment: StoreEnvironment?, until lease: Date, limit: Int
  ) async throws(LedgerError) -> [ExtensionRecord] {
    try await ledger.claimExtensions(in: environment, dueAt: now(), until: lease, limit: limit)
  }

  func giveBack(_ records: [ExtensionRecord], claimedUntil lease: Date) async throws(LedgerError) {
    try await ledger.returnExtensions(records, claimedUntil: lease)
  }

  func follow(_ record: ExtensionRecord, claimedUntil lease: Date) async throws(LedgerError) -> Following {
    guard await pacer.turn(), now().advanced(by: deadline) < lease else { return .away }
    // A stop of the service does not break it off: Apple may have taken it by then.
    return try await Task { () async -> Result<Following, LedgerError> in
      do throws(LedgerError) { return .success(try await extensions.follow(record, logger: logger)) } catch {
        return .failure(error)
      }
    }.value.get()
  }
}

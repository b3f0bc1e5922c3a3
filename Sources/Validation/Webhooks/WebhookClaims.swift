import Entitlements
import Ledger
import Logging
import Synchronization

import struct FoundationEssentials.Date
import struct FoundationEssentials.UUID

/// The receivers to which this process delivers. Of several replicas one delivers to a receiver at a time, or the events of a user would
/// not be in order.
///
/// A claim ends by itself where the process is stopped, or cannot reach the ledger; another replica takes it up some
/// seconds later, as no two clocks are the same.
final class WebhookClaims: Sendable {
  private let ledger: Ledger
  private let names: [String]
  let holder = UUID().uuidString
  private let held = Mutex<(names: Set<String>, until: Date)>(([], .distantPast))

  /// Polls for events between two renewals of the claims.
  static let pollsPerRenewal = 10
  static let lease: Duration = .seconds(60)
  /// The largest difference between two replicas' clocks.
  static let skew: Duration = .seconds(10)

  init(ledger: Ledger, names: [String]) {
    self.ledger = ledger
    self.names = names
  }

  /// Whether a receiver is this process's for as long as one attempt takes.
  func holds(_ name: String, at now: Date, for duration: Duration) -> Bool {
    guard ledger.isShared else { return true }
    return held.withLock { $0.names.contains(name) && now.advanced(by: duration) < $0.until }
  }

  func renew(at now: Date, _ logger: Logger) async {
    let until = now.advanced(by: Self.lease)
    do throws(LedgerError) {
      let names = try await ledger.claimWebhooks(
        names, by: holder, overBefore: now.advanced(by: .zero - Self.skew), until: until)
      held.withLock { $0 = (names, until) }
    } catch {
      logger.warning("webhooks cannot be claimed", metadata: ["error": "\(error)"])
    }
  }

  /// Leaves the receivers to others at once.
  func release() async { try? await ledger.releaseWebhooks(of: holder) }
}

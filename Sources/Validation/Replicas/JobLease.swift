import Entitlements
import Ledger

import struct FoundationEssentials.Date
import struct FoundationEssentials.UUID

/// The right to a job that one replica at a time does. It ends by itself where that one is stopped, as claims of receivers do.
struct JobLease: Sendable {
  let ledger: Ledger
  /// A new one begins with `$`, as no receiver's name does.
  let name: String
  private let holder = UUID().uuidString

  /// Takes or renews it.
  ///
  /// - Returns: `false` while another replica has it, and where the ledger cannot say.
  func take(at now: Date) async -> Bool {
    guard ledger.isShared else { return true }
    let held = try? await ledger.claimWebhooks(
      [name], by: holder, overBefore: now.advanced(by: .zero - WebhookClaims.skew),
      until: now.advanced(by: WebhookClaims.lease))
    return held?.isEmpty == false
  }

  /// Leaves the job to others at once.
  func release() async { try? await ledger.releaseWebhooks(of: holder) }
}

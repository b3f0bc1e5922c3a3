import AppStore
import Entitlements

import struct FoundationEssentials.Date

/// What our own check says about a receipt.
enum LocalProof: Sendable {
  case verified(VerifiedAppReceipt)
  case refuted(NotAuthentic)
  /// A receipt that carries no chain to check: only Apple can tell. A signed transaction is refused before.
  case unavailable

  init(_ receipt: SubmittedReceipt, verifier: ReceiptVerifier, now: Date) {
    switch receipt.content {
    case .app(let appReceipt):
      do throws(NotAuthentic) { self = .verified(try verifier.verify(appReceipt, now: now)) } catch {
        self = .refuted(error)
      }
    case .transaction, .signedTransaction: self = .unavailable
    }
  }

  /// The receipt, where its signature proves it.
  var verified: VerifiedAppReceipt? {
    guard case .verified(let receipt) = self else { return nil }
    return receipt
  }

  /// The app, where the signature proves it.
  var bundleID: BundleID? {
    verified?.receipt.bundleID
  }
}

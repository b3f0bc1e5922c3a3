package import AppStore
import Entitlements

import struct FoundationEssentials.Date

/// The result of our own check of a receipt or a signed transaction.
///
/// Not held in place: it is large, and those who wait for Apple hold it several times.
package indirect enum LocalProof: Sendable {
  case verified(VerifiedAppReceipt)
  case signedTransaction(VerifiedTransaction)
  case refuted(NotAuthentic)
  /// A receipt that carries no chain to check: only Apple can tell.
  case unavailable

  init(_ receipt: SubmittedReceipt, verifier: ReceiptVerifier, signedData: SignedDataVerifier, now: Date) {
    switch receipt.content {
    case .app(let appReceipt):
      do throws(NotAuthentic) { self = .verified(try verifier.verify(appReceipt, now: now)) } catch {
        self = .refuted(error)
      }
    case .signedTransaction:
      do throws(SignedDataError) {
        self = .signedTransaction(try signedData.transaction(receipt.base64, now: now))
      } catch {
        switch error {
        case .notAuthentic(let reason): self = .refuted(reason)
        // Unreachable: the submission was decoded before.
        case .undecodable: self = .refuted(.uncheckable)
        }
      }
    case .transaction: self = .unavailable
    }
  }

  /// For whoever asks Apple. A check that could not be carried out proves nothing, nor does one by a clock that may be
  /// wrong.
  var check: SignatureCheck {
    switch self {
    case .verified, .signedTransaction: .passed
    case .refuted(.uncheckable), .refuted(.createdInFuture), .unavailable: .impossible
    case .refuted: .failed
    }
  }

  /// Whether a receipt may be kept for later when Apple was asked in vain. What is not proven here and got an answer that
  /// its own bytes may have provoked is worth no room on the disk; nor is what is refuted here, once Apple has said
  /// anything at all.
  func mayWait(after trouble: AppStoreTrouble.Outage) -> Bool {
    switch self {
    case .verified, .signedTransaction: true
    case .refuted: trouble.appleStatus == nil && !trouble.mayBeProvoked
    case .unavailable: !trouble.mayBeProvoked
    }
  }

  /// Whether Apple's signature is under it.
  var isVerified: Bool {
    switch self {
    case .verified, .signedTransaction: true
    case .refuted, .unavailable: false
    }
  }

  /// The evidence that the signature proves; `nil` where it proves none or names no store.
  func history(evaluatedAt now: Date) -> PurchaseHistory? {
    switch self {
    case .verified(let receipt): receipt.history(evaluatedAt: now)
    case .signedTransaction(let transaction): transaction.history()
    case .refuted, .unavailable: nil
    }
  }

  /// The app, where the signature proves it.
  var bundleID: BundleID? {
    switch self {
    case .verified(let receipt): receipt.receipt.bundleID
    case .signedTransaction(let transaction): transaction.transaction.bundleID
    case .refuted, .unavailable: nil
    }
  }

  /// Whether Xcode signed it, and the policy takes that.
  var isXcode: Bool {
    guard case .signedTransaction(let transaction) = self else { return false }
    return transaction.transaction.signedEnvironment.isLocal
  }
}

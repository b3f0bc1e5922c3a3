package import AppStore
import Entitlements

import struct FoundationEssentials.Date

/// The result of our own check of a receipt or a signed transaction.
///
/// Indirect, as it is large, and requests that wait for Apple hold it several times.
package indirect enum LocalProof: Sendable {
  case verified(VerifiedAppReceipt)
  case signedTransaction(VerifiedTransaction)
  case appTransaction(VerifiedAppTransaction)
  case refuted(NotAuthentic)
  /// A receipt without a chain to check: only Apple can tell.
  case unavailable

  init(_ receipt: SubmittedReceipt, verifier: ReceiptVerifier, signedData: SignedDataVerifier, now: Date) {
    switch receipt.content {
    case .app(let appReceipt):
      do throws(NotAuthentic) { self = .verified(try verifier.verify(appReceipt, now: now)) } catch {
        self = .refuted(error)
      }
    case .signedTransaction, .appTransaction:
      do throws(SignedDataError) {
        if case .appTransaction = receipt.content {
          self = .appTransaction(try signedData.appTransaction(receipt.base64, now: now))
        } else {
          self = .signedTransaction(try signedData.transaction(receipt.base64, now: now))
        }
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

  /// The result for the question to Apple. A check that was not possible proves nothing, and neither does one by a
  /// clock that may be wrong.
  var check: SignatureCheck {
    switch self {
    case .verified, .signedTransaction, .appTransaction: .passed
    case .refuted(.uncheckable), .refuted(.createdInFuture), .unavailable: .impossible
    case .refuted: .failed
    }
  }

  /// Whether a receipt may be kept until Apple can be asked. An unproven one is not worth the disk space if its own
  /// bytes may have caused the failure; nor is a refuted one, once Apple has answered at all.
  func mayWait(after cause: AppStoreError) -> Bool {
    switch self {
    case .verified, .signedTransaction, .appTransaction: true
    case .refuted: cause.appleStatus == nil && !cause.mayBeProvoked
    case .unavailable: !cause.mayBeProvoked
    }
  }

  /// The evidence of the signature; `nil` if it proves none or names no store.
  func history(evaluatedAt now: Date) -> PurchaseHistory? {
    switch self {
    case .verified(let receipt): receipt.history(evaluatedAt: now)
    case .signedTransaction(let transaction): transaction.history()
    case .appTransaction(let transaction): transaction.history()
    case .refuted, .unavailable: nil
    }
  }

  /// The app; `nil` if the signature does not prove it.
  var bundleID: BundleID? {
    switch self {
    case .verified(let receipt): receipt.receipt.bundleID
    case .signedTransaction(let transaction): transaction.payload.bundleID
    case .appTransaction(let transaction): transaction.payload.bundleID
    case .refuted, .unavailable: nil
    }
  }

  /// Whether Xcode signed it, and the policy accepts that.
  var isXcode: Bool {
    guard case .signedTransaction(let transaction) = self else { return false }
    return transaction.payload.signedEnvironment.isLocal
  }
}

import AppStore
import Entitlements

/// Apple's statement about a customer, from whichever source.
package struct AppleAnswer: Sendable {
  var history: PurchaseHistory
  /// As Apple names it; `nil` where the answer does not say.
  var bundleID: BundleID?
  /// Apple's number of the app; `nil` where the answer does not say.
  var appAppleID: Int64?
  /// `status` of verifyReceipt; `nil` where it was not asked.
  var appleStatus: Int?
  /// Signed transactions of the answer, by purchase: what to keep of one of which there is no receipt.
  var proofs: [OriginalTransactionID: String] = [:]
}

extension AppleAnswer {
  init(_ answer: VerifyReceiptAnswer) {
    self.init(history: answer.history, bundleID: answer.bundleID, appleStatus: answer.appleStatus)
  }

  init(_ answer: ServerAPIAnswer) {
    self.init(
      history: answer.history, bundleID: answer.bundleID, appAppleID: answer.appAppleID,
      proofs: answer.signedTransactions)
  }
}

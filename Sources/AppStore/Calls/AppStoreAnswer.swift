package import Entitlements

/// Apple's statement about a customer's purchases, from verifyReceipt or the App Store Server API. Everything in an
/// answer of the latter was signed, and is verified.
package struct AppStoreAnswer: Hashable, Sendable {
  package var history: PurchaseHistory
  /// The app as Apple names it; `nil` if the answer does not say.
  package var bundleID: BundleID?
  /// Apple's number of the app; `nil` if the answer does not say. The sandbox often does not.
  package var appAppleID: Int64?
  /// The status of verifyReceipt; `nil` if it was not asked.
  package var appleStatus: AppleStatus?
  /// The purchases of the receipt as Apple decoded it, where `history` leaves out those that newer ones have replaced.
  package var receiptPurchases: [Purchase] = []
  /// The newest signed transaction of each purchase, to be kept as the proof. Only the Server API sends them.
  package var signedTransactions: [OriginalTransactionID: String]
  /// verifyReceipt's answer as Apple sent it, where it was asked for: see `VerifyReceiptDetail`.
  package var bytes: [UInt8]?

  package init(
    history: PurchaseHistory, bundleID: BundleID? = nil, appAppleID: Int64? = nil, appleStatus: AppleStatus? = nil,
    signedTransactions: [OriginalTransactionID: String] = [:]
  ) {
    self.history = history
    self.bundleID = bundleID
    self.appAppleID = appAppleID
    self.appleStatus = appleStatus
    self.signedTransactions = signedTransactions
  }
}

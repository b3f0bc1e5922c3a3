import AppStore
package import Entitlements

extension SubmittedReceipt {
  /// The purchases that the receipt itself lists. Nothing vouches for them yet.
  package var purchases: [Purchase] {
    switch content {
    case .app(let receipt): receipt.purchases
    case .transaction(let receipt): [receipt.purchase]
    case .signedTransaction(let transaction): [transaction.purchase]
    }
  }

  /// The app that the receipt itself names. Nothing vouches for it yet.
  var claimedBundleID: BundleID {
    switch content {
    case .app(let receipt): receipt.bundleID
    case .transaction(let receipt): receipt.bundleID
    case .signedTransaction(let transaction): transaction.bundleID
    }
  }
}

import AppStore
package import Entitlements

extension SubmittedReceipt {
  /// The purchases in the receipt, unproven.
  package var purchases: [Purchase] {
    switch content {
    case .app(let receipt): receipt.purchases
    case .transaction(let receipt): [receipt.purchase]
    case .signedTransaction(let transaction): [transaction.purchase]
    case .appTransaction: []
    }
  }

  /// The app in the receipt, unproven.
  package var claimedBundleID: BundleID {
    switch content {
    case .app(let receipt): receipt.bundleID
    case .transaction(let receipt): receipt.bundleID
    case .signedTransaction(let transaction): transaction.bundleID
    case .appTransaction(let transaction): transaction.bundleID
    }
  }

  /// Whether it is signed data of StoreKit 2, and no receipt.
  var isSignedData: Bool {
    switch content {
    case .signedTransaction, .appTransaction: true
    case .app, .transaction: false
    }
  }
}

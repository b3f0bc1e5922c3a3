import AppStore
package import Entitlements

extension String {
  /// The octets of a signed transaction's header, which has Apple's certificates (RFC 7515, section 4.1.6) and is the same
  /// in all of them; `nil` for a receipt in base64. What is asked has been verified.
  var rangeOfJWSHeader: Range<Int>? {
    utf8.firstIndex(of: UInt8(ascii: ".")).map { 0..<utf8.distance(from: utf8.startIndex, to: $0) }
  }
}

extension SubmittedReceipt {
  /// The purchases in the receipt, unproven.
  package var purchases: [Purchase] {
    switch content {
    case .app(let receipt): receipt.purchases
    case .transaction(let receipt): [receipt.purchase]
    case .signedTransaction(let transaction): [transaction.purchase]
    }
  }

  /// The app in the receipt, unproven.
  package var claimedBundleID: BundleID {
    switch content {
    case .app(let receipt): receipt.bundleID
    case .transaction(let receipt): receipt.bundleID
    case .signedTransaction(let transaction): transaction.bundleID
    }
  }
}

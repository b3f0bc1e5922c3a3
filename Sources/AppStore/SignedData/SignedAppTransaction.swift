package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// The payload of a StoreKit 2 AppTransaction, decoded: that a customer has the app, and since which version. It is **not
/// proven yet**: see `SignedDataVerifier`.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwsapptransactiondecodedpayload
package struct SignedAppTransaction: SignedContent {
  package var bundleID: BundleID
  /// `receiptType` as sent: `Production`, `Sandbox`, `Xcode`.
  var environmentName: String?
  /// `receiptCreationDate`: the date of the signature, at which the certificates have to be valid.
  package var signedDate: Date
  package var originalPurchase: OriginalPurchase

  package var signedEnvironment: SignedEnvironment { SignedEnvironment(name: environmentName) }

  /// - Throws: `JSONError` if the app or the date is missing, and for an unreadable value.
  init(_ payload: JSONValue) throws(JSONError) {
    bundleID = BundleID(try payload.required("bundleId"))
    environmentName = try payload.text("receiptType")
    signedDate = try payload.requiredMoment("receiptCreationDate")
    let id = try payload.text("appTransactionId")
    // It becomes a key: digits, as Apple writes them.
    if let id, id.utf8.count > 32 || !id.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      throw payload.unreadable("appTransactionId")
    }
    originalPurchase = OriginalPurchase(
      version: try payload.text("originalApplicationVersion"), date: try payload.moment("originalPurchaseDate"),
      appTransactionID: id, signedAt: signedDate)
  }
}

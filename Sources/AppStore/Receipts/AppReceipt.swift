package import Entitlements
import struct FoundationEssentials.Date

/// An app receipt (PKCS#7, iOS 7 and later), decoded. It is **not proven yet**: see `ReceiptVerifier`.
///
/// Fields and their numbers: https://developer.apple.com/library/archive/releasenotes/General/ValidateAppStoreReceipt/
/// and, for the undocumented ones, comparison with Apple's own answers for the same receipts.
package struct AppReceipt: Hashable, Sendable {
  /// The submitted bytes, in DER or BER.
  package let encoded: [UInt8]
  /// Attribute 0, as sent: `Production`, `ProductionVPP`, `ProductionSandbox`, `ProductionVPPSandbox`, `Xcode`.
  let receiptType: String?
  /// Attribute 2.
  package let bundleID: BundleID
  /// Attribute 3.
  let applicationVersion: String?
  /// Attribute 19: the first version that the customer had; "1.0" in the sandbox.
  let originalApplicationVersion: String?
  /// Attribute 18: when the customer had the app first; a day in 2013 in the sandbox. One that cannot be read counts as
  /// missing.
  let originalPurchaseDate: Date?
  /// Attribute 12: the date of the signature, at which the certificates have to be valid.
  let createdAt: Date
  /// Attribute 21: volume purchases only.
  let expiresAt: Date?
  /// Attribute 17. The order means nothing.
  let transactions: [InAppTransaction]
  /// The certificate that the signature names, if the receipt carries it. Anybody can put one there.
  let claimedSigner: ReceiptSigner?

  /// The issuing store; `nil` for Xcode and unknown types.
  package var environment: StoreEnvironment? { StoreEnvironment(receiptType: receiptType) }

  /// The customer's first download of the app; `nil` if the receipt does not tell of it.
  var originalPurchase: OriginalPurchase? {
    guard originalApplicationVersion != nil || originalPurchaseDate != nil else { return nil }
    return OriginalPurchase(version: originalApplicationVersion, date: originalPurchaseDate, signedAt: createdAt)
  }

  /// Whether Xcode's StoreKit testing made it, and not Apple.
  var isFromXcode: Bool { receiptType == "Xcode" || claimedSigner?.isStoreKitTesting == true }

  /// The transactions for the rules.
  ///
  /// A receipt has no upgrades, no ownership and nothing that happened after its signature.
  package var purchases: [Purchase] { transactions.map(\.purchase) }
}

package struct InAppTransaction: Hashable, Sendable {
  /// Attribute 1701.
  let quantity: Int64?
  /// Attribute 1702.
  let productID: ProductID
  /// Attribute 1703. Xcode writes "0".
  let transactionID: TransactionID
  /// Attribute 1705. Xcode leaves it out.
  let originalTransactionID: OriginalTransactionID?
  /// Attribute 1704.
  let purchaseDate: Date?
  /// Attribute 1706.
  let originalPurchaseDate: Date?
  /// Attribute 1708; missing if it does not renew.
  let expiresDate: Date?
  /// Attribute 1712.
  let cancellationDate: Date?
  /// Attribute 1711; 0 if it does not renew.
  let webOrderLineItemID: Int64?
  /// Attribute 1707, as sent: 0 non-consumable, 1 consumable, 2 non-renewing, 3 auto-renewable, 4 free subscription.
  let productType: Int64?
  /// Attribute 1713.
  let isTrial: Bool?
  /// Attribute 1719.
  let isIntroductoryOffer: Bool?
  /// Attribute 1721.
  let promotionalOfferID: String?

  package var purchase: Purchase {
    Purchase(
      productID: productID,
      transactionID: transactionID,
      originalTransactionID: originalTransactionID ?? OriginalTransactionID(transactionID.rawValue),
      webOrderLineItemID: webOrderLineItemID.flatMap { $0 == 0 ? nil : String($0) },
      purchaseDate: Purchase.date(purchaseDate, originally: originalPurchaseDate, until: expiresDate),
      expiresDate: expiresDate,
      cancellationDate: cancellationDate,
      isTrial: isTrial ?? false,
      isIntroductoryOffer: isIntroductoryOffer ?? false)
  }
}

package struct ReceiptSigner: Hashable, Sendable {
  /// The name in the form of RFC 2253.
  let subject: String
  let issuer: String
  let commonName: String?
  /// Hexadecimal, lower case, without leading zeros.
  let serialNumber: String
  let notBefore: Date?
  let notAfter: Date?
  /// The digest of the signature: `sha1`, `sha256`, or another by name.
  package let digest: String

  init(_ certificate: Certificate, digest: String) {
    subject = certificate.subject
    issuer = certificate.issuer
    commonName = certificate.commonName
    serialNumber = certificate.serialNumber
    notBefore = certificate.notBefore
    notAfter = certificate.notAfter
    self.digest = digest
  }

  var isStoreKitTesting: Bool { commonName == "StoreKit" || commonName?.hasPrefix("StoreKit Testing") == true }
}

package import Entitlements
package import struct FoundationEssentials.Date

/// An app receipt (PKCS#7, iOS 7 and later), decoded. What it says is **not yet proven**: `ReceiptVerifier` does that.
///
/// Fields and their numbers: https://developer.apple.com/library/archive/releasenotes/General/ValidateAppStoreReceipt/
/// and, for the undocumented ones, comparison with Apple's own answers for the same receipts.
package struct AppReceipt: Hashable, Sendable {
  /// The bytes that were sent, in DER or BER.
  package let encoded: [UInt8]
  /// Attribute 0, as sent: `Production`, `ProductionVPP`, `ProductionSandbox`, `ProductionVPPSandbox`, `Xcode`.
  package let receiptType: String?
  /// Attribute 2.
  package let bundleID: BundleID
  /// The value of attribute 2 as octets, DER header included: what the device hash is computed over.
  package let rawBundleID: [UInt8]
  /// Attribute 3.
  package let applicationVersion: String?
  /// Attribute 19: the version that was bought first; "1.0" in the sandbox.
  package let originalApplicationVersion: String?
  /// Attribute 12: when Apple signed it. Certificates are judged at this moment.
  package let createdAt: Date
  /// Attribute 18.
  package let originalPurchaseDate: Date?
  /// Attribute 21: volume purchases only.
  package let expiresAt: Date?
  /// Attribute 4.
  package let opaqueValue: [UInt8]
  /// Attribute 5: SHA-1 over device identifier, opaque value and `rawBundleID`.
  package let sha1Hash: [UInt8]
  /// Attribute 1; 0 in the sandbox.
  package let adamID: Int64?
  /// Attribute 15. Up to 18 digits.
  package let downloadID: Int64?
  /// Attribute 16.
  package let versionExternalIdentifier: Int64?
  /// Attribute 17, in the order of the receipt, which means nothing.
  package let transactions: [InAppTransaction]
  /// The certificate that the signature names, if the receipt carries it. Anybody can put one there.
  package let claimedSigner: ReceiptSigner?

  /// The store that it was issued by; `nil` for Xcode's and for types that are not known.
  package var environment: StoreEnvironment? {
    switch receiptType {
    case "Production", "ProductionVPP": .production
    case "ProductionSandbox", "ProductionVPPSandbox": .sandbox
    default: nil
    }
  }

  /// Made by Xcode's StoreKit testing, not by Apple.
  package var isFromXcode: Bool {
    receiptType == "Xcode" || claimedSigner?.isStoreKitTesting == true
  }

  /// The transactions as the rules take them.
  ///
  /// A receipt does not know upgrades, ownership or what happened after it was signed.
  package var purchases: [Purchase] { transactions.map(\.purchase) }
}

/// One purchase or renewal within an app receipt.
package struct InAppTransaction: Hashable, Sendable {
  /// Attribute 1701.
  package let quantity: Int64?
  /// Attribute 1702.
  package let productID: ProductID
  /// Attribute 1703. Xcode writes "0".
  package let transactionID: TransactionID
  /// Attribute 1705. Xcode leaves it out.
  package let originalTransactionID: OriginalTransactionID?
  /// Attribute 1704.
  package let purchaseDate: Date?
  /// Attribute 1706.
  package let originalPurchaseDate: Date?
  /// Attribute 1708; absent for what does not renew.
  package let expiresDate: Date?
  /// Attribute 1712.
  package let cancellationDate: Date?
  /// Attribute 1711; 0 for what does not renew.
  package let webOrderLineItemID: Int64?
  /// Attribute 1707, as sent: 0 non-consumable, 1 consumable, 2 non-renewing, 3 auto-renewable, 4 free subscription.
  package let productType: Int64?
  /// Attribute 1713.
  package let isTrial: Bool?
  /// Attribute 1719.
  package let isIntroductoryOffer: Bool?
  /// Attribute 1721.
  package let promotionalOfferID: String?

  package var purchase: Purchase {
    Purchase(
      productID: productID,
      transactionID: transactionID,
      originalTransactionID: originalTransactionID ?? OriginalTransactionID(transactionID.rawValue),
      webOrderLineItemID: webOrderLineItemID.flatMap { $0 == 0 ? nil : String($0) },
      purchaseDate: purchaseDate,
      expiresDate: expiresDate,
      cancellationDate: cancellationDate,
      isTrial: isTrial ?? false,
      isIntroductoryOffer: isIntroductoryOffer ?? false)
  }
}

/// What a certificate that signs receipts says about itself.
package struct ReceiptSigner: Hashable, Sendable {
  /// As RFC 2253 writes names.
  package let subject: String
  package let issuer: String
  package let commonName: String?
  /// Hexadecimal, lower case, without leading zeros.
  package let serialNumber: String
  package let notBefore: Date?
  package let notAfter: Date?
  /// The digest that the signature is made with: `sha1`, `sha256`, or another by name.
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

  /// Xcode signs with a certificate of its own of this name.
  var isStoreKitTesting: Bool { commonName == "StoreKit" || commonName?.hasPrefix("StoreKit Testing") == true }
}

package import Entitlements
import FoundationEssentials

/// A receipt of one transaction, iOS 6 style (`SKPaymentTransaction.transactionReceipt`), decoded.
///
/// It can **never be proven here**: it carries the certificate that signed it, but not that certificate's issuer. Only
/// Apple can tell whether it is authentic.
package struct TransactionReceipt: Hashable, Sendable {
  /// `bid`.
  package let bundleID: BundleID
  let productID: ProductID
  let transactionID: TransactionID
  let originalTransactionID: OriginalTransactionID?
  let quantity: Int64?
  let webOrderLineItemID: String?
  let purchaseDate: Date?
  let originalPurchaseDate: Date?
  let expiresDate: Date?
  let cancellationDate: Date?
  let isTrial: Bool
  let isIntroductoryOffer: Bool
  /// The key `environment`, as sent. It is **outside** the signature: anybody can add, change or remove it.
  let claimedEnvironment: String?
  package let signer: ReceiptSigner?
  /// Whether the signature fits the content and the certificate next to it. This finds damage, but proves **no**
  /// authenticity.
  let signatureMatchesEmbeddedCertificate: Bool

  package var purchase: Purchase {
    Purchase(
      productID: productID,
      transactionID: transactionID,
      originalTransactionID: originalTransactionID ?? OriginalTransactionID(transactionID.rawValue),
      webOrderLineItemID: webOrderLineItemID,
      purchaseDate: purchaseDate,
      expiresDate: expiresDate,
      cancellationDate: cancellationDate,
      isTrial: isTrial,
      isIntroductoryOffer: isIntroductoryOffer)
  }
}

extension TransactionReceipt {
  /// - Throws: `UndecodableReceipt` if the property list or a field in it is unreadable.
  package static func decode(_ bytes: [UInt8]) throws(UndecodableReceipt) -> TransactionReceipt {
    let outer = try Fields(bytes, of: "receipt")
    guard let information = try outer.data("purchase-info") else { throw .incomplete("its purchase-info") }
    guard let signature = try outer.data("signature") else { throw .incomplete("its signature") }
    return try TransactionReceipt(
      Fields(information, of: "purchase-info"), claimedEnvironment: outer.text("environment"),
      signature: TransactionSignature(signature, over: information))
  }

  private init(
    _ fields: Fields, claimedEnvironment: String?, signature: TransactionSignature
  ) throws(UndecodableReceipt) {
    guard let bundleID = fields.text("bid") else { throw .incomplete("a bundle ID (bid)") }
    guard let productID = fields.text("product-id") else { throw .incomplete("a product ID (product-id)") }
    guard let transactionID = fields.text("transaction-id") else { throw .incomplete("a transaction ID") }
    self.init(
      bundleID: BundleID(bundleID),
      productID: ProductID(productID),
      transactionID: TransactionID(transactionID),
      originalTransactionID: fields.text("original-transaction-id").map { OriginalTransactionID($0) },
      quantity: try fields.integer("quantity"),
      webOrderLineItemID: fields.text("web-order-line-item-id"),
      purchaseDate: try fields.date("purchase-date-ms", orText: "purchase-date"),
      originalPurchaseDate: try fields.date("original-purchase-date-ms", orText: "original-purchase-date"),
      // Here expires-date is in milliseconds; the text has a name of its own.
      expiresDate: try fields.date("expires-date", orText: "expires-date-formatted"),
      cancellationDate: try fields.date("cancellation-date-ms", orText: "cancellation-date"),
      isTrial: try fields.flag("is-trial-period"),
      isIntroductoryOffer: try fields.flag("is-in-intro-offer-period"),
      claimedEnvironment: claimedEnvironment,
      signer: signature.signer,
      signatureMatchesEmbeddedCertificate: signature.matchesEmbeddedCertificate)
  }

  private struct Fields {
    private let values: [String: String]

    init(_ bytes: [UInt8], of name: String) throws(UndecodableReceipt) {
      do {
        values = try PropertyList.parse(bytes)
      } catch {
        throw .malformed("its \(name) is not a readable property list")
      }
    }

    /// `nil` when absent or empty.
    func text(_ key: String) -> String? { values[key].flatMap { $0.isEmpty ? nil : $0 } }

    func data(_ key: String) throws(UndecodableReceipt) -> [UInt8]? {
      guard let text = text(key) else { return nil }
      guard let data = Data(base64Encoded: text) else { throw .malformed("\(key) is not base64") }
      return [UInt8](data)
    }

    func integer(_ key: String) throws(UndecodableReceipt) -> Int64? {
      guard let text = text(key) else { return nil }
      guard let value = Int64(text) else { throw .malformed("\(key) is not a readable number") }
      return value
    }

    func flag(_ key: String) throws(UndecodableReceipt) -> Bool {
      switch text(key) {
      case nil, "false", "0": false
      case "true", "1": true
      default: throw .malformed("\(key) is neither true nor false")
      }
    }

    /// Milliseconds since 1970 where they are given, else the text form; an error if the member cannot be read.
    func date(_ key: String, orText textKey: String) throws(UndecodableReceipt) -> Date? {
      if let milliseconds = try integer(key) {
        guard Date.spellable.contains(milliseconds) else { throw .malformed("\(key) is not a readable date") }
        return Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
      }
      guard let text = text(textKey) else { return nil }
      guard let date = ReceiptDate.parse(etcGMT: text) else { throw .malformed("\(textKey) is not a readable date") }
      return date
    }
  }
}

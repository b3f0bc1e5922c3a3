import Entitlements
import FoundationEssentials
import Testing

@testable import AppStore

@Suite("iOS 6-style receipts")
struct TransactionReceiptTests {
  private static let information = """
    {
    \t"bid" = "com.example.app";
    \t"product-id" = "com.example.app.pro.monthly";
    \t"transaction-id" = "1000000181298734";
    \t"original-transaction-id" = "1000000180636226";
    \t"purchase-date-ms" = "1447821281000";
    \t"original-purchase-date" = "2015-11-17 16:34:41 Etc/GMT";
    \t"expires-date" = "1448346881000";
    \t"expires-date-formatted" = "2015-11-24 06:34:41 Etc/GMT";
    \t"web-order-line-item-id" = "1000000030938713";
    \t"quantity" = "1";
    }
    """

  /// A blob of version 3 (RSA with 2,048 bits) over `information`.
  private func blob(over information: String, version: UInt8 = 3) throws -> [UInt8] {
    let pki = try TestPKI()
    let signature = try pki.leafKey.sign([version] + Array(information.utf8), .sha1)
    let length = UInt32(pki.leaf.count)
    return [version] + signature + (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * UInt32($0))) } + pki.leaf
  }

  private func text(
    _ information: String = TransactionReceiptTests.information, blob: [UInt8]? = nil, environment: String? = "Sandbox"
  ) throws -> String {
    let blob = try blob ?? self.blob(over: information)
    let signature = Data(blob).base64EncodedString()
    let inner = Data(information.utf8).base64EncodedString()
    let key = environment.map { "\t\"environment\" = \"\($0)\";\n" } ?? ""
    return "{\n\t\"signature\" = \"\(signature)\";\n\t\"purchase-info\" = \"\(inner)\";\n\(key)\t\"pod\" = \"100\";\n}"
  }

  private func decode(_ text: String) throws -> TransactionReceipt {
    let submitted = try SubmittedReceipt.decode(Data(text.utf8).base64EncodedString())
    guard case .transaction(let receipt) = submitted.content else { throw TestKey.Failure() }
    return receipt
  }

  @Test func `the fields of an iOS 6-style receipt are read`() throws {
    let receipt = try decode(text())
    #expect(receipt.claimedEnvironment == "Sandbox")
    #expect(receipt.quantity == 1)
    #expect(receipt.originalPurchaseDate == Date(timeIntervalSince1970: 1_447_778_081))
    #expect(receipt.signatureMatchesEmbeddedCertificate)
    #expect(receipt.signer?.subject == "CN=Receipt Signing")
    #expect(receipt.bundleID == "com.example.app")
    #expect(
      receipt.purchase
        == Purchase(
          productID: "com.example.app.pro.monthly", transactionID: "1000000181298734",
          originalTransactionID: "1000000180636226", webOrderLineItemID: "1000000030938713",
          purchaseDate: Date(timeIntervalSince1970: 1_447_821_281),
          expiresDate: Date(timeIntervalSince1970: 1_448_346_881)))
  }

  @Test func `a file may hold the property list itself`() throws {
    let text = try text()
    let submitted = try SubmittedReceipt.decode(contents: Array(text.utf8))
    #expect(submitted.base64 == Data(text.utf8).base64EncodedString())
  }

  @Test func `content that was changed does not fit the signature`() throws {
    let changed = Self.information.replacing("1448346881000", with: "1948346881000")
    let receipt = try decode(text(changed, blob: blob(over: Self.information)))
    #expect(!receipt.signatureMatchesEmbeddedCertificate)
  }

  @Test func `the environment stands outside the signature`() throws {
    let receipt = try decode(text(environment: nil))
    #expect(receipt.claimedEnvironment == nil)
    #expect(receipt.signatureMatchesEmbeddedCertificate)
  }

  @Test func `a signature of an unknown version is left to Apple`() throws {
    let receipt = try decode(text(blob: [9, 1, 2, 3]))
    #expect(receipt.signer == nil)
    #expect(!receipt.signatureMatchesEmbeddedCertificate)
  }

  @Test func `a signature that is cut short, or goes on, is damage`() throws {
    let whole = try blob(over: Self.information)
    let version2 = [2] + Array(whole.dropFirst())
    for blob in [[3], Array(whole.prefix(257)), Array(whole.prefix(300)), whole + [0], version2] {
      #expect(throws: UndecodableReceipt.self) { try decode(text(blob: blob)) }
    }
  }

  @Test(arguments: [
    ("\"bid\" = \"com.example.app\";", ""), ("\"product-id\" = \"com.example.app.pro.monthly\";", ""),
    ("\"transaction-id\" = \"1000000181298734\";", ""), ("\"1447821281000\"", "\"yesterday\""),
    ("\"2015-11-17 16:34:41 Etc/GMT\"", "\"2015-11-17\""), ("\"1448346881000\"", "\"99999999999999999\""),
    ("\"1447821281000\"", "\"-9223372036854775808\""),
    ("\"quantity\" = \"1\"", "\"cancellation-date\" = \"soon\""),
    ("\"quantity\" = \"1\"", "\"is-trial-period\" = \"maybe\""),
  ])
  func `a field that is needed and missing, or there and unreadable, is damage`(part: String, replacement: String)
    throws
  {
    let information = Self.information.replacing(part, with: replacement)
    #expect(information != Self.information)
    #expect(throws: UndecodableReceipt.self) { try decode(text(information)) }
  }

  @Test func `a cancellation is read, and an empty one is absent`() throws {
    let cancelled = Self.information.replacing(
      "\"quantity\" = \"1\"", with: "\"cancellation-date\" = \"2015-11-18 04:34:41 Etc/GMT\"")
    #expect(try decode(text(cancelled)).cancellationDate == Date(timeIntervalSince1970: 1_447_821_281))
    let empty = Self.information.replacing("\"quantity\" = \"1\"", with: "\"cancellation-date\" = \"\"")
    #expect(try decode(text(empty)).cancellationDate == nil)
  }

  @Test(arguments: ["signature", "purchase-info"])
  func `a receipt without signature or content is damage`(key: String) throws {
    #expect(throws: UndecodableReceipt.self) { try decode(text().replacing("\"\(key)\"", with: "\"other\"")) }
  }
}

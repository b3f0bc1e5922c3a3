import Foundation
import Testing

@testable import AppStore

@Suite("Inspection")
struct ReceiptInspectionTests {
  private static let now = Date(timeIntervalSince1970: 1_718_453_400)

  private func object(_ inspection: ReceiptInspection) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(inspection.json().utf8)) as? [String: Any])
  }

  @Test func `an authentic receipt is reported in full`() throws {
    let pki = try TestPKI()
    let bytes = try TestReceipt(pki).bytes()
    let inspection = try ReceiptInspection(of: bytes, roots: pki.roots(), now: Self.now)
    #expect(inspection.outcome == .authentic)
    #expect(inspection.outcome.rawValue == 0)
    let report = try object(inspection)
    #expect(report["kind"] as? String == "app_receipt")
    #expect(report["authentic"] as? Bool == true)
    #expect(report["problem"] is NSNull)
    #expect(report["bundle_id"] as? String == "com.example.app")
    #expect(report["environment"] as? String == "production")
    #expect(report["created_at"] as? String == "2024-06-15T12:00:00Z")
    #expect(report["sha256"] as? String == ReceiptFingerprint(of: bytes).hex)
    #expect(report["repairs"] as? [String] == [])
    let signer = try #require(report["signer"] as? [String: Any])
    #expect(signer["subject"] as? String == "CN=Receipt Signing")
    #expect(signer["serial_number"] as? String == "123456789abc")
    #expect(signer["not_after"] as? String == "2026-01-01T00:00:00Z")
    let row = try #require((report["transactions"] as? [[String: Any]])?.first)
    #expect(row["product_id"] as? String == "com.example.app.pro.monthly")
    #expect(row["expires_date"] as? String == "2024-07-14T10:00:00Z")
    #expect(row["cancellation_date"] is NSNull)
    #expect(row["web_order_line_item_id"] as? String == "2000000123357229")
    #expect(inspection.text().hasPrefix("AUTHENTIC"))
    #expect(inspection.text().contains("com.example.app.pro.monthly"))
  }

  @Test func `a receipt under another root is reported with the problem, and still decoded`() throws {
    let bytes = try TestReceipt(TestPKI()).bytes()
    let inspection = ReceiptInspection(of: bytes, now: Self.now)
    #expect(inspection.outcome.rawValue == 1)
    let report = try object(inspection)
    #expect(report["authentic"] as? Bool == false)
    #expect(report["problem"] as? String == NotAuthentic.untrustedRoot.description)
    #expect(report["bundle_id"] as? String == "com.example.app")
    #expect(inspection.text().hasPrefix("NOT AUTHENTIC"))
  }

  @Test(arguments: ["receipt_data", "receipt-data"])
  func `the body of a request is the receipt in it`(member: String) throws {
    let pki = try TestPKI()
    let bytes = try TestReceipt(pki).bytes()
    let body = "{\"user_id\": \"u\", \"\(member)\": \"\(Data(bytes).base64EncodedString())\"}\n"
    let inspection = try ReceiptInspection(of: Array(body.utf8), roots: pki.roots(), now: Self.now)
    #expect(inspection.outcome == .authentic)
    #expect(try object(inspection)["sha256"] as? String == ReceiptFingerprint(of: bytes).hex)
    let signed = Array(#"{"\#(member)": "eyJhbGciOiJFUzI1NiJ9.eyJ0cmFuc2FjdGlvbklkIjoiMSJ9.c2ln"}"#.utf8)
    #expect(try object(ReceiptInspection(of: signed, now: Self.now))["kind"] as? String == "signed_data")
    let number = Array("{\"\(member)\": 7}".utf8)
    #expect(try object(ReceiptInspection(of: number, now: Self.now))["kind"] as? String == "json")
  }

  @Test func `bytes that are no receipt are called that, and nothing is guessed`() throws {
    for bytes: [UInt8] in [[0x9f, 0x20, 0x03, 0xff, 0x41], [0x41, 0x20, 0x00, 0x42], [0xc3, 0x28, 0x20]] {
      let report = try object(ReceiptInspection(of: bytes, now: Self.now))
      #expect(report["kind"] as? String == "not_base64")
      #expect((report["problem"] as? String)?.hasPrefix("These bytes are neither a receipt nor text") == true)
    }
    let words = try object(ReceiptInspection(of: Array("zürich is no receipt".utf8), now: Self.now))
    #expect((words["problem"] as? String)?.hasPrefix("This is not base64") == true)
  }

  @Test func `a file that is no receipt is reported as what it is`() throws {
    let cases = [
      ("eyJhbGciOiJFUzI1NiJ9.eyJ0cmFuc2FjdGlvbklkIjoiMSJ9.c2lnbmF0dXJl", "signed_data"), ("123456", "transaction_id"),
      ("{}", "json"), ("", "empty"), ("MIIabc*", "not_base64"),
    ]
    for (text, kind) in cases {
      let inspection = ReceiptInspection(of: Array(text.utf8), now: Self.now)
      #expect(inspection.outcome.rawValue == 2)
      let report = try object(inspection)
      #expect(report["kind"] as? String == kind)
      #expect(report["problem"] as? String != nil)
      #expect(report["signer"] is NSNull)
      #expect((report["transactions"] as? [Any])?.isEmpty == true)
    }
    let signed = ReceiptInspection(of: Array(cases[0].0.utf8), now: Self.now)
    #expect(signed.text().contains("a signed transaction without signedDate"))
  }

  @Test func `every report has the same keys`() throws {
    let receipt = try ReceiptInspection(of: TestReceipt(TestPKI()).bytes(), now: Self.now)
    let other = ReceiptInspection(of: [], now: Self.now)
    #expect(try Set(object(receipt).keys) == Set(object(other).keys))
  }

  @Test func `nothing in a receipt steers the terminal`() throws {
    let pki = try TestPKI()
    let row = TestReceipt.row(product: "pro\u{1B}[2J\n\u{202E}evil")
    let bytes = try TestReceipt(pki, payload: TestReceipt.payload(rows: [row])).bytes()
    let text = try ReceiptInspection(of: bytes, roots: pki.roots(), now: Self.now).text()
    #expect(!text.contains("\u{1B}") && !text.contains("\u{202E}"))
    #expect(text.contains("pro\u{FFFD}[2J\u{FFFD}\u{FFFD}evil"))
  }
}

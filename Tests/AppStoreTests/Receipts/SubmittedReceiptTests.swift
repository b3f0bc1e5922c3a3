import Cryptography
import Entitlements
import FoundationEssentials
import Testing

@testable import AppStore

@Suite("Submissions of clients")
struct SubmittedReceiptTests {
  /// A receipt whose base64 contains `+` and `/`, and ends in padding.
  private static let sample: Result<[UInt8], any Error> = Result {
    let pki = try TestPKI()
    for filler in 0..<64 {
      let extra = TestReceipt.attribute(6, Array(repeating: 0xFB, count: 40 + filler))
      let bytes = try TestReceipt(pki, payload: TestReceipt.payload(extra: [extra])).bytes()
      let text = Data(bytes).base64EncodedString()
      if text.contains("+"), text.contains("/"), text.hasSuffix("=") { return bytes }
    }
    throw TestKey.Failure()
  }

  private func sample() throws -> (bytes: [UInt8], base64: String) {
    let bytes = try Self.sample.get()
    return (bytes, Data(bytes).base64EncodedString())
  }

  /// The error of a text that may not be taken.
  private func mistake(in text: String) -> UndecodableReceipt? {
    let mistake = #expect(throws: UndecodableReceipt.self) { try SubmittedReceipt.decode(text) }
    return mistake
  }

  @Test func `base64 is taken as it is`() throws {
    let (bytes, base64) = try sample()
    let submitted = try SubmittedReceipt.decode(base64)
    #expect(submitted.base64 == base64)
    #expect(submitted.repairs.isEmpty)
    guard case .app(let receipt) = submitted.content else {
      Issue.record("not an app receipt")
      return
    }
    #expect(receipt.encoded == bytes)
  }

  @Test func `damage of the transport is undone and named`() throws {
    let (_, base64) = try sample()
    var wrapped = ""
    for (index, character) in base64.enumerated() {
      wrapped.append(character)
      if index % 76 == 75 { wrapped += "\r\n" }
    }
    let url = base64.map { $0 == "+" ? "-" : $0 == "/" ? "_" : String($0) }.joined()
    let cases: [(String, [ReceiptRepair])] = [
      (base64 + "\n", []),
      ("\u{FEFF}" + base64, []),
      (wrapped, [.whitespace]),
      (wrapped.map { $0 == "\r\n" ? " " : String($0) }.joined(), [.whitespace]),
      (base64.map { $0 == "+" ? " " : String($0) }.joined(), [.plus]),
      (url, [.base64URL]),
      (String(base64.drop { _ in false }.reversed().drop { $0 == "=" }.reversed()), [.padding]),
      (base64 + "=", [.padding]),
      (String(url.reversed().drop { $0 == "=" }.reversed()), [.base64URL, .padding]),
    ]
    let fingerprint = try SubmittedReceipt.decode(base64).fingerprint
    for (text, repairs) in cases {
      let submitted = try SubmittedReceipt.decode(text)
      #expect(submitted.base64 == base64)
      #expect(submitted.repairs == repairs)
      #expect(submitted.fingerprint == fingerprint)
    }
  }

  @Test func `a file may hold the receipt itself`() throws {
    let (bytes, base64) = try sample()
    #expect(try SubmittedReceipt.decode(contents: bytes).base64 == base64)
    #expect(try SubmittedReceipt.decode(contents: Array((base64 + "\r\n").utf8)).base64 == base64)
  }

  @Test func `a signed transaction is recognised, and its text is what is kept of it`() throws {
    let signed = try SignedDataPKI().sign(SignedSample.transaction())
    var wrapped = ""
    for (index, digit) in signed.enumerated() { wrapped += (index % 76 == 75 ? "\r\n" : "") + String(digit) }
    for (text, repairs): (String, [ReceiptRepair]) in [
      (signed, []), ("\u{FEFF} \(signed)\n", []), (wrapped, [.whitespace]),
    ] {
      let submitted = try SubmittedReceipt.decode(text)
      guard case .signedTransaction(let transaction) = submitted.content else {
        Issue.record("not recognised")
        return
      }
      #expect(transaction.purchase.transactionID == "2000000000000002")
      #expect(submitted.base64 == signed)
      #expect(submitted.repairs == repairs)
      #expect(submitted.fingerprint == ReceiptFingerprint(of: Array(signed.utf8)))
      #expect(try SubmittedReceipt.decode(submitted.base64).content == submitted.content)
    }
  }

  @Test func `every usual mistake is named`() throws {
    let (bytes, base64) = try sample()
    func encoded(_ text: String) -> String { Data(text.utf8).base64EncodedString() }
    let pki = try SignedDataPKI()
    let signed = try pki.sign(SignedSample.transaction())
    let renewalInfo = try pki.sign(SignedSample.renewalInfo())
    let notification = try pki.sign(SignedSample.notification())
    let download = try pki.sign(["receiptType": "Production", "applicationVersion": "1"])
    let unity = #"{"Store":"AppleAppStore","TransactionID":"1","Payload":"\#(base64)"}"#
    let decodedTransaction = #"{"transactionId": "1", "productId": "com.example.app.pro", "environment": "Sandbox"}"#
    let cases: [(String, UndecodableReceipt.Kind)] = [
      ("", .empty),
      (" \r\n\t", .empty),
      ("eyJhbGciOiJFUzI1NiJ9.eyJidW5kbGVJZCI6ImEifQ.c2ln", .signedData),
      ("eyJhbGciOiJub25lIn0.eyJidW5kbGVJZCI6ImEifQ.", .signedData),
      ("eyJhbGciOiJFUzI1NiJ9.eyJ0cmFuc2FjdGlvbklkIjoiMSJ9.c2lnbmF0dXJl", .signedData),
      ("eyJhbGciOiJFUzI1NiJ9.eyJ0cmFuc2FjdGlvbklkIjoiMSJ9", .truncated),
      (encoded("eyJhbGciOiJFUzI1NiJ9.eyJidW5kbGVJZCI6ImEifQ.c2ln"), .doubleBase64),
      (renewalInfo, .signedRenewalInfo),
      (notification, .signedNotification),
      (#"{"signedPayload":"\#(notification)"}"#, .signedNotification),
      (download, .signedAppTransaction),
      ("\"\(signed)\"", .quoted),
      (signed.split(separator: ".").joined(separator: "%2E"), .percentEncoded),
      ("2000000284164527", .transactionID),
      (unity, .unityEnvelope),
      (encoded(unity), .unityEnvelope),
      (#"{"status":0,"receipt":{"bundle_id":"com.example.app"}}"#, .json),
      (encoded(#"{"status":0}"#), .json),
      ("[1,2]", .json),
      (decodedTransaction, .json),
      (encoded(decodedTransaction), .json),
      ("<html><body>503</body></html>", .markup),
      ("<?xml version=\"1.0\"?><plist></plist>", .markup),
      ("-----BEGIN PKCS7-----\n\(base64)\n-----END PKCS7-----", .pem),
      ("data:application/octet-stream;base64,\(base64)", .dataURL),
      ("\"\(base64)\"", .quoted),
      ("'\(base64)'", .quoted),
      (base64.map { $0 == "+" ? "%2B" : String($0) }.joined(), .percentEncoded),
      (base64.dropLast() + "%3D", .percentEncoded),
      (hexadecimal(bytes), .hex),
      (encoded(base64), .doubleBase64),
      ("not a receipt at all", .spaces),
      ("zürich", .notBase64),
      ("abc.def", .notBase64),
      ("AAAA=BBB", .notBase64),
      ("hello123", .notReceipt),
      (Data(try TestPKI().root).base64EncodedString(), .notReceipt),
      (String(base64.prefix(400)), .truncated),
      (String(base64.prefix(401)), .truncated),
      (Data(bytes + [0]).base64EncodedString(), .trailingBytes),
      (String(base64.map { $0 == "+" ? " " : $0 }.dropFirst(4)), .spaces),
      (String(repeating: "A", count: SubmittedReceipt.limit + 1), .tooLarge),
    ]
    for (text, expected) in cases {
      #expect(mistake(in: text)?.kind == expected, "\(text.prefix(40))")
    }
    #expect(
      // A signed transaction is taken; a damaged receipt has tests of its own.
      Set(cases.map(\.1)).union([.malformed, .signedTransaction]) == Set(UndecodableReceipt.Kind.allCases),
      "a kind has no case here")
  }

  @Test(arguments: [
    ("[object Object]", UndecodableReceipt.Kind.notBase64, "JavaScript object"),
    ("<30820b13 06092a86 4886f70d>", .hex, "hex"),
    ("{length = 5020, bytes = 0x30820b13 06092a86 4886f70d ... 0f0b0203 01000100 }", .hex, "leaves out most"),
    ("{length = 5020, bytes = 0x30820b13 06092a86 … 01000100 }", .hex, "base64EncodedString()"),
    ("e2xlbmd0aCA9IDUwMjAsIGJ5dGVzID0gMHgzMDgyMGIxMyB9", .hex, "base64EncodedString()"),
    (#"{"Store":"GooglePlay","TransactionID":"1","Payload":"{}"}"#, .unityEnvelope, "another store"),
    (#"{"Store" : "fake", "Payload" : "ThisIsFakeReceiptData"}"#, .unityEnvelope, "another store"),
    ("eyJhbGciOiJFUzI1NiJ9.eyJ0cmFuc2FjdGlvbklkIjoiMSJ9.c2lnbmF0dXJlc", .truncated, "lost on the way"),
    (#"{"transactionReceipt":"MIITtgYJKoZI","transactionId":"1"}"#, .json, "transactionReceipt"),
    (#"{"transactionId": "1", "transactionReceipt": "MIITtgYJKoZI"}"#, .json, "transactionReceipt"),
    (#"MIITtgYJKoZI\/vcNAQcCoIIT"#, .notBase64, "escaped as a JSON string twice"),
    (#"MIITtgYJKoZI\nvcNAQcCoIIT"#, .notBase64, "escaped as a JSON string twice"),
    (#"eyJhbGciOiJFUzI1NiJ9.eyJ0\n.c2ln"#, .notBase64, "escaped as a JSON string twice"),
    ("Bearer eyJhbGciOiJFUzI1NiJ9.eyJ0cmFuc2FjdGlvbklkIjoiMSJ9.c2ln", .notBase64, "Authorization header"),
    ("/private/var/mobile/Containers/Data/Application/X/App.app/StoreKit/receipt", .notBase64, "a path or a URL"),
    ("file:///private/var/X/StoreKit/receipt", .notBase64, "a path or a URL"),
    ("https://example.com/receipt", .notBase64, "a path or a URL"),
    ("null", .empty, "no receipt"), ("(null)", .empty, "no receipt"), ("nil", .empty, "no receipt"),
    ("None", .empty, "no receipt"), ("undefined", .empty, "no receipt"), ("true", .empty, "no receipt"),
  ])
  func `a text around or in place of a receipt, that lost its content, or of another store is named`(
    text: String, kind: UndecodableReceipt.Kind, words: String
  ) {
    let mistake = mistake(in: text)
    #expect(mistake?.kind == kind)
    #expect(mistake?.detail.contains(words) == true)
  }

  @Test func `a decoded transaction is told from an answer of verifyReceipt`() {
    for decoded in [
      #"{"transactionId":"1","productId":"p"}"#, #" { "originalTransactionId" : "2000000123456789" }"#,
      #"[{"transactionId": "1"}]"#,
    ] {
      for text in [decoded, Data(decoded.utf8).base64EncodedString()] {
        #expect(mistake(in: text)?.detail.contains("jwsRepresentation (expo-iap: purchaseToken)") == true, "\(text)")
      }
    }
    for text in [#"{"status":0,"latest_receipt_info":[{"transaction_id":"1"}]}"#, "{}"] {
      #expect(mistake(in: text)?.detail.contains("verifyReceipt") == true, "\(text)")
    }
  }

  @Test func `a refusal quotes nothing of the submission`() throws {
    let canary = "CANARY7f3a"
    for text in [
      "{\"a\":\"\(canary)\"}", "\(canary) x", "\"\(canary)\"", "<\(canary)>", "data:\(canary)", "\(canary)%2B",
    ] {
      #expect(mistake(in: text).map { String(describing: $0).contains(canary) } == false)
    }
  }

  @Test func `bytes that are neither text nor a receipt are refused`() {
    for bytes in [
      [0x1F, 0x8B, 0x08, 0x00], [0x00], [0x30], [0x30, 0x80], [0x30, 0x03, 1, 2, 3], [0xFF, 0xD8, 0xFF],
    ] as [[UInt8]] {
      #expect(throws: UndecodableReceipt.self) { try SubmittedReceipt.decode(contents: bytes) }
    }
  }
}

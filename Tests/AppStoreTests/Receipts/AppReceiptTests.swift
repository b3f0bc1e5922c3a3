import Entitlements
import FoundationEssentials
import Testing

@testable import AppStore

@Suite("App receipt decoding")
struct AppReceiptTests {
  private func decode(_ payload: [UInt8]) throws -> AppReceipt {
    try AppReceipt.decode(TestReceipt(TestPKI(), payload: payload).bytes())
  }

  private func kind(of body: () throws -> Void) -> UndecodableReceipt.Kind? {
    #expect(throws: UndecodableReceipt.self, performing: body)?.kind
  }

  private static let moment = Date(timeIntervalSince1970: 1_718_452_800)  // 2024-06-15T12:00:00Z

  @Test func `every field of the receipt and its rows is read`() throws {
    let offer = TestReceipt.attribute(1721, DER.utf8("winter"))
    let receipt = try decode(TestReceipt.payload(rows: [TestReceipt.row(extra: [offer])]))
    #expect(receipt.receiptType == "Production")
    #expect(receipt.environment == .production)
    #expect(receipt.bundleID == "com.example.app")
    #expect(receipt.applicationVersion == "42")
    #expect(receipt.originalApplicationVersion == "1.0")
    #expect(receipt.createdAt == Self.moment)
    #expect(receipt.expiresAt == nil)
    let row = try #require(receipt.transactions.first)
    #expect(row.quantity == 1)
    #expect(row.productType == 3)
    #expect(row.webOrderLineItemID == 2_000_000_123_357_229)
    #expect(row.originalPurchaseDate == Date(timeIntervalSince1970: 1_715_680_800))
    #expect(row.promotionalOfferID == "winter")
    #expect(
      receipt.purchases == [
        Purchase(
          productID: "com.example.app.pro.monthly", transactionID: "200000111", originalTransactionID: "200000100",
          webOrderLineItemID: "2000000123357229", purchaseDate: Date(timeIntervalSince1970: 1_718_359_200),
          expiresDate: Date(timeIntervalSince1970: 1_720_951_200), isIntroductoryOffer: true)
      ])
  }

  @Test(arguments: [
    ("Production", StoreEnvironment.production), ("ProductionVPP", .production), ("ProductionSandbox", .sandbox),
    ("ProductionVPPSandbox", .sandbox), ("Xcode", nil), ("Tomorrow", nil),
  ])
  func `the type tells the environment`(type: String, environment: StoreEnvironment?) throws {
    let receipt = try decode(TestReceipt.payload(type: type))
    #expect(receipt.environment == environment)
    #expect(receipt.receiptType == type)
    #expect(receipt.isFromXcode == (type == "Xcode"))
  }

  @Test func `a receipt may have no rows, and a row may lack what does not apply`() throws {
    #expect(try decode(TestReceipt.payload(rows: [])).transactions.isEmpty)
    let row = TestReceipt.row(expires: "", without: [1701, 1705, 1706, 1711, 1713, 1719])
    let transaction = try #require(try decode(TestReceipt.payload(rows: [row])).transactions.first)
    #expect(transaction.expiresDate == nil)
    #expect(transaction.cancellationDate == nil)
    #expect(transaction.isTrial == nil)
    #expect(transaction.purchase.originalTransactionID == "200000111")
  }

  @Test(arguments: [2, 12])
  func `a receipt without bundle ID or creation date is damaged`(number: Int64) throws {
    #expect(throws: UndecodableReceipt.self) { try decode(TestReceipt.payload(without: [number])) }
  }

  @Test(arguments: [1702, 1703])
  func `a row without product or transaction is damaged`(number: Int64) throws {
    let row = TestReceipt.row(without: [number])
    #expect(throws: UndecodableReceipt.self) { try decode(TestReceipt.payload(rows: [row])) }
  }

  @Test(arguments: ["soon", "2024-13-01T00:00:00Z", "2024-02-30T00:00:00Z", "2024-06-15", "2024-06-15T25:00:00Z"])
  func `a date that cannot be read is not taken for an absent one`(text: String) throws {
    let cancelled = TestReceipt.row(
      without: [1712], extra: [TestReceipt.attribute(1712, DER.ia5(text))])
    #expect(throws: UndecodableReceipt.self) { try decode(TestReceipt.payload(rows: [cancelled])) }
    #expect(throws: UndecodableReceipt.self) { try decode(TestReceipt.payload(created: text)) }
  }

  @Test func `a field that occurs twice is refused, since none can be told to count`() throws {
    let twice = TestReceipt.payload(extra: [TestReceipt.attribute(2, DER.utf8("com.other"))])
    #expect(throws: UndecodableReceipt.self) { try decode(twice) }
    // Of what is not read, there may be any number.
    let unread = TestReceipt.payload(extra: [
      TestReceipt.attribute(6, [0]), TestReceipt.attribute(9_999, [0xDE, 0xAD]),
    ])
    #expect(try decode(unread).bundleID == "com.example.app")
  }

  @Test(
    arguments: [
      DER.sequence(), DER.set([DER.octets([1])]), DER.set([DER.sequence(DER.integer(2), DER.integer(1))]),
      DER.set([DER.sequence(DER.utf8("2"), DER.integer(1), DER.octets([]))]), [], [0x31], [0x31, 0x05, 0x00],
      [0x31, 0x80, 0x00, 0x00], [0x31, 0x85, 1, 1, 1, 1, 1], [0x3F, 0x81, 0x00],
      DER.set([]) + [0], TestReceipt.payload(extra: [TestReceipt.attribute(3, DER.utf8("1") + [9])]),
      TestReceipt.payload(extra: [TestReceipt.attribute(19, [0x0C, 0x7F, 0x31])]),
    ] as [[UInt8]])
  func `a payload of another shape is refused`(payload: [UInt8]) throws {
    #expect(throws: UndecodableReceipt.self) { try decode(payload) }
  }

  @Test(
    arguments: [
      (1713, DER.integer(2)), (1713, DER.utf8("yes")), (1711, DER.utf8("x")), (1702, [0x0C, 1, 0xFF]),
      (1711, [0x02, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
    ] as [(Int64, [UInt8])])
  func `a value of the wrong kind is refused`(number: Int64, value: [UInt8]) throws {
    let row = TestReceipt.row(without: [number], extra: [TestReceipt.attribute(number, value)])
    #expect(throws: UndecodableReceipt.self) { try decode(TestReceipt.payload(rows: [row])) }
  }

  @Test func `an undocumented number of another shape does not spoil the receipt`() throws {
    let row = TestReceipt.row(without: [1707], extra: [TestReceipt.attribute(1707, DER.utf8("subscription"))])
    let payload = TestReceipt.payload(
      rows: [row], without: [1, 15],
      extra: [TestReceipt.attribute(1, [0xFF]), TestReceipt.attribute(15, DER.utf8("x"))])
    let receipt = try decode(payload)
    #expect(receipt.transactions.first?.productType == nil)
  }

  @Test func `bytes that end early or late are named`() throws {
    let whole = try TestReceipt(TestPKI()).bytes()
    #expect(kind { _ = try AppReceipt.decode(Array(whole.dropLast())) } == .truncated)
    #expect(kind { _ = try AppReceipt.decode(Array(whole.prefix(whole.count * 4 / 5))) } == .truncated)
    #expect(kind { _ = try AppReceipt.decode(whole + [0]) } == .trailingBytes)
    var ber = try TestReceipt(TestPKI())
    ber.form = .ber
    let indefinite = try ber.bytes()
    #expect(kind { _ = try AppReceipt.decode(Array(indefinite.prefix(300))) } == .truncated)
    #expect(kind { _ = try AppReceipt.decode(indefinite + [0, 0]) } == .trailingBytes)
    #expect(kind { _ = try AppReceipt.decode(TestPKI().root) } == .notReceipt)
    #expect(kind { _ = try AppReceipt.decode([]) } == .notReceipt)
  }

  /// Certificates make work before anything is proven.
  @Test func `a receipt with more certificates than a receipt has is refused`() throws {
    let pki = try TestPKI()
    var receipt = TestReceipt(pki)
    receipt.bag = Array(repeating: pki.root, count: SignedMessage.certificateLimit + 1)
    #expect(kind { _ = try AppReceipt.decode(receipt.bytes()) } == .malformed)
  }

  @Test(arguments: [0x30, 0x24, 0xA0] as [UInt8])
  func `nests from 1 to 5,000 levels deep end in an error, never in a crash`(tag: UInt8) throws {
    var nest: [UInt8] = [0x04, 0x00]
    var open: [UInt8] = []
    for depth in 1...5_000 {
      nest = DER.tlv(tag, nest)
      open += [tag, 0x80]
      // Building every tree is cheap; looking at each of the first hundred and each hundredth after is enough.
      guard depth <= 100 || depth % 100 == 0 else { continue }
      let wrapped = DER.sequence(DER.oid("1.2.840.113549.1.7.2"), DER.explicit(0, nest))
      let indefinite =
        [0x30, 0x80] + DER.oid("1.2.840.113549.1.7.2") + open + Array(repeating: 0, count: 2 * depth + 2)
      for bytes in [nest, wrapped, indefinite, open] {
        #expect(throws: UndecodableReceipt.self) { try AppReceipt.decode(bytes) }
        #expect(throws: UndecodableReceipt.self) { try SubmittedReceipt.decode(contents: bytes) }
      }
      if depth > 2 { #expect(throws: UndecodableReceipt.self) { _ = try ReceiptAttributes(payload: nest[...]) } }
    }
  }

  /// Every length octet of a receipt set to values that reach past the end or lie.
  @Test func `lengths that lie end in an error or in the same content`() throws {
    let whole = try TestReceipt(TestPKI()).bytes()
    let honest = try AppReceipt.decode(whole)
    for index in 1..<min(whole.count, 400) {
      for value in [0x00, 0x7F, 0x80, 0x84, 0x88, 0xFF] as [UInt8] {
        var bytes = whole
        bytes[index] = value
        guard let receipt = try? AppReceipt.decode(bytes) else { continue }
        // A receipt that still decodes must not have become longer or shorter.
        #expect(receipt.encoded.count == honest.encoded.count)
      }
    }
  }
}

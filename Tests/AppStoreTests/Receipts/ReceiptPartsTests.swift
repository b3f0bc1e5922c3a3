import FoundationEssentials
import Testing

@testable import AppStore

@Suite("Dates, DER and property lists")
struct ReceiptPartsTests {
  @Test(arguments: [
    ("1970-01-01T00:00:00Z", 0.0), ("2024-02-29T12:00:00Z", 1_709_208_000), ("2023-10-19T02:45:36+0100", 1_697_679_936),
    ("2023-10-19T02:45:36+01:00", 1_697_679_936), ("2023-10-18T21:45:36-04:00", 1_697_679_936),
    ("4001-01-01T00:00:00Z", 64_092_211_200), ("1969-12-31T23:59:59Z", -1),
    ("2024-06-15T12:00:00.250Z", 1_718_452_800.25),
  ])
  func `RFC 3339 is read`(text: String, seconds: Double) throws {
    #expect(ReceiptDate.parse(rfc3339: Array(text.utf8)[...]) == Date(timeIntervalSince1970: seconds))
  }

  @Test(arguments: [
    "", "2024", "2024-06-15T12:00:00", "2024-06-15 12:00:00Z", "2023-02-29T12:00:00Z", "2024-00-01T00:00:00Z",
    "2024-06-15T12:00:60Z", "2024-06-15T24:00:00Z", "2024-06-15T12:00:00.Z", "2024-06-15T12:00:00Zx",
    "2024-06-15T12:00:00+1", "+024-06-15T12:00:00Z", "2024-06-15T12:00:00.1234567890Z",
  ])
  func `a text that is no date is not read`(text: String) {
    #expect(ReceiptDate.parse(rfc3339: Array(text.utf8)[...]) == nil)
  }

  @Test func `a date is written as it was read`() throws {
    for day in stride(from: -719_000, to: 2_900_000, by: 367) {
      let date = Date(timeIntervalSince1970: Double(day) * 86_400 + 45_296)
      #expect(ReceiptDate.parse(rfc3339: Array(ReceiptDate.format(date).utf8)[...]) == date)
    }
    #expect(ReceiptDate.format(Date(timeIntervalSince1970: 1_718_452_800.25)) == "2024-06-15T12:00:00.250Z")
    #expect(ReceiptDate.format(Date(timeIntervalSince1970: .infinity)) == "out of range")
  }

  @Test func `the text form of iOS 6 is read in its own zone only`() {
    #expect(
      ReceiptDate.parse(etcGMT: "2015-11-18 04:34:41 Etc/GMT") == Date(timeIntervalSince1970: 1_447_821_281))
    #expect(ReceiptDate.parse(etcGMT: "2015-11-17 20:34:41 America/Los_Angeles") == nil)
    #expect(ReceiptDate.parse(etcGMT: "2015-11-18 04:34:41") == nil)
  }

  @Test(arguments: [Int64.min, -129, -128, -1, 0, 1, 127, 128, 255, 256, 2_000_000_123_357_229, Int64.max])
  func `an integer of up to eight octets is read`(value: Int64) throws {
    let element = try #require(try DERReader.single(DER.integer(value)[...]))
    #expect(DERReader.integer(element.content) == value)
  }

  @Test(
    arguments: [
      ([0x04], DERReader.Malformed.truncated), ([0x04, 0x01], .truncated), ([0x04, 0x81], .truncated),
      ([0x04, 0x82, 0xFF, 0xFF, 0], .truncated), ([0x24, 0x80, 0, 0], .indefiniteLength),
      ([0x1F, 0x01, 0], .unsupportedTag),
      ([0x04, 0x85, 0, 0, 0, 0, 0], .lengthTooLong), ([0x04, 0xFF], .lengthTooLong),
      ([0x04, 0x84, 0xFF, 0xFF, 0xFF, 0xFF], .truncated),
    ] as [([UInt8], DERReader.Malformed)])
  func `lengths and tags that lie are errors`(bytes: [UInt8], expected: DERReader.Malformed) {
    #expect(throws: expected) {
      var reader = DERReader(bytes[...])
      _ = try reader.next()
    }
  }

  @Test func `a property list is read with its escapes`() throws {
    let text = #"{ "a" = "1\"2\\3\n\101\U00e9"; b-c = d_e; "empty" = ""; }"# + "\n\0"
    #expect(
      try PropertyList.parse(Array(text.utf8)) == ["a": "1\"2\\3\nA\u{E9}", "b-c": "d_e", "empty": ""])
    #expect(try PropertyList.parse(Array("{}".utf8)) == [:])
  }

  @Test(arguments: [
    "", "{", "{a", "{a=", "{a=b", "{a=b;", "{a=b}", "{\"a=b;}", "{a=b;}}", "{a=b;a=c;}", "{a={b=c;};}", "{a=(b);}",
    "{a=<0a>;}", #"{a="\x";}"#, #"{a="\U12";}"#, #"{a="\Ud800";}"#, "{a=b;} x", "[a]", "{=b;}x", "{;}",
  ])
  func `a text that is no property list is refused`(text: String) {
    #expect(throws: PropertyList.Malformed.self) { try PropertyList.parse(Array(text.utf8)) }
  }

  @Test func `a list of more keys than any receipt has is refused`() {
    let text = "{" + (0...PropertyList.keyLimit).map { "k\($0)=v;" }.joined() + "}"
    #expect(throws: PropertyList.Malformed.tooManyKeys) { try PropertyList.parse(Array(text.utf8)) }
    let nested = String(repeating: "{a=", count: 100_000)
    #expect(throws: PropertyList.Malformed.self) { try PropertyList.parse(Array(nested.utf8)) }
  }

  @Test func `a fingerprint is the SHA-256 of the bytes`() {
    let fingerprint = ReceiptFingerprint(of: Array("abc".utf8))
    #expect(fingerprint.hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    #expect(fingerprint.short == "ba7816bf8f01")
    #expect("\(fingerprint)" == "ba7816bf8f01")
    #expect(ReceiptFingerprint(of: []).hex.hasPrefix("e3b0c44298fc"))
  }
}

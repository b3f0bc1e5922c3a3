import Foundation
import Testing

@testable import AppStore

@Suite("Base64 of receipts")
struct ReceiptBase64Tests {
  @Test func `digits are read as Foundation reads them`() {
    var generator = SeededGenerator(seed: 0xB64)
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    for round in 0..<4_000 {
      var digits = (0..<(round % 41)).map { _ in alphabet[Int.random(in: 0..<64, using: &generator)] }
      if round % 3 == 0, !digits.isEmpty {
        digits[Int.random(in: 0..<digits.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
      }
      let padded = digits + Array(repeating: UInt8(ascii: "="), count: (4 - digits.count % 4) % 4)
      let expected = digits.contains(UInt8(ascii: "=")) ? nil : Data(base64Encoded: Data(padded))
      let decoded = digits.withUnsafeBufferPointer { Base64.decode($0) }
      #expect(decoded.map(\.bytes) == expected.map { [UInt8]($0) }, "\(digits)")
      if let decoded {
        #expect(decoded.isCanonical == (Data(decoded.bytes).base64EncodedData() == Data(padded)), "\(digits)")
      }
    }
  }

  /// A line break behind a text takes it the long way.
  @Test func `the usual text is read like any other`() throws {
    let pki = try TestPKI()
    var generator = SeededGenerator(seed: 0x7E87)
    func outcome(_ text: [UInt8]) -> Result<SubmittedReceipt, UndecodableReceipt> {
      Result { () throws(UndecodableReceipt) in try SubmittedReceipt.decode(contents: text) }
    }
    // With no padding, one sign and two.
    let texts = try (0..<3).map { number in
      let filler = TestReceipt.attribute(6, Array(repeating: 0xFB, count: 40 + number))
      return try [UInt8](
        Data(TestReceipt(pki, payload: TestReceipt.payload(extra: [filler])).bytes()).base64EncodedData())
    }
    var decodable = 0
    for round in 0..<600 {
      var text = texts[round % 3]
      switch round / 3 % 6 {
      case 0: break
      // The last digit, whose lowest bits may mean nothing.
      case 1: text[text.count - 3] = UInt8.random(in: 43...122, using: &generator)
      case 2: text.removeLast(Int.random(in: 1...4, using: &generator))
      case 3: text.append(contentsOf: "=".utf8)
      case 4: text[Int.random(in: 0..<8, using: &generator)] = UInt8.random(in: 0...127, using: &generator)
      default: text[Int.random(in: 0..<text.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
      }
      let short = outcome(text)
      #expect(short == outcome(text + [0x0A]), "round \(round)")
      if let string = String(validating: text, as: UTF8.self) {
        #expect(short == Result { () throws(UndecodableReceipt) in try SubmittedReceipt.decode(string) })
      }
      if case .success = short { decodable += 1 }
    }
    #expect(decodable > 100)
  }
}

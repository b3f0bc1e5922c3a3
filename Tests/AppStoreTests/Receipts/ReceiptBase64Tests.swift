import Foundation
import SeededRandom
import Testing

@testable import AppStore

@Suite("Base64 of receipts", .computing)
struct ReceiptBase64Tests {
  @Test func `a receipt is plain if it is what an encoder writes, to the last bit`() {
    var generator = SeededRandom(seed: 0xB64)
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=".utf8)
    var plain = 0
    for round in 0..<4_000 {
      var text = Array("MII".utf8)
      text += (0..<(round % 41)).map { _ in alphabet[Int.random(in: 0..<64, using: &generator)] }
      text += Array(repeating: UInt8(ascii: "="), count: (4 - text.count % 4) % 4)
      if round % 3 == 0 {
        text[Int.random(in: 2..<text.count, using: &generator)] = alphabet[Int.random(in: 0...64, using: &generator)]
      }
      let data = Data(base64Encoded: Data(text))
      let isExact = data?.base64EncodedData() == Data(text)
      let bytes = text.withUnsafeBufferPointer(ReceiptText.plainReceipt)
      #expect(bytes == (isExact ? data.map(Array.init) : nil), "\(String(decoding: text, as: UTF8.self))")
      if bytes != nil { plain += 1 }
    }
    #expect((1_000...3_000).contains(plain))
  }

  /// A line break behind a text takes it the long way.
  @Test func `the usual text is read like any other`() throws {
    let pki = try TestPKI()
    var generator = SeededRandom(seed: 0x7E87)
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

import Crypto
import Cryptography
import Foundation
import Testing

/// Digests and codes, compared with another library's.
@Suite struct DigestTests {
  @Test func `SHA-256 has the digests of FIPS 180-4's examples`() {
    #expect(
      Cryptography.SHA256Digest(of: "abc".utf8).hexadecimal
        == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    #expect(
      Cryptography.SHA256Digest(of: []).hexadecimal
        == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
  }

  @Test(arguments: [0, 1, 31, 55, 56, 63, 64, 65, 1_000, 100_000])
  func `SHA-256 of bytes from any collection is the other library's`(count: Int) {
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    let digest = Cryptography.SHA256Digest(of: bytes)
    #expect(digest.bytes == Array(SHA256.hash(data: bytes)))
    #expect(Cryptography.SHA256Digest(of: bytes.reversed().reversed() as ReversedCollection) == digest)
    #expect(Cryptography.SHA256Digest(of: Data(bytes)) == digest)
    #expect(Cryptography.SHA256Digest(of: bytes + [0]) != digest)
  }

  @Test func `hexadecimal digits are two for each octet`() {
    #expect(hexadecimal([0x00, 0x0F, 0xA0, 0xFF]) == "000fa0ff")
    #expect(hexadecimal([]) == "")
    #expect(octets(ofHexadecimal: "000fA0Ff") == [0x00, 0x0F, 0xA0, 0xFF])
    #expect(octets(ofHexadecimal: "") == [])
    for text in ["0", "0g", "é0", "٣0", "0x", " 0", "+1"] { #expect(octets(ofHexadecimal: text) == nil, "\(text)") }
  }

  @Test func `arrays are equal in constant time exactly where they are equal`() {
    #expect(isEqualInConstantTime([], []))
    #expect(isEqualInConstantTime([1, 2, 3], [1, 2, 3]))
    #expect(!isEqualInConstantTime([1, 2, 3], [1, 2, 4]))
    #expect(!isEqualInConstantTime([1, 2, 3], [1, 2]))
    #expect(!isEqualInConstantTime([1, 2], [1, 2, 3]))
  }

  @Test(arguments: [0, 1, 32, 64, 65, 1_000])
  func `a code is made by its secret alone, over its bytes alone`(length: Int) {
    let secret = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
    let bytes = Array("header.payload".utf8)
    let code = Array(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: secret)))
    let key = HMACKey(secret)
    #expect(key.hasMade(code, over: bytes))
    #expect(!key.hasMade(code, over: bytes + [0]))
    #expect(!HMACKey(secret + [1]).hasMade(code, over: bytes))
    for wrong in [[], Array(code.dropLast()), code + [0], code.map { $0 ^ 1 }] {
      #expect(!key.hasMade(wrong, over: bytes))
    }
  }

  @Test func `a key of HMAC shows nothing of its secret`() {
    let keys = [HMACKey(Array("a-secret".utf8))]
    var dumped = ""
    dump(keys, to: &dumped)
    for text in ["\(keys)", String(reflecting: keys), dumped] {
      // The first byte of the secret.
      #expect(!text.contains("97"))
    }
  }
}

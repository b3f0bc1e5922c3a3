import Crypto
import Cryptography
import Foundation
import Testing
import _CryptoExtras

/// Which RSA keys are accepted, and which signatures.
@Suite struct RSAPublicKeyTests {
  private static let key = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
  private static let bytes = Array("header.payload".utf8)

  private static func numbers(_ key: _RSA.Signing.PrivateKey) throws -> (modulus: [UInt8], exponent: [UInt8]) {
    let numbers = try key.publicKey.getKeyPrimitives()
    return (Array(numbers.modulus), Array(numbers.publicExponent))
  }

  @Test func `a signature counts only as it was made`() throws {
    let key = try Self.key.get()
    let numbers = try Self.numbers(key)
    let ours = try #require(RSAPublicKey(modulus: numbers.modulus, exponent: numbers.exponent, digest: .sha256))
    let signature = Array(
      try key.signature(for: SHA256.hash(data: Self.bytes), padding: .insecurePKCS1v1_5).rawRepresentation)
    func isTaken(_ signature: [UInt8]) -> Bool { ours.hasMade(signature[...], over: Self.bytes[...]) }
    #expect(isTaken(signature))
    #expect(!ours.hasMade(signature[...], over: Self.bytes + [0]))
    #expect(!isTaken([]))
    #expect(!isTaken(signature.dropLast()))
    #expect(!isTaken(Array(signature.dropFirst())))
    #expect(!isTaken([0] + signature))
    #expect(!isTaken(signature + [0]))
    #expect(!isTaken([UInt8](repeating: 0, count: 256)))
    #expect(!isTaken([UInt8](repeating: 0, count: 255) + [1]))
    #expect(!isTaken(numbers.modulus))
    for position in [0, 128, 255] {
      var changed = signature
      changed[position] ^= 1
      #expect(!isTaken(changed))
    }
    // The same key, signing in another way.
    let pss = try key.signature(for: SHA256.hash(data: Self.bytes), padding: .PSS).rawRepresentation
    #expect(!isTaken(Array(pss)))
    let sha512 = try key.signature(for: SHA512.hash(data: Self.bytes), padding: .insecurePKCS1v1_5).rawRepresentation
    #expect(!isTaken(Array(sha512)))
    let other = try _RSA.Signing.PrivateKey(keySize: .bits2048)
    let stranger = try other.signature(for: SHA256.hash(data: Self.bytes), padding: .insecurePKCS1v1_5)
    #expect(!isTaken(Array(stranger.rawRepresentation)))
  }

  @Test func `a key below 2048 bits is refused, and zeros in front do not make it longer`() throws {
    let weak = try Self.numbers(_RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: 1_024)))
    #expect(RSAPublicKey(modulus: weak.modulus, exponent: weak.exponent, digest: .sha256) == nil)
    let padded = [UInt8](repeating: 0, count: 128) + weak.modulus
    #expect(RSAPublicKey(modulus: padded, exponent: weak.exponent, digest: .sha256) == nil)
    var short = try Self.numbers(Self.key.get())
    short.modulus[0] = 0x7F
    #expect(RSAPublicKey(modulus: short.modulus, exponent: short.exponent, digest: .sha256) == nil)
  }

  @Test func `zeros in front of a number change nothing`() throws {
    let key = try Self.key.get()
    let numbers = try Self.numbers(key)
    let ours = try #require(
      RSAPublicKey(modulus: [0, 0] + numbers.modulus, exponent: [0] + numbers.exponent, digest: .sha256))
    let signature = try key.signature(for: SHA256.hash(data: Self.bytes), padding: .insecurePKCS1v1_5)
    #expect(ours.hasMade(Array(signature.rawRepresentation)[...], over: Self.bytes[...]))
  }

  @Test func `numbers that no RSA key has are refused`() throws {
    let (modulus, exponent) = try Self.numbers(Self.key.get())
    func isKey(_ modulus: [UInt8], _ exponent: [UInt8]) -> Bool {
      RSAPublicKey(modulus: modulus, exponent: exponent, digest: .sha256) != nil
    }
    #expect(isKey(modulus, exponent))
    #expect(isKey(modulus, [3]))
    #expect(isKey(modulus, [1, 0, 0, 0, 1]))
    #expect(isKey([UInt8](repeating: 0xFF, count: 1_024), exponent))
    #expect(!isKey([UInt8](repeating: 0xFF, count: 1_025), exponent))
    #expect(!isKey(modulus.dropLast() + [0xFE], exponent))
    #expect(!isKey([], exponent))
    #expect(!isKey([0], exponent))
    for exponent: [UInt8] in [[], [0], [1], [2], [1, 0, 0], [2, 0, 0, 0, 1], modulus] {
      #expect(!isKey(modulus, exponent))
    }
  }
}

import Crypto
import Cryptography
import Foundation
import Testing

/// Which points of P-256 are keys, and which signatures count.
@Suite struct ES256PublicKeyTests {
  private let key = P256.Signing.PrivateKey()
  private let bytes = Array("header.payload".utf8)

  private var point: (x: [UInt8], y: [UInt8]) {
    let raw = Array(key.publicKey.rawRepresentation)
    return (Array(raw.prefix(32)), Array(raw.suffix(32)))
  }

  private static func number(_ hexadecimal: String) -> [UInt8] {
    let digits = Array(hexadecimal)
    return stride(from: 0, to: digits.count, by: 2).compactMap { UInt8(String(digits[$0..<$0 + 2]), radix: 16) }
  }

  /// The order of the group, and the prime of the field (SEC 2, section 2.4.2).
  private static let order = number("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551")
  private static let prime = number("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff")

  @Test func `a signature counts only as it was made`() throws {
    let ours = try #require(ES256PublicKey(x: point.x, y: point.y))
    let signature = try key.signature(for: bytes)
    let raw = Array(signature.rawRepresentation)
    #expect(ours.hasMade(raw, over: bytes))
    #expect(!ours.hasMade(raw, over: bytes + [0]))
    #expect(!ours.hasMade(Array(try P256.Signing.PrivateKey().signature(for: bytes).rawRepresentation), over: bytes))
    let (r, s) = (Array(raw.prefix(32)), Array(raw.suffix(32)))
    let zero = [UInt8](repeating: 0, count: 32)
    let one = [UInt8](repeating: 0, count: 31) + [1]
    let wrong: [(String, [UInt8])] = [
      ("empty", []), ("r alone", r), ("63 octets", Array(raw.prefix(63))), ("65 octets", raw + [0]),
      ("zero first", [0] + raw),
      ("two numbers of 33 octets", [0] + r + [0] + s), ("DER", Array(signature.derRepresentation)), ("swapped", s + r),
      ("r is zero", zero + s), ("s is zero", r + zero), ("both are zero", zero + zero), ("both are one", one + one),
      ("r is the order", Self.order + s), ("s is the order", r + Self.order), ("r is the prime", Self.prime + s),
      ("of P-384", Array(try P384.Signing.PrivateKey().signature(for: bytes).rawRepresentation)),
    ]
    for (name, signature) in wrong { #expect(!ours.hasMade(signature, over: bytes), "\(name)") }
  }

  @Test func `only a point of the curve is a key, its numbers in full`() throws {
    let (x, y) = point
    let zero = [UInt8](repeating: 0, count: 32)
    #expect(ES256PublicKey(x: x, y: y) != nil)
    var changed = y
    changed[31] ^= 1
    let wrong: [(x: [UInt8], y: [UInt8])] = [
      (x, changed), (y, x), (x, x), (zero, zero), (zero, y), ([], []), (x, []), ([0] + x, y), (x, y + [0]),
      (Array(x.dropFirst()), [0] + y), (x + y.prefix(1), Array(y.dropFirst())), (Self.prime, y), (x, Self.prime),
    ]
    for (x, y) in wrong { #expect(ES256PublicKey(x: x, y: y) == nil, "\(x), \(y)") }
    let other = Array(P384.Signing.PrivateKey().publicKey.rawRepresentation)
    #expect(ES256PublicKey(x: Array(other.prefix(48)), y: Array(other.suffix(48))) == nil)
    #expect(ES256PublicKey(x: Array(other.prefix(32)), y: Array(other.suffix(32))) == nil)
  }

  @Test func `a number is below the prime: there is one way to write a point`() throws {
    let zeros = String(repeating: "0", count: 62)
    let y = Self.number("459243b9aa581806fe913bce99817ade11ca503c64d9a3c533415c083248fbcc")
    #expect(ES256PublicKey(x: Self.number(zeros + "05"), y: y) != nil)
    #expect(
      ES256PublicKey(x: Self.number("ffffffff00000001000000000000000000000001000000000000000000000004"), y: y) == nil)
  }
}

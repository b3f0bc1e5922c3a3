import Cryptography
import Foundation
import Testing

@testable import AppStore

@Suite("ES256 keys")
struct ES256PrivateKeyTests {
  @Test(arguments: [TestECKey.PEMForm.pkcs8, .sec1])
  func `a key of either form signs what its public key recognises`(form: TestECKey.PEMForm) throws {
    let pki = try SignedDataPKI()
    let key = try ES256PrivateKey(pem: pki.key.pem(form))
    let certificate = try #require(Certificate(der: pki.leaf))
    let publicKey = try #require(ES256PublicKey(of: certificate))
    let bytes = Array("header.payload".utf8)
    // r and s are shorter than 32 octets once in 128 times: they are written in full length all the same.
    for _ in 0..<300 {
      let signature = try key.sign(bytes)
      #expect(signature.count == 64)
      #expect(publicKey.hasMade(signature, over: bytes))
    }
    #expect(!publicKey.hasMade(try key.sign(bytes), over: bytes + [0]))
  }

  @Test func `a file that is no such key is refused with a sentence about what it is`() throws {
    let key = try TestECKey()
    let pem = try key.pem()
    let cases: [(String, ES256PrivateKey.Invalid)] = [
      ("", .notPEM), ("MIGTAgEAMBMGByqGSM49", .notPEM), (try key.pem(.publicKey), .notPrivate),
      ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", .notPrivate),
      (try key.pem(.encrypted), .encrypted),
      (String(pem.prefix(60)), .unreadable), (pem.replacingOccurrences(of: "M", with: "N"), .unreadable),
      (try TestECKey(.p384).pem(), .notP256), (String(repeating: "-", count: 20_000), .tooLarge),
    ]
    for (text, reason) in cases { #expect(throws: reason) { try ES256PrivateKey(pem: text) } }
    #expect(Set(cases.map(\.1)) == Set(ES256PrivateKey.Invalid.allCases))
    for reason in ES256PrivateKey.Invalid.allCases { #expect(reason.description.hasSuffix(".")) }
  }

  @Test func `line ends of Windows and text around it do no harm`() throws {
    let pem = try TestECKey().pem()
    _ = try ES256PrivateKey(pem: pem.replacingOccurrences(of: "\n", with: "\r\n"))
    _ = try ES256PrivateKey(pem: "AuthKey_ABC.p8\n\n" + pem + "\n")
  }

  @Test func `a printed description does not reveal its key`() throws {
    let pem = try TestECKey().pem()
    let secret = try #require(pem.split(separator: "\n").dropFirst().first)
    #expect(!"\(try ES256PrivateKey(pem: pem))".contains(secret))
  }
}

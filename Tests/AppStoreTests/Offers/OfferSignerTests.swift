import Crypto
import Cryptography
import Entitlements
import Foundation
import JSON
import Testing

@testable import AppStore

/// Signatures of offers, held against Apple's description and against what Apple's own library signs, by another
/// implementation of ECDSA.
@Suite struct OfferSignerTests {
  private static let now = Date(timeIntervalSince1970: 1_768_478_400.123_456_7)
  private static let nonce = UUID(uuidString: "368F3888-DCD8-41EF-B3C8-325096B39F47") ?? UUID()
  private static let product: ProductID = "com.example.app.pro.monthly"
  private static let account = "6F0C2F3E-0D3E-4F83-9A52-2A1C9D6F6A11"

  private let key = P256.Signing.PrivateKey()

  private func signer() throws -> OfferSigner {
    OfferSigner(
      key: try ServerAPIKey(
        keyID: "2X9R4HXF34", issuerID: "57246542-96fe-1a63-e053-0824d011072a",
        key: ES256PrivateKey(pem: key.pemRepresentation)))
  }

  private func object(_ part: Substring) throws -> NSDictionary {
    let bytes = try #require(Base64URL.decode(part.utf8))
    return try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? NSDictionary)
  }

  /// - Returns: header and claims, whose signature was checked.
  private func verified(_ jws: String, by key: P256.Signing.PublicKey) throws -> [NSDictionary] {
    let parts = jws.split(separator: ".", omittingEmptySubsequences: false)
    try #require(parts.count == 3)
    let signature = try P256.Signing.ECDSASignature(
      rawRepresentation: Data(#require(Base64URL.decode(parts[2].utf8))))
    #expect(key.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
    return try parts.prefix(2).map(object)
  }

  @Test(arguments: ["480000000010000", nil])
  func `a promotional offer says what Apple's library says`(transaction: String?) throws {
    let jws = try signer().promotionalOffer(
      "winter", of: Self.product, in: "com.example.app", for: transaction.map { TransactionID($0) }, nonce: Self.nonce,
      at: Self.now)
    var claims: [String: Any] = [
      "iss": "57246542-96fe-1a63-e053-0824d011072a", "iat": 1_768_478_400, "aud": "promotional-offer",
      "bid": "com.example.app", "nonce": "368f3888-dcd8-41ef-b3c8-325096b39f47", "productId": Self.product.rawValue,
      "offerIdentifier": "winter",
    ]
    claims["transactionId"] = transaction
    let signed = try verified(jws, by: key.publicKey)
    #expect(signed == [["alg": "ES256", "kid": "2X9R4HXF34", "typ": "JWT"] as NSDictionary, claims as NSDictionary])
    let apple = transaction == nil ? AppleLibrary.promotionalOfferAlone : AppleLibrary.promotionalOffer
    #expect(try verified(apple, by: AppleLibrary.key()) == signed)
  }

  @Test(arguments: [true, false])
  func `the eligibility for an introductory offer says what Apple's library says`(isAllowed: Bool) throws {
    let jws = try signer().introductoryOffer(
      isAllowed: isAllowed, of: Self.product, in: "com.example.app", for: "480000000010000", nonce: Self.nonce,
      at: Self.now)
    let signed = try verified(jws, by: key.publicKey)
    let claims: NSDictionary = [
      "iss": "57246542-96fe-1a63-e053-0824d011072a", "iat": 1_768_478_400, "aud": "introductory-offer-eligibility",
      "bid": "com.example.app", "nonce": "368f3888-dcd8-41ef-b3c8-325096b39f47", "productId": Self.product.rawValue,
      "allowIntroductoryOffer": isAllowed, "transactionId": "480000000010000",
    ]
    #expect(signed == [["alg": "ES256", "kid": "2X9R4HXF34", "typ": "JWT"] as NSDictionary, claims])
    if !isAllowed { #expect(try verified(AppleLibrary.introductoryOffer, by: AppleLibrary.key()) == signed) }
  }

  @Test func `the former signature is over what Apple's library signs`() throws {
    let signed = try signer().formerSignature(
      of: "winter", of: Self.product, in: "com.example.app", for: Self.account, nonce: Self.nonce, at: Self.now)
    #expect(signed.nonce == "368f3888-dcd8-41ef-b3c8-325096b39f47")
    #expect(signed.timestamp == 1_768_478_400_123)
    func text(_ account: String) -> Data {
      Data(
        "com.example.app\u{2063}2X9R4HXF34\u{2063}com.example.app.pro.monthly\u{2063}winter\u{2063}\(account)\u{2063}"
          .utf8) + Data("368f3888-dcd8-41ef-b3c8-325096b39f47\u{2063}1768478400123".utf8)
    }
    func signature(_ base64: String) throws -> P256.Signing.ECDSASignature {
      try P256.Signing.ECDSASignature(derRepresentation: #require(Data(base64Encoded: base64)))
    }
    let apple = try AppleLibrary.key()
    #expect(apple.isValidSignature(try signature(AppleLibrary.former), for: text(Self.account.lowercased())))
    #expect(key.publicKey.isValidSignature(try signature(signed.signature), for: text(Self.account.lowercased())))
    #expect(!key.publicKey.isValidSignature(try signature(signed.signature), for: text(Self.account)))
    // Without an account the place between its separators is empty.
    let nobody = try signer().formerSignature(
      of: "winter", of: Self.product, in: "com.example.app", for: "", nonce: Self.nonce, at: Self.now)
    #expect(key.publicKey.isValidSignature(try signature(nobody.signature), for: text("")))
  }

  @Test func `every character of an offer arrives as it is`() throws {
    let name = "\"winter\\\u{2063}\u{1}é"
    let jws = try signer().promotionalOffer(
      name, of: Self.product, in: "com.example.app", for: nil, nonce: Self.nonce, at: Self.now)
    #expect(try verified(jws, by: key.publicKey)[1]["offerIdentifier"] as? String == name)
  }
}

/// The signatures of app-store-server-library-python 3.1.2 with a key made for it, at 1768478400 s and with the nonce
/// above.
private enum AppleLibrary {
  static func key() throws -> P256.Signing.PublicKey {
    try P256.Signing.PublicKey(
      pemRepresentation: """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEDghavvpYUwsBdqWabHaJ6s8l/zjR
        aVCEGdoT1RuzS6W0aGnDR1MO8EC+HrGa1JucUM95m26HkUVVO9Hgj1ONiw==
        -----END PUBLIC KEY-----
        """)
  }

  static let promotionalOffer =
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IjJYOVI0SFhGMzQiLCJ0eXAiOiJKV1QifQ.eyJwcm9kdWN0SWQiOiJjb20uZXhhbXBsZS5hc"
    + "HAucHJvLm1vbnRobHkiLCJvZmZlcklkZW50aWZpZXIiOiJ3aW50ZXIiLCJ0cmFuc2FjdGlvbklkIjoiNDgwMDAwMDAwMDEwMDAwI"
    + "iwiYmlkIjoiY29tLmV4YW1wbGUuYXBwIiwiaXNzIjoiNTcyNDY1NDItOTZmZS0xYTYzLWUwNTMtMDgyNGQwMTEwNzJhIiwiYXVkI"
    + "joicHJvbW90aW9uYWwtb2ZmZXIiLCJpYXQiOjE3Njg0Nzg0MDAsIm5vbmNlIjoiMzY4ZjM4ODgtZGNkOC00MWVmLWIzYzgtMzI1M"
    + "Dk2YjM5ZjQ3In0.6OnvaP8Kf4v4H8L2cLTu2MEDpqSF29khR2x_V-GUX08NjYmspZPuhVARDAoJopE0DwTmwqT9nGeSwHwZb3ogi"
    + "w"

  static let promotionalOfferAlone =
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IjJYOVI0SFhGMzQiLCJ0eXAiOiJKV1QifQ.eyJwcm9kdWN0SWQiOiJjb20uZXhhbXBsZS5hc"
    + "HAucHJvLm1vbnRobHkiLCJvZmZlcklkZW50aWZpZXIiOiJ3aW50ZXIiLCJiaWQiOiJjb20uZXhhbXBsZS5hcHAiLCJpc3MiOiI1N"
    + "zI0NjU0Mi05NmZlLTFhNjMtZTA1My0wODI0ZDAxMTA3MmEiLCJhdWQiOiJwcm9tb3Rpb25hbC1vZmZlciIsImlhdCI6MTc2ODQ3O"
    + "DQwMCwibm9uY2UiOiIzNjhmMzg4OC1kY2Q4LTQxZWYtYjNjOC0zMjUwOTZiMzlmNDcifQ.KUKlRuViF4aN_tLf3F4cZLSRfMnjNa"
    + "p2hyES7Ea21yf38c03W--BldLt1qaHWwvoQgbsfqI1PiyHhWkJCA3IbA"

  static let introductoryOffer =
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IjJYOVI0SFhGMzQiLCJ0eXAiOiJKV1QifQ.eyJwcm9kdWN0SWQiOiJjb20uZXhhbXBsZS5hc"
    + "HAucHJvLm1vbnRobHkiLCJhbGxvd0ludHJvZHVjdG9yeU9mZmVyIjpmYWxzZSwidHJhbnNhY3Rpb25JZCI6IjQ4MDAwMDAwMDAxM"
    + "DAwMCIsImJpZCI6ImNvbS5leGFtcGxlLmFwcCIsImlzcyI6IjU3MjQ2NTQyLTk2ZmUtMWE2My1lMDUzLTA4MjRkMDExMDcyYSIsI"
    + "mF1ZCI6ImludHJvZHVjdG9yeS1vZmZlci1lbGlnaWJpbGl0eSIsImlhdCI6MTc2ODQ3ODQwMCwibm9uY2UiOiIzNjhmMzg4OC1kY"
    + "2Q4LTQxZWYtYjNjOC0zMjUwOTZiMzlmNDcifQ.shuijFEW-cXEM36YN358PJGrR8WSvGUzhCdJ2nCsvswNj6D7wR9qGd3qD4fiAJ"
    + "JNumz6cElPSvmv5jToZs-I2g"

  static let former =
    "MEYCIQDulE03xbpSb6WPkpFuNWi4fowBBFmRIt2G4UN0w0RuAQIhAL0eCD/VxxcGiLrj+1LlzEa5K5SpX9vAal+/FgPZqGiS"
}

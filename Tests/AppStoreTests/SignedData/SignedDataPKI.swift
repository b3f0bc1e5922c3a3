import Foundation
import JSON

@testable import AppStore

/// Certificates like Apple's for StoreKit 2: an elliptic root, an intermediate with its mark and CA:true, and a leaf on
/// P-256 with the receipt mark.
///
/// Root and intermediate are valid 2020-2040, the leaf 2023-01-01 to 2026-01-01; a test changes what it is about.
struct SignedDataPKI {
  struct Options {
    var leafMarker = true
    var intermediateMarker = true
    /// basicConstraints of the intermediate: `true`, `false`, or left out.
    var intermediateIsCA: Bool? = true
    var leafFrom = "230101000000Z"
    var leafUntil = "260101000000Z"
    var intermediateUntil = "400101000000Z"
    var rootIsRSA = false
    var leafKey: Result<TestECKey, any Error> = Keys.leaf
    /// Apart from `leafKey`: a leaf with an RSA key.
    var leafIsRSA = false
    /// Another intermediate between the one with the mark and the root.
    var extraIntermediate = false
    /// The root signs the leaf itself.
    var noIntermediate = false
    var serial: Int64 = 0x1234_5678_9ABC
  }

  /// Generated once for a test run; no test depends on their values.
  enum Keys {
    static let root = Result { try TestECKey(.p384) }
    static let otherRoot = Result { try TestECKey(.p384) }
    static let intermediate = Result { try TestECKey(.p384) }
    static let extra = Result { try TestECKey(.p384) }
    static let leaf = Result { try TestECKey() }
    static let otherLeaf = Result { try TestECKey() }
    static let wideLeaf = Result { try TestECKey(.p384) }
  }

  /// For tests that sign much and change nothing about the certificates.
  static let made = Result { try SignedDataPKI() }

  let root: [UInt8]
  let intermediate: [UInt8]
  let extra: [UInt8]?
  let leaf: [UInt8]
  let key: TestECKey

  init(_ options: Options = Options(), rootKey: Result<TestECKey, any Error> = Keys.root) throws {
    let rootKey: any TestCertificateKey = options.rootIsRSA ? try TestPKI.Keys.root.get() : try rootKey.get()
    let intermediateKey = try Keys.intermediate.get()
    key = try options.leafKey.get()
    root = try TestPKI.certificate(
      "Test Root", key: rootKey, issuer: "Test Root", issuerKey: rootKey, serial: 1, from: "200101000000Z",
      until: "400101000000Z", extensions: [TestPKI.basicConstraints(true)])
    var above: (name: String, key: any TestCertificateKey) = ("Test Root", rootKey)
    if options.extraIntermediate {
      let extraKey = try Keys.extra.get()
      extra = try TestPKI.certificate(
        "Extra", key: extraKey, issuer: "Test Root", issuerKey: rootKey, serial: 5, from: "200101000000Z",
        until: "400101000000Z", extensions: [TestPKI.basicConstraints(true)])
      above = ("Extra", extraKey)
    } else {
      extra = nil
    }
    intermediate = try TestPKI.certificate(
      TestPKI.intermediateName, key: intermediateKey, issuer: above.name, issuerKey: above.key, serial: 2,
      from: "200101000000Z", until: options.intermediateUntil,
      extensions: (options.intermediateIsCA.map { [TestPKI.basicConstraints($0)] } ?? [])
        + (options.intermediateMarker ? [TestPKI.marker(ReceiptVerifier.intermediateMarker)] : []))
    leaf = try TestPKI.certificate(
      "Signing", key: options.leafIsRSA ? try TestPKI.Keys.leaf.get() : key,
      issuer: options.noIntermediate ? "Test Root" : TestPKI.intermediateName,
      issuerKey: options.noIntermediate ? rootKey : intermediateKey, serial: options.serial, from: options.leafFrom,
      until: options.leafUntil,
      extensions: [TestPKI.basicConstraints(false)]
        + (options.leafMarker ? [TestPKI.marker(ReceiptVerifier.leafMarker)] : []))
  }

  /// As `x5c` has them.
  var chain: [[UInt8]] { [leaf, intermediate, root] }

  func roots() throws -> TrustedRoots {
    guard let roots = TrustedRoots(ders: [root]) else { throw TestKey.Failure() }
    return roots
  }

  func verifier(acceptsXcode: Bool = false, cachedChains: Int = 64) throws -> SignedDataVerifier {
    SignedDataVerifier(roots: try roots(), acceptsXcode: acceptsXcode, cachedChains: cachedChains)
  }

  /// A JWS of this PKI.
  func sign(_ payload: [String: Any]) throws -> String { try TestJWS(payload, self).text() }

  func sign(_ payload: String) throws -> String {
    var jws = try TestJWS([:], self)
    jws.payload = Array(payload.utf8)
    return try jws.text()
  }
}

/// A JWS made for a test, in which everything can be wrong.
struct TestJWS {
  var payload: [UInt8]
  var certificates: [[UInt8]]
  var key: TestECKey
  /// `nil` leaves it out.
  var algorithm: String? = "ES256"
  var moreHeader: [String: Any] = [:]
  var signatureInDER = false

  init(_ payload: [String: Any], _ pki: SignedDataPKI) throws {
    self.payload = try [UInt8](JSONSerialization.data(withJSONObject: payload, options: [.sortedKeys]))
    certificates = pki.chain
    key = pki.key
  }

  func text() throws -> String {
    var header: [String: Any] = ["x5c": certificates.map { Data($0).base64EncodedString() }]
    header["alg"] = algorithm
    header.merge(moreHeader) { $1 }
    let encoded = try [UInt8](JSONSerialization.data(withJSONObject: header, options: [.sortedKeys]))
    let signed = Base64URL.encode(encoded) + "." + Base64URL.encode(payload)
    let bytes = Array(signed.utf8)
    let signature = signatureInDER ? try key.signatureInDER(over: bytes) : try key.sign(bytes)
    return signed + "." + Base64URL.encode(signature)
  }
}

/// Payloads with everything in them, in which a test changes what it is about. `NSNull` leaves a member out.
enum SignedSample {
  /// 2024-06-15T12:00:00Z, in milliseconds.
  static let signedDate: Int64 = 1_718_452_800_000
  static let now = Date(timeIntervalSince1970: 1_718_453_400)

  static func transaction(_ changes: [String: Any] = [:]) -> [String: Any] {
    changed(
      [
        "transactionId": "2000000000000002", "originalTransactionId": "2000000000000001",
        "webOrderLineItemId": "2000000000000009", "bundleId": "com.example.app",
        "productId": "com.example.app.pro.monthly", "subscriptionGroupIdentifier": "21000001",
        "purchaseDate": 1_718_359_200_000, "originalPurchaseDate": 1_715_680_800_000,
        "expiresDate": 1_720_951_200_000, "quantity": 1, "type": "Auto-Renewable Subscription",
        "inAppOwnershipType": "PURCHASED", "signedDate": signedDate, "environment": "Production",
        "transactionReason": "RENEWAL", "storefront": "USA", "storefrontId": "143441", "price": 9_990,
        "currency": "USD", "appTransactionId": "704000000000000001",
      ], by: changes)
  }

  static func renewalInfo(_ changes: [String: Any] = [:]) -> [String: Any] {
    changed(
      [
        "originalTransactionId": "2000000000000001", "autoRenewProductId": "com.example.app.pro.yearly",
        "productId": "com.example.app.pro.monthly", "autoRenewStatus": 1, "signedDate": signedDate,
        "environment": "Production", "recentSubscriptionStartDate": 1_715_680_800_000,
        "renewalDate": 1_720_951_200_000,
      ], by: changes)
  }

  static func notification(
    _ changes: [String: Any] = [:], data: [String: Any] = [:], transaction: String? = nil, renewalInfo: String? = nil
  ) -> [String: Any] {
    var body = changed(
      [
        "appAppleId": 1_234_567_890, "bundleId": "com.example.app", "bundleVersion": "42",
        "environment": "Production", "status": 1,
      ], by: data)
    body["signedTransactionInfo"] = transaction
    body["signedRenewalInfo"] = renewalInfo
    return changed(
      [
        "notificationType": "DID_RENEW", "subtype": "BILLING_RECOVERY",
        "notificationUUID": "76f20213-87fe-5260-9d8a-34148d8e4312", "version": "2.0",
        "signedDate": signedDate + 5_000, "data": body,
      ], by: changes)
  }

  private static func changed(_ members: [String: Any], by changes: [String: Any]) -> [String: Any] {
    members.merging(changes) { $1 }.filter { !($0.value is NSNull) }
  }

  static func moment(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }
}

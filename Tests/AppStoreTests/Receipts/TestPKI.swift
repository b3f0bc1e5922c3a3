@testable import AppStore

/// Certificates like Apple's: root, intermediate with its mark and CA:true, leaf with the receipt mark.
///
/// Root and intermediate are valid 2020-2040, the leaf 2023-01-01 to 2026-01-01; a test changes what it is about.
struct TestPKI {
  struct Options {
    var leafMarker = true
    var intermediateMarker = true
    /// basicConstraints of the intermediate: `true`, `false`, or left out.
    var intermediateIsCA: Bool? = true
    var leafFrom = "230101000000Z"
    var leafUntil = "260101000000Z"
    var intermediateUntil = "400101000000Z"
    var rootUntil = "400101000000Z"
    var leafName = "Receipt Signing"
    /// Another intermediate between the one with the mark and the root.
    var extraIntermediate = false
    /// The root signs the leaf itself.
    var noIntermediate = false
  }

  /// Generated once for a test run; no test depends on their values.
  enum Keys {
    static let root = Result { try TestKey() }
    static let otherRoot = Result { try TestKey() }
    static let intermediate = Result { try TestKey() }
    static let extra = Result { try TestKey() }
    static let leaf = Result { try TestKey() }
    static let otherLeaf = Result { try TestKey() }
  }

  static let intermediateName = "Test Developer Relations"

  let root: [UInt8]
  let intermediate: [UInt8]
  let extra: [UInt8]?
  let leaf: [UInt8]
  let leafIssuer: String
  let leafSerial: Int64 = 0x1234_5678_9ABC
  let leafKey: TestKey

  init(_ options: Options = Options(), rootKey: Result<TestKey, any Error> = Keys.root) throws {
    let rootKey = try rootKey.get()
    let intermediateKey = try Keys.intermediate.get()
    leafKey = try Keys.leaf.get()
    root = try Self.certificate(
      "Test Root", key: rootKey, issuer: "Test Root", issuerKey: rootKey, serial: 1, from: "200101000000Z",
      until: options.rootUntil, extensions: [Self.basicConstraints(true)])
    var aboveName = "Test Root"
    var aboveKey = rootKey
    if options.extraIntermediate {
      aboveName = "Extra"
      aboveKey = try Keys.extra.get()
      extra = try Self.certificate(
        aboveName, key: aboveKey, issuer: "Test Root", issuerKey: rootKey, serial: 5, from: "200101000000Z",
        until: "400101000000Z", extensions: [Self.basicConstraints(true)])
    } else {
      extra = nil
    }
    intermediate = try Self.certificate(
      Self.intermediateName, key: intermediateKey, issuer: aboveName, issuerKey: aboveKey, serial: 2,
      from: "200101000000Z", until: options.intermediateUntil,
      extensions: (options.intermediateIsCA.map { [Self.basicConstraints($0)] } ?? [])
        + (options.intermediateMarker ? [Self.marker(ReceiptVerifier.intermediateMarker)] : []))
    leafIssuer = options.noIntermediate ? "Test Root" : Self.intermediateName
    leaf = try Self.certificate(
      options.leafName, key: leafKey, issuer: leafIssuer, issuerKey: options.noIntermediate ? rootKey : intermediateKey,
      serial: leafSerial, from: options.leafFrom, until: options.leafUntil,
      extensions: [Self.basicConstraints(false)] + (options.leafMarker ? [Self.marker(ReceiptVerifier.leafMarker)] : [])
    )
  }

  var bag: [[UInt8]] { [leaf, intermediate] + (extra.map { [$0] } ?? []) + [root] }

  func roots() throws -> TrustedRoots {
    guard let roots = TrustedRoots(ders: [root]) else { throw TestKey.Failure() }
    return roots
  }

  static func certificate(
    _ subject: String, key: any TestCertificateKey, issuer: String, issuerKey: any TestCertificateKey, serial: Int64,
    from: String, until: String, extensions: [[UInt8]]
  ) throws -> [UInt8] {
    let algorithm = issuerKey.signatureAlgorithm
    let body = DER.sequence(
      DER.explicit(0, DER.integer(2)), DER.integer(serial), algorithm, DER.name(issuer),
      DER.sequence(DER.utcTime(from), DER.utcTime(until)), DER.name(subject), try key.publicKeyInfo(),
      DER.explicit(3, DER.tlv(0x30, extensions.flatMap { $0 })))
    return DER.sequence(body, algorithm, DER.bits(try issuerKey.signatureInDER(over: body)))
  }

  static func basicConstraints(_ isCA: Bool) -> [UInt8] {
    DER.sequence(DER.oid("2.5.29.19"), DER.yes, DER.octets(isCA ? DER.sequence(DER.yes) : DER.sequence()))
  }

  static func marker(_ identifier: String) -> [UInt8] {
    DER.sequence(DER.oid(identifier), DER.octets(DER.null))
  }
}

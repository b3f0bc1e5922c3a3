import Crypto
import Foundation
package import struct FoundationEssentials.Date
import SwiftASN1
import X509

/// A certificate authority that lives as long as a test: one root, and server certificates under it.
///
/// P-256 throughout. The root's PEM file lies in a directory of its own, which goes when the authority does.
package final class TestCertificateAuthority: Sendable {
  /// A server's certificate and key, PEM.
  package struct Identity: Sendable {
    package let certificatePEM: String
    package let privateKeyPEM: String
  }

  /// 2020-01-01, the begin of everything's validity unless told otherwise.
  package static let defaultStart = Date(timeIntervalSince1970: 1_577_836_800)
  /// 2049-01-01.
  package static let defaultEnd = Date(timeIntervalSince1970: 2_493_072_000)

  /// The root, PEM.
  package let rootPEM: String
  /// The file that holds `rootPEM`, for a client's list of trusted authorities.
  package let caFile: String

  private let directory: URL
  private let name: DistinguishedName
  private let key: Certificate.PrivateKey

  package init(commonName: String = "Countersign Test Root") throws {
    key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    name = try DistinguishedName { CommonName(commonName) }
    let root = try Certificate(
      version: .v3,
      serialNumber: Certificate.SerialNumber(),
      publicKey: key.publicKey,
      notValidBefore: Self.defaultStart,
      notValidAfter: Self.defaultEnd,
      issuer: name,
      subject: name,
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        Critical(KeyUsage(keyCertSign: true))
      },
      issuerPrivateKey: key)
    rootPEM = try root.serializeAsPEM().pemString
    directory = FileManager.default.temporaryDirectory.appending(path: "countersign-ca-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let file = directory.appending(path: "root.pem")
    try Data(rootPEM.utf8).write(to: file)
    caFile = file.path
  }

  deinit {
    // Best effort: what stays behind is one public certificate in the temporary directory.
    try? FileManager.default.removeItem(at: directory)
  }

  /// A server certificate for these DNS names and IPv4 addresses.
  package func serverIdentity(
    names: [String] = ["localhost"],
    addresses: [String] = ["127.0.0.1"],
    validFrom: Date = TestCertificateAuthority.defaultStart,
    validUntil: Date = TestCertificateAuthority.defaultEnd
  ) throws -> Identity {
    let leafKey = P256.Signing.PrivateKey()
    let alternatives =
      names.map { GeneralName.dnsName($0) }
      + addresses.map { address in
        let bytes = address.split(separator: ".").compactMap { UInt8($0) }
        return GeneralName.ipAddress(ASN1OctetString(contentBytes: bytes[...]))
      }
    let leaf = try Certificate(
      version: .v3,
      serialNumber: Certificate.SerialNumber(),
      publicKey: Certificate.PublicKey(leafKey.publicKey),
      notValidBefore: validFrom,
      notValidAfter: validUntil,
      issuer: name,
      subject: DistinguishedName { CommonName(names.first ?? addresses.first ?? "server") },
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        Critical(KeyUsage(digitalSignature: true))
        try ExtendedKeyUsage([.serverAuth])
        SubjectAlternativeNames(alternatives)
      },
      issuerPrivateKey: key)
    return Identity(
      certificatePEM: try leaf.serializeAsPEM().pemString,
      privateKeyPEM: leafKey.pemRepresentation)
  }
}

import Crypto
import FoundationEssentials
import SwiftASN1
import X509
import _CryptoExtras

/// The development certificates and keys, ready for use. See `DevelopmentKeys` for why the keys may be public.
struct DevelopmentPKI: Sendable {
  /// A certificate with its key.
  struct Signer: Sendable {
    let certificate: Certificate
    let der: [UInt8]
    let key: _RSA.Signing.PrivateKey

    init(certificate: String, key: String) throws {
      let document = try PEMDocument(pemString: certificate)
      self.certificate = try Certificate(pemDocument: document)
      self.der = document.derBytes
      self.key = try _RSA.Signing.PrivateKey(pemRepresentation: key)
    }
  }

  let root: Signer
  let leaf: Signer
  let transaction: Signer
  let xcode: Signer
  let intermediateDER: [UInt8]
  let signedData: SignedDataSigner

  init() throws {
    root = try Signer(certificate: DevelopmentKeys.rootCertificate, key: DevelopmentKeys.rootKey)
    leaf = try Signer(certificate: DevelopmentKeys.leafCertificate, key: DevelopmentKeys.leafKey)
    transaction = try Signer(certificate: DevelopmentKeys.transactionCertificate, key: DevelopmentKeys.transactionKey)
    xcode = try Signer(certificate: DevelopmentKeys.xcodeCertificate, key: DevelopmentKeys.xcodeKey)
    intermediateDER = try PEMDocument(pemString: DevelopmentKeys.intermediateCertificate).derBytes
    signedData = try SignedDataSigner(
      key: P256.Signing.PrivateKey(pemRepresentation: DevelopmentKeys.signedDataLeafKey),
      chain: [
        DevelopmentKeys.signedDataLeafCertificate, DevelopmentKeys.signedDataIntermediateCertificate,
        DevelopmentKeys.signedDataRootCertificate,
      ].map { try PEMDocument(pemString: $0).derBytes })
  }

  /// Both roots in PEM, for a configuration file: the one of receipts and TLS, and the one of signed data.
  static var rootPEM: String {
    DevelopmentKeys.rootCertificate + "\n" + DevelopmentKeys.signedDataRootCertificate + "\n"
  }
}

extension DevelopmentPKI {
  /// A certificate for the simulator's own TLS listener, and its key, both PEM.
  struct ServerIdentity: Sendable {
    let certificatePEM: String
    let keyPEM: String
  }

  /// Issues a TLS certificate for this machine's loopback names and one more host, from a week ago to a month from now.
  ///
  /// It is issued at every start, by the real clock: the simulated one dates purchases, not TLS certificates.
  func makeServerIdentity(host: String, at now: Date = Date()) throws -> ServerIdentity {
    let key = P256.Signing.PrivateKey()
    var names: [GeneralName] = [
      .dnsName("localhost"),
      .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
      .ipAddress(ASN1OctetString(contentBytes: Array(repeating: 0, count: 15) + [1])),
    ]
    let octets = host.split(separator: ".", omittingEmptySubsequences: false).compactMap { UInt8($0) }
    if octets.count == 4 {
      names.append(.ipAddress(ASN1OctetString(contentBytes: octets[...])))
    } else if !host.contains(":"), host != "localhost" {
      names.append(.dnsName(host))
    }
    let day: TimeInterval = 86_400
    let certificate = try Certificate(
      version: .v3,
      serialNumber: Certificate.SerialNumber(),
      publicKey: Certificate.PublicKey(key.publicKey),
      notValidBefore: now - 7 * day,
      notValidAfter: now + 30 * day,
      issuer: root.certificate.subject,
      subject: DistinguishedName { CommonName("Countersign Simulator") },
      signatureAlgorithm: .sha256WithRSAEncryption,
      extensions: Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        Critical(KeyUsage(digitalSignature: true))
        try ExtendedKeyUsage([.serverAuth])
        SubjectAlternativeNames(names)
      },
      issuerPrivateKey: Certificate.PrivateKey(root.key))
    return ServerIdentity(
      certificatePEM: try certificate.serializeAsPEM().pemString, keyPEM: key.pemRepresentation)
  }
}

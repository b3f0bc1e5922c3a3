import FoundationEssentials

/// The development certificates and keys, ready for use. See `DevelopmentKeys` for why the keys may be public.
struct DevelopmentPKI: Sendable {
  /// A certificate with its key.
  struct Signer: Sendable {
    let certificate: X509Certificate
    let der: [UInt8]
    let issuerAndSerialNumber: [UInt8]
    let key: SigningKey

    init(certificate: String, key: String) throws {
      self.certificate = try X509Certificate(pem: certificate)
      der = try self.certificate.der()
      issuerAndSerialNumber = try self.certificate.issuerAndSerialNumber()
      self.key = try SigningKey(pem: key)
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
    intermediateDER = try X509Certificate(pem: DevelopmentKeys.intermediateCertificate).der()
    signedData = try SignedDataSigner(
      key: SigningKey(pem: DevelopmentKeys.signedDataLeafKey),
      chain: [
        DevelopmentKeys.signedDataLeafCertificate, DevelopmentKeys.signedDataIntermediateCertificate,
        DevelopmentKeys.signedDataRootCertificate,
      ].map { try X509Certificate(pem: $0).der() })
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
  ///
  /// - Parameter start: an earlier begin, for a client whose own clock is behind.
  func makeServerIdentity(host: String, at now: Date = Date(), since start: Date? = nil) throws -> ServerIdentity {
    var names = ["DNS:localhost", "IP:127.0.0.1", "IP:::1"]
    let octets = host.split(separator: ".", omittingEmptySubsequences: false).compactMap { UInt8($0) }
    if octets.count == 4 {
      names.append("IP:" + octets.map(String.init).joined(separator: "."))
    } else if host != "localhost", Self.isName(host) {
      names.append("DNS:" + host)
    }
    let key = try SigningKey()
    let day: TimeInterval = 86_400
    let certificate = try X509Certificate(
      commonName: "Countersign Simulator", names: names, key: key, validity: (start ?? now - 7 * day)..<now + 30 * day,
      issuer: root.certificate, issuerKey: root.key)
    return ServerIdentity(certificatePEM: try certificate.pem(), keyPEM: try key.pem())
  }

  /// Whether a host is a DNS name, and not an IPv6 address.
  private static func isName(_ host: String) -> Bool {
    !host.isEmpty && host.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) }
  }
}

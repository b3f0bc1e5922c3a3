import Files
import FoundationEssentials

package struct TrustedRoots: Sendable {
  /// Why files cannot serve as roots. `description` is a sentence for the operator that names the file.
  package enum Invalid: Error, Hashable, CustomStringConvertible {
    case unreadable(path: String)
    case tooLarge(path: String)
    case noCertificate(path: String)
    case brokenCertificate(path: String)
    case notRoot(path: String, subject: String)
    case noFiles

    package var description: String {
      switch self {
      case .unreadable(let path): "\(path): no readable file; give the path of a certificate in DER or PEM."
      case .tooLarge(let path): "\(path): larger than 256 KiB; a file of root certificates is a few KiB."
      case .noCertificate(let path): "\(path): no certificate in it; give one in DER, or one or more in PEM."
      case .brokenCertificate(let path): "\(path): a certificate in it cannot be read."
      case .notRoot(let path, let subject):
        "\(path): \(subject) is not a root (it is issued by another); give the root that it leads to."
      case .noFiles: "No file of root certificates is given."
      }
    }
  }

  static let fileLimit = 256 * 1_024

  /// Apple's three roots, part of the binary.
  package static let apple = built(fromBase64: AppleRoots.base64)

  /// Each root in DER.
  package let certificates: [[UInt8]]
  let store: CertificateStore

  /// - Parameter files: certificates in DER, or any number of them in PEM.
  package init(files: [String]) throws(Invalid) {
    guard !files.isEmpty else { throw .noFiles }
    var roots: [Certificate] = []
    for path in files { roots += try Self.read(path) }
    guard let built = TrustedRoots(roots) else { throw .brokenCertificate(path: files.joined(separator: ", ")) }
    self = built
  }

  /// - Parameter ders: one certificate each; `nil` when one cannot be read or is no root.
  package init?(ders: [[UInt8]]) {
    let roots = ders.compactMap { Certificate(der: $0) }
    guard roots.count == ders.count, roots.allSatisfy(\.isSelfIssued) else { return nil }
    self.init(roots)
  }

  private init?(_ roots: [Certificate]) {
    guard let store = CertificateStore(roots: roots) else { return nil }
    certificates = roots.map(\.der)
    self.store = store
  }

  /// The built-in roots. A process that cannot read its own constants stops at once rather than refusing every receipt.
  private static func built(fromBase64 texts: [String]) -> TrustedRoots {
    let ders = texts.compactMap { Data(base64Encoded: $0).map { [UInt8]($0) } }
    let roots = TrustedRoots(ders: ders)
    guard let roots, ders.count == texts.count else { preconditionFailure("the built-in root certificates are broken") }
    return roots
  }

  private static func read(_ path: String) throws(Invalid) -> [Certificate] {
    let bytes: [UInt8]
    do throws(BoundedFile.Unusable) { bytes = try BoundedFile(path: path, limit: fileLimit).bytes } catch {
      throw error.isTooLarge ? .tooLarge(path: path) : .unreadable(path: path)
    }
    let roots: [Certificate]
    if bytes.first == 0x30 {
      guard let certificate = Certificate(der: bytes) else { throw .brokenCertificate(path: path) }
      roots = [certificate]
    } else {
      roots = try certificates(inPEM: String(decoding: bytes, as: UTF8.self), path: path)
    }
    if let other = roots.first(where: { !$0.isSelfIssued }) { throw .notRoot(path: path, subject: other.subject) }
    return roots
  }

  private static func certificates(inPEM text: String, path: String) throws(Invalid) -> [Certificate] {
    var certificates: [Certificate] = []
    var body: String?
    for line in text.split(whereSeparator: \.isNewline) {
      switch line.trimmingPrefix(while: \.isWhitespace) {
      case let line where line.hasPrefix("-----BEGIN CERTIFICATE-----"): body = ""
      case let line where line.hasPrefix("-----END CERTIFICATE-----"):
        guard let text = body, let der = Data(base64Encoded: text), let certificate = Certificate(der: der) else {
          throw .brokenCertificate(path: path)
        }
        certificates.append(certificate)
        body = nil
      case let line: body?.append(contentsOf: line.filter { !$0.isWhitespace })
      }
    }
    guard body == nil else { throw .brokenCertificate(path: path) }
    guard !certificates.isEmpty else { throw .noCertificate(path: path) }
    return certificates
  }
}

extension TrustedRoots {
  /// The chain from a signer through Apple's intermediate to one of these roots: three certificates, the first two with
  /// Apple's marks, each valid at `moment`.
  func appleChain(
    from signer: Certificate, through certificates: [Certificate], at moment: Date
  ) throws(NotAuthentic) -> [Certificate] {
    guard signer.hasExtension(ReceiptVerifier.leafMarker) else { throw .signerNotForReceipts }
    let chain: [Certificate]
    do {
      chain = try store.chain(from: signer, through: certificates, at: moment)
    } catch {
      throw NotAuthentic(error)
    }
    guard chain.count == 3 else { throw .wrongChainLength }
    let intermediate = chain[1]
    guard intermediate.isCertificateAuthority else { throw .intermediateNotAuthority }
    guard intermediate.hasExtension(ReceiptVerifier.intermediateMarker) else { throw .intermediateNotAppStore }
    // OpenSSL ends chains in its store only; this holds the promise to the bytes of the root.
    guard self.certificates.contains(chain[2].der) else { throw .untrustedRoot }
    return chain
  }
}

extension NotAuthentic {
  fileprivate init(_ failure: CertificateStore.Failure) {
    self =
      switch failure {
      case .unavailable: .uncheckable
      case .noTrustedRoot: .untrustedRoot
      case .notAuthority: .intermediateNotAuthority
      case .notYetValid(let position): .notYetValid(Link(position: position))
      case .expired(let position): .expired(Link(position: position))
      case .tooLong: .wrongChainLength
      case .other(let words): .brokenChain(words)
      }
  }
}

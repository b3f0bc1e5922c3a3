import Entitlements
import Files
package import FoundationEssentials
import NIOCore
package import NIOSSL
import Synchronization

/// The server's TLS identity: its certificate, the intermediates, and the private key.
package struct ServerIdentity: Sendable {
  /// The reason why the files cannot be used, as the end of a sentence about one of them. It contains nothing of the key.
  package struct Unusable: Error, Hashable {
    package var isAboutKey: Bool
    package var sentence: String
  }

  static let fileLimit = 1 << 20

  /// The server's own first.
  let chain: [NIOSSLCertificate]
  package let key: NIOSSLPrivateKey
  package let isKeyWorldReadable: Bool
  /// The validity of the server's own certificate.
  let begin: Date
  package let end: Date

  package init(_ files: ServerSettings.TLS) throws(Unusable) {
    let certificates = try Self.read(files.certificateFile, isKey: false)
    let keyFile = try Self.read(files.keyFile, isKey: true)
    guard let chain = try? NIOSSLCertificate.fromPEMBytes(certificates.bytes), let leaf = chain.first else {
      throw Unusable(isAboutKey: false, sentence: "the file that it names holds no certificate in PEM")
    }
    guard let key = Self.key(keyFile.bytes) else {
      throw Unusable(
        isAboutKey: true, sentence: "the file that it names holds no private key in PEM, or one with a passphrase")
    }
    self.chain = chain
    self.key = key
    isKeyWorldReadable = keyFile.isWorldReadable
    begin = Date(timeIntervalSince1970: Double(leaf.notValidBefore))
    end = Date(timeIntervalSince1970: Double(leaf.notValidAfter))
    guard Self.belongsTogether(leaf, key) else {
      throw Unusable(
        isAboutKey: true,
        sentence: "the key is not that of the first certificate in server.tls.certificate_file; the server's own "
          + "certificate comes first, its intermediates behind it")
    }
  }

  private static func read(_ path: String, isKey: Bool) throws(Unusable) -> BoundedFile {
    do throws(BoundedFile.Unusable) {
      return try BoundedFile(path: path, limit: fileLimit)
    } catch {
      throw Unusable(isAboutKey: isKey, sentence: "the file that it names \(error.reason)")
    }
  }

  /// A key with a passphrase is refused: nobody could type it, and the prompt would wait for ever.
  private static func key(_ bytes: [UInt8]) -> NIOSSLPrivateKey? {
    try? NIOSSLPrivateKey(bytes: bytes, format: .pem) { (setter: NIOSSLPassphraseSetter<[UInt8]>) in setter([]) }
  }

  private static func belongsTogether(_ leaf: NIOSSLCertificate, _ key: NIOSSLPrivateKey) -> Bool {
    let configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [.certificate(leaf)], privateKey: .privateKey(key))
    return (try? NIOSSLContext(configuration: configuration)) != nil
  }

  /// The fault in the period of validity, as the end of a sentence; `nil` for a valid one.
  package func lapse(at now: Date) -> String? {
    if now < begin { return "the certificate counts from \(begin.rfc3339) on only; clients refuse it" }
    if now >= end { return "the certificate ended at \(end.rfc3339); clients refuse it; renew it" }
    return nil
  }
}

/// The identity for new connections; it can be replaced while the service runs.
package final class ServerIdentities: Sendable {
  enum Look: Hashable {
    case same
    case renewed(end: Date)
    /// The previous identity stays.
    case unusable(String)
  }

  private let files: ServerSettings.TLS
  /// Guards the current identity.
  private let shown: Mutex<ServerIdentity>

  package init(_ files: ServerSettings.TLS) throws(ServerIdentity.Unusable) {
    self.files = files
    shown = Mutex(try ServerIdentity(files))
  }

  package var current: ServerIdentity { shown.withLock { $0 } }

  /// Reads the files again. A key that does not match the certificate changes nothing: they are replaced one after the other.
  func look() -> Look {
    do throws(ServerIdentity.Unusable) {
      let found = try ServerIdentity(files)
      return shown.withLock { shown in
        guard found.chain != shown.chain || found.key != shown.key else { return .same }
        shown = found
        return .renewed(end: found.end)
      }
    } catch { return .unusable(error.sentence) }
  }

  /// TLS 1.2 or newer, of 1.2 the suites with forward secrecy and AEAD alone (RFC 9325, section 4.2), HTTP/1.1. The identity is
  /// looked up for each handshake and is not in the configuration itself: NIO appends the chain of an override to the
  /// configured one instead of replacing it.
  package var tlsConfiguration: TLSConfiguration {
    let identity = current
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [], privateKey: .privateKey(identity.key))
    configuration.privateKey = nil
    configuration.minimumTLSVersion = .tlsv12
    configuration.cipherSuites = "ECDHE+AESGCM:ECDHE+CHACHA20"
    configuration.applicationProtocols = ["http/1.1"]
    configuration.sslContextCallback = { _, promise in
      let identity = self.current
      var override = NIOSSLContextConfigurationOverride()
      override.certificateChain = identity.chain.map { .certificate($0) }
      override.privateKey = .privateKey(identity.key)
      promise.succeed(override)
    }
    return configuration
  }
}

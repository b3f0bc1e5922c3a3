import COpenSSL
import Cryptography

/// A private key on P-256 (`EVP_PKEY *`), as Apple hands it out in a `.p8` file.
///
/// `@unchecked Sendable`: never changed after `init`; OpenSSL counts its references atomically, and each signature is
/// made in a context that belongs to the call.
package final class ES256Key: @unchecked Sendable {
  /// Why a text is no such key. `description` is a sentence for the operator; it quotes nothing of the text.
  package enum Invalid: Error, Hashable, Sendable, CaseIterable, CustomStringConvertible {
    case tooLarge
    case notPEM
    case encrypted
    case notPrivate
    case unreadable
    case notP256

    package var description: String {
      switch self {
      case .tooLarge: "The text is larger than 16 KiB, which no key is; give the .p8 file from Apple."
      case .notPEM:
        "There is no key in PEM (-----BEGIN PRIVATE KEY-----) in it; give the .p8 file from Apple."
      case .encrypted: "The key is encrypted with a passphrase; give it without one, as Apple hands it out."
      case .notPrivate:
        "It holds a public key or a certificate; give the private key, the .p8 file from Apple."
      case .unreadable: "The key cannot be read; give the .p8 file from Apple as it is."
      case .notP256: "The key is not on the curve P-256; Apple takes no other."
      }
    }
  }

  /// libcrypto could not sign: it is out of memory or has lost its provider.
  package struct Failure: Error, Hashable, Sendable {}

  /// The longest text that is looked at.
  package static let limit = 16 * 1_024

  private let key: OpaquePointer

  /// - Parameter pem: PKCS#8 (`BEGIN PRIVATE KEY`), or the older form (`BEGIN EC PRIVATE KEY`).
  package init(pem: String) throws(Invalid) {
    guard pem.utf8.count <= Self.limit else { throw .tooLarge }
    guard pem.contains("-----BEGIN ") else { throw .notPEM }
    guard !pem.contains("ENCRYPTED") else { throw .encrypted }
    guard pem.contains("PRIVATE KEY-----") else { throw .notPrivate }
    defer { ERR_clear_error() }
    let text = Array(pem.utf8)
    let read = text.withUnsafeBytes { octets -> OpaquePointer? in
      guard let bio = BIO_new_mem_buf(octets.baseAddress, Int32(octets.count)) else { return nil }
      defer { BIO_free(bio) }
      // OpenSSL's own callback would ask for a passphrase at the terminal.
      return PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in -1 }, nil)
    }
    guard let read else { throw .unreadable }
    guard ES256Signature.isKey(read) else {
      EVP_PKEY_free(read)
      throw .notP256
    }
    key = read
  }

  deinit { EVP_PKEY_free(key) }

  /// Signs with SHA-256 (`ES256`, RFC 7518, section 3.4).
  ///
  /// - Returns: r and s, 64 octets.
  func sign(_ bytes: [UInt8]) throws(Failure) -> [UInt8] {
    defer { ERR_clear_error() }
    guard let context = EVP_MD_CTX_new() else { throw Failure() }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1 else { throw Failure() }
    var length = 0
    guard EVP_DigestSign(context, nil, &length, bytes, bytes.count) == 1 else { throw Failure() }
    var der = [UInt8](repeating: 0, count: length)
    guard EVP_DigestSign(context, &der, &length, bytes, bytes.count) == 1 else { throw Failure() }
    guard let raw = ES256Signature.raw(fromDER: Array(der.prefix(length))) else { throw Failure() }
    return raw
  }
}

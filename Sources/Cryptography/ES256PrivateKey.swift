import COpenSSL

/// A private key on P-256 (`EVP_PKEY *`), as a `.p8` file of Apple's has it.
///
/// `@unchecked Sendable`: never changed after `init`; OpenSSL counts its references atomically, and each signature is
/// made in a context that belongs to the call.
package final class ES256PrivateKey: @unchecked Sendable {
  /// Why a text is no such key. `description` is a sentence for the operator; it quotes nothing of the text.
  package enum Invalid: Error, Hashable, Sendable, CaseIterable, CustomStringConvertible {
    case tooLarge, notPEM, encrypted, notPrivate, unreadable, notP256

    package var description: String {
      switch self {
      case .tooLarge: "The text is larger than 16 KiB, which no key is."
      case .notPEM: "There is no key in PEM (-----BEGIN PRIVATE KEY-----) in it."
      case .encrypted: "The key is encrypted with a passphrase; give it without one."
      case .notPrivate: "It holds a public key or a certificate; give the private key."
      case .unreadable: "The key cannot be read."
      case .notP256: "The key is not on the curve P-256."
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

  private init(key: OpaquePointer) { self.key = key }

  deinit { EVP_PKEY_free(key) }

  /// A new key.
  package static func random() throws(Failure) -> ES256PrivateKey {
    defer { ERR_clear_error() }
    guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { throw Failure() }
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_group_name(context, "prime256v1") == 1,
      EVP_PKEY_generate(context, &key) == 1, let key
    else { throw Failure() }
    return ES256PrivateKey(key: key)
  }

  /// The key as PKCS#8 in PEM (`BEGIN PRIVATE KEY`), not encrypted.
  package func pem() throws(Failure) -> String {
    defer { ERR_clear_error() }
    guard let bio = BIO_new(BIO_s_mem()) else { throw Failure() }
    defer { BIO_free(bio) }
    guard PEM_write_bio_PKCS8PrivateKey(bio, key, nil, nil, 0, nil, nil) == 1 else { throw Failure() }
    var text = [UInt8](repeating: 0, count: Self.limit)
    let count = BIO_read(bio, &text, Int32(text.count))
    guard count > 0 else { throw Failure() }
    return String(decoding: text.prefix(Int(count)), as: UTF8.self)
  }

  /// The point of the public key: two numbers of 32 octets, big-endian (RFC 7518, section 6.2.1).
  package func point() throws(Failure) -> (x: [UInt8], y: [UInt8]) {
    defer { ERR_clear_error() }
    // 4, x, y: the uncompressed form (SEC 1, section 2.3.3).
    var octets = [UInt8](repeating: 0, count: 65)
    var count = 0
    guard EVP_PKEY_get_octet_string_param(key, "encoded-pub-key", &octets, octets.count, &count) == 1,
      count == octets.count, octets.first == 4
    else { throw Failure() }
    return (Array(octets[1..<33]), Array(octets[33...]))
  }

  /// Signs with SHA-256 (`ES256`, RFC 7518, section 3.4).
  ///
  /// - Returns: r and s, 64 octets.
  package func sign(_ bytes: [UInt8]) throws(Failure) -> [UInt8] {
    let der = try signInDER(bytes)
    defer { ERR_clear_error() }
    guard let raw = ES256Signature.raw(fromDER: der) else { throw Failure() }
    return raw
  }

  /// The same signature as OpenSSL writes it (RFC 3279, section 2.2.3).
  package func signInDER(_ bytes: [UInt8]) throws(Failure) -> [UInt8] {
    defer { ERR_clear_error() }
    guard let context = EVP_MD_CTX_new() else { throw Failure() }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1 else { throw Failure() }
    var length = 0
    guard EVP_DigestSign(context, nil, &length, bytes, bytes.count) == 1 else { throw Failure() }
    var der = [UInt8](repeating: 0, count: length)
    guard EVP_DigestSign(context, &der, &length, bytes, bytes.count) == 1 else { throw Failure() }
    return Array(der.prefix(length))
  }
}

import COpenSSL

/// The two forms of a signature with a key on P-256.
///
///     JWS (RFC 7518, section 3.4)   r (32 octets) | s (32 octets), big-endian
///     OpenSSL (RFC 3279)            SEQUENCE { INTEGER r, INTEGER s }
package enum ES256Signature {
  package static let length = 64

  /// - Returns: `nil` unless there are 64 octets.
  package static func der(fromRaw raw: [UInt8]) -> [UInt8]? {
    guard raw.count == length, let signature = ECDSA_SIG_new() else { return nil }
    defer { ECDSA_SIG_free(signature) }
    let half = Int32(length / 2)
    let numbers = raw.withUnsafeBufferPointer { octets in
      (BN_bin2bn(octets.baseAddress, half, nil), BN_bin2bn(octets.baseAddress.map { $0 + length / 2 }, half, nil))
    }
    guard let r = numbers.0, let s = numbers.1, ECDSA_SIG_set0(signature, r, s) == 1 else {
      BN_free(numbers.0)
      BN_free(numbers.1)
      return nil
    }
    // From here on the signature owns both numbers.
    var encoded: UnsafeMutablePointer<UInt8>?
    let count = i2d_ECDSA_SIG(signature, &encoded)
    defer { countersign_OPENSSL_free(encoded) }
    guard count > 0, let encoded else { return nil }
    return Array(UnsafeBufferPointer(start: encoded, count: Int(count)))
  }

  package static func raw(fromDER der: [UInt8]) -> [UInt8]? {
    let signature = der.withUnsafeBufferPointer { octets in
      var cursor = octets.baseAddress
      return d2i_ECDSA_SIG(nil, &cursor, octets.count)
    }
    guard let signature else { return nil }
    defer { ECDSA_SIG_free(signature) }
    guard let r = ECDSA_SIG_get0_r(signature), let s = ECDSA_SIG_get0_s(signature) else { return nil }
    var raw = [UInt8](repeating: 0, count: length)
    let half = Int32(length / 2)
    let isWritten = raw.withUnsafeMutableBufferPointer { octets in
      BN_bn2binpad(r, octets.baseAddress, half) == half
        && BN_bn2binpad(s, octets.baseAddress.map { $0 + length / 2 }, half) == half
    }
    return isWritten ? raw : nil
  }

  /// Whether a key (`EVP_PKEY *`) lies on P-256, named and not spelled out.
  package static func isKey(_ key: OpaquePointer) -> Bool {
    guard EVP_PKEY_get_base_id(key) == EVP_PKEY_EC else { return false }
    var name = [CChar](repeating: 0, count: 32)
    var length = 0
    guard EVP_PKEY_get_group_name(key, &name, name.count, &length) == 1 else { return false }
    return name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) } == Array("prime256v1".utf8)
  }
}

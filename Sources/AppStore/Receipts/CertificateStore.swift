import COpenSSL

import struct FoundationEssentials.Date

/// The certificates that chains must end in (`X509_STORE *`), and the building of such chains.
///
/// `@unchecked Sendable`: nothing is added after `init`, and OpenSSL guards a store's reference count and lookups with
/// a lock of its own; each chain is built in a context that belongs to the call.
final class CertificateStore: @unchecked Sendable {
  enum Failure: Error, Hashable {
    /// OpenSSL could not do the work (out of memory).
    case unavailable
    case noTrustedRoot, notAuthority
    /// Positions count from the signer (0) to the root.
    case notYetValid(position: Int)
    case expired(position: Int)
    case tooLong
    /// OpenSSL's own words.
    case other(String)
  }

  private let store: OpaquePointer

  init?(roots: [Certificate]) {
    guard let store = X509_STORE_new() else { return nil }
    self.store = store
    for root in roots {
      guard X509_STORE_add_cert(store, root.pointer) == 1 else {
        ERR_clear_error()
        // deinit frees the store: all properties are set.
        return nil
      }
    }
  }

  deinit { X509_STORE_free(store) }

  /// The chain from `certificate` to a trusted root, both included, every link valid at `moment`.
  ///
  /// `untrusted` may help to get there, but a chain never ends in it. SHA-1 signatures within the chain are taken: that
  /// is how Apple's older intermediates and its root are signed, and the anchor is known by its bytes.
  func chain(
    from certificate: Certificate, through untrusted: [Certificate], at moment: Date
  ) throws(Failure) -> [Certificate] {
    defer { ERR_clear_error() }
    guard let context = X509_STORE_CTX_new() else { throw .unavailable }
    defer { X509_STORE_CTX_free(context) }
    guard let helpers = countersign_sk_X509_new_null() else { throw .unavailable }
    defer { countersign_sk_X509_free(helpers) }
    for helper in untrusted {
      guard countersign_sk_X509_push(helpers, helper.pointer) > 0 else { throw .unavailable }
    }
    guard X509_STORE_CTX_init(context, store, certificate.pointer, helpers) == 1,
      let parameters = X509_STORE_CTX_get0_param(context)
    else { throw .unavailable }
    X509_VERIFY_PARAM_set_time(parameters, time_t(moment.timeIntervalSince1970.rounded(.down)))
    X509_VERIFY_PARAM_set_auth_level(parameters, 0)
    // Bounds the work; how long a chain must be is the caller's rule.
    X509_VERIFY_PARAM_set_depth(parameters, 4)

    guard X509_verify_cert(context) == 1 else { throw Self.failure(of: context) }
    guard let stack = X509_STORE_CTX_get0_chain(context) else { throw .unavailable }
    var chain: [Certificate] = []
    for index in 0..<max(0, countersign_sk_X509_num(stack)) {
      guard let pointer = countersign_sk_X509_value(stack, index), let link = Certificate(sharing: pointer) else {
        throw .unavailable
      }
      chain.append(link)
    }
    return chain
  }

  private static func failure(of context: OpaquePointer) -> Failure {
    let code = X509_STORE_CTX_get_error(context)
    let position = Int(X509_STORE_CTX_get_error_depth(context))
    return switch code {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
      X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_CERT_UNTRUSTED,
      // A namesake of the issuer: the one that is trusted did not sign this.
      X509_V_ERR_CERT_SIGNATURE_FAILURE:
      .noTrustedRoot
    case X509_V_ERR_INVALID_CA, X509_V_ERR_INVALID_NON_CA: .notAuthority
    case X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid(position: position)
    case X509_V_ERR_CERT_HAS_EXPIRED: .expired(position: position)
    case X509_V_ERR_CERT_CHAIN_TOO_LONG: .tooLong
    case X509_V_ERR_OUT_OF_MEM: .unavailable
    default: .other(X509_verify_cert_error_string(Int(code)).map { String(cString: $0) } ?? "error \(code)")
    }
  }
}

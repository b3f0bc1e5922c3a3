/// Why signed data is not taken.
package enum SignedDataError: Error, Hashable, Sendable {
  /// It cannot be read, or is of another kind than was wanted.
  case undecodable(UndecodableReceipt)
  /// It can be read, and Apple did not sign it.
  case notAuthentic(NotAuthentic)
}

extension SignedDataError: CustomStringConvertible {
  /// A sentence for whoever sent it. It quotes nothing of what was sent.
  package var description: String {
    switch self {
    case .undecodable(let error): error.detail
    case .notAuthentic(let reason): reason.description
    }
  }
}

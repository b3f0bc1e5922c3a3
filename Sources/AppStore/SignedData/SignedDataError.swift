/// The reason why signed data is rejected.
package enum SignedDataError: Error, Hashable, Sendable {
  /// The text is unreadable, or of another kind than wanted.
  case undecodable(UndecodableReceipt)
  /// The text is readable, and Apple did not sign it.
  case notAuthentic(NotAuthentic)
}

extension SignedDataError: CustomStringConvertible {
  /// A sentence for the sender. It quotes nothing of the data.
  package var description: String {
    switch self {
    case .undecodable(let error): error.detail
    case .notAuthentic(let reason): reason.description
    }
  }
}

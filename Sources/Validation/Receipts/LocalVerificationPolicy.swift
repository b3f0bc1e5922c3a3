/// The consequence of our own check of the signature (`policy.local_verification`).
package enum LocalVerificationPolicy: String, Hashable, Sendable, CaseIterable {
  /// Apple has the last word.
  case advise
  /// A submission that cannot be proven here is refused.
  case require
}

/// What is done with what our own check of the signature says (`policy.local_verification`).
package enum LocalVerificationPolicy: String, Hashable, Sendable, CaseIterable {
  /// Apple has the last word.
  case advise
  /// What cannot be proven here is refused.
  case require
}

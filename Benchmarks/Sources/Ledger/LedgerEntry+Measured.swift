package import Entitlements

extension LedgerEntry {
  /// The verdict on the user over the entry's evidence alone.
  package func evaluate() -> Entitlement { rules.evaluate(user, evidence, among: nil, given: [], at: evaluatedAt) }

  /// Computes what is written down before the writer has its turn, and leaves it at that.
  ///
  /// - Returns: how many subscriptions would be written.
  package func prepare() throws -> Int { try PreparedEntry(self).subscriptions.count }
}

/// What all the proven purchases of a user mean for a single one.
package struct PurchaseSurroundings: Sendable {
  /// A non-renewing subscription begins at the end of another.
  let periods: NonRenewingPeriods

  /// - Parameter evidence: all of the user's.
  package init(of evidence: [SubscriptionEvidence], catalog: Catalog) {
    periods = NonRenewingPeriods(of: evidence.filter { $0.provisionalUntil == nil }, catalog: catalog)
  }
}

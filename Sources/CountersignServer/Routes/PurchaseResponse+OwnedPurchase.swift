import CountersignAPI
import Entitlements
import Ledger

extension PurchaseResponse {
  init(_ purchase: OwnedPurchase, _ entitlement: Entitlement) {
    let key = purchase.evidence.key
    self.init(
      originalTransactionID: key.originalTransactionID.rawValue,
      environment: EntitlementState.Environment(key.environment), userID: purchase.owner.shown,
      ownedSince: purchase.changes.first?.recordedAt, state: ExplainedEntitlement(entitlement, after: nil),
      ownershipChanges: purchase.changes.map { HistoryEvent($0, for: purchase.owner) })
  }
}

import CountersignAPI
import Entitlements
import Validation

extension LookUpResponse {
  init(id: String, _ found: SupportLookUp.Found, purchases: [PurchaseResponse]) {
    self.init(
      id: id, foundAs: found.kinds.map(\.rawValue), userID: found.user?.rawValue, purchases: purchases,
      unowned: found.unowned.map(UnownedPurchase.init), searchedAll: found.isComplete,
      appStore: found.appStore.rawValue)
  }
}

extension LookUpResponse.UnownedPurchase {
  fileprivate init(_ purchase: SupportLookUp.UnownedPurchase) {
    self.init(
      originalTransactionID: purchase.key.originalTransactionID.rawValue,
      environment: EntitlementState.Environment(purchase.key.environment), productID: purchase.productID?.rawValue,
      accountToken: purchase.accountToken, source: purchase.source.rawValue)
  }
}

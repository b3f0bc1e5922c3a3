/// One purchase of which Apple names no end, for life or for a period of the app's own.
///
/// Apple gives it an original transaction ID of its own. A restored one has another transaction ID under the same
/// original one: a report on either is a report on both. Of other stores nothing of the kind is known.
///
/// https://developer.apple.com/documentation/appstorereceipts/original_transaction_id
struct PurchaseWithoutExpiry: Hashable {
  let environment: StoreEnvironment
  let original: OriginalTransactionID
  let product: ProductID
  let transactionOfAnotherStore: TransactionID?

  init(_ purchase: Purchase, in environment: StoreEnvironment) {
    self.environment = environment
    original = purchase.originalTransactionID
    product = purchase.productID
    transactionOfAnotherStore = original.isOfAnotherStore ? purchase.transactionID : nil
  }
}

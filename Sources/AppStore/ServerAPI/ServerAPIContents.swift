import Entitlements

import struct FoundationEssentials.Date

/// What an answer tells, verified.
enum ServerAPIContents: Sendable {
  case purchases(SignedPurchases)
  case transaction(VerifiedTransaction)
  /// The transactions of an order; empty for an order that Apple does not know.
  case order([VerifiedTransaction])

  /// Whether Apple has answered that there is no such thing. The other endpoints say so by an error.
  var isNotFound: Bool {
    guard case .order(let transactions) = self else { return false }
    return transactions.isEmpty
  }

  /// Where the next page begins; `nil` if this is all.
  var nextRevision: String? {
    switch self {
    case .purchases(let purchases): purchases.nextRevision
    case .transaction, .order: nil
    }
  }
}

/// Purchases of one customer, each signed by Apple on its own.
struct SignedPurchases: Sendable {
  struct Part: Sendable {
    var purchase: Purchase
    var renewal: RenewalInfo?
    /// The newest date of its signatures.
    var signedDate: Date
    /// The signed transaction itself.
    var text: String
    var status: Int?
  }

  var bundleID: BundleID
  var appAppleID: Int64?
  var parts: [Part]
  /// How many transactions were signed, those included that are no parts.
  var signatures: Int
  var nextRevision: String?
}

/// Checks what an answer claims: the app is ours, the store is the one that was asked, every signature is Apple's, and
/// what is signed is what it is called. A part that names no store (2021) is of the answer's.
///
/// One part that does not hold fails all of them. To leave it out would be to lose a refund.
struct ServerAPIExaminer {
  let verifier: SignedDataVerifier
  let bundleIDs: [BundleID]
  let environment: StoreEnvironment
  /// Our clock; it only refuses signatures from the future.
  let now: Date

  func contents(of response: ServerAPIResponse, asked id: String) throws(ServerAPIError) -> ServerAPIContents {
    switch response {
    case .statuses(let response): .purchases(try purchases(of: response))
    case .history(let response): .purchases(try purchases(of: response))
    case .transaction(let signed):
      .transaction(try transaction(signed, originalID: nil, id: id, bundleID: nil, at: "signedTransactionInfo"))
    case .order(let response): .order(try transactions(of: response))
    }
  }

  private func transactions(of response: OrderResponse) throws(ServerAPIError) -> [VerifiedTransaction] {
    var transactions: [VerifiedTransaction] = []
    for (index, text) in response.signedTransactions.enumerated() {
      transactions.append(
        try transaction(text, originalID: nil, id: nil, bundleID: nil, at: "signedTransactions[\(index)]"))
    }
    return transactions
  }

  private func purchases(of response: StatusesResponse) throws(ServerAPIError) -> SignedPurchases {
    try check(response.head)
    var parts: [SignedPurchases.Part] = []
    for item in response.items {
      let signed = try transaction(
        item.signedTransaction, originalID: item.originalTransactionID, id: nil, bundleID: response.head.bundleID,
        at: item.path)
      var purchase = signed.transaction.purchase
      purchase.subscriptionGroupID = purchase.subscriptionGroupID ?? item.groupID
      var signedDate = signed.transaction.signedDate
      var renewal: RenewalInfo?
      if let text = item.signedRenewal {
        let verified = try self.renewal(text, originalID: item.originalTransactionID, at: item.path)
        signedDate = max(signedDate, verified.signedDate)
        renewal = verified.renewal
      }
      parts.append(
        SignedPurchases.Part(
          purchase: purchase, renewal: renewal, signedDate: signedDate, text: item.signedTransaction,
          status: item.status))
    }
    return SignedPurchases(
      bundleID: response.head.bundleID, appAppleID: response.head.appAppleID, parts: parts, signatures: parts.count)
  }

  private func purchases(of response: HistoryResponse) throws(ServerAPIError) -> SignedPurchases {
    try check(response.head)
    var parts: [SignedPurchases.Part] = []
    for (index, text) in response.signedTransactions.enumerated() {
      let signed = try transaction(
        text, originalID: nil, id: nil, bundleID: response.head.bundleID, at: "signedTransactions[\(index)]"
      ).transaction
      // Not asked for: consumables are used up, and of subscriptions the statuses tell what is current.
      guard signed.productType != "Consumable", signed.productType != "Auto-Renewable Subscription" else { continue }
      parts.append(
        SignedPurchases.Part(purchase: signed.purchase, signedDate: signed.signedDate, text: text))
    }
    return SignedPurchases(
      bundleID: response.head.bundleID, appAppleID: response.head.appAppleID, parts: parts,
      signatures: response.signedTransactions.count, nextRevision: response.nextRevision)
  }

  private func check(_ head: ServerAPIResponseHead) throws(ServerAPIError) {
    guard bundleIDs.contains(head.bundleID) else { throw .wrongApp(head.bundleID) }
    guard head.environment == environment else { throw .invalidAnswer("environment is not the store that was asked") }
  }

  /// - Parameters:
  ///   - originalID: what the answer calls it.
  ///   - id: what was asked for.
  ///   - bundleID: the app that the answer is about; `nil` for any of ours.
  private func transaction(
    _ text: String, originalID: OriginalTransactionID?, id: String?, bundleID: BundleID?, at path: String
  ) throws(ServerAPIError) -> VerifiedTransaction {
    let verified: VerifiedTransaction
    do {
      verified = try verifier.transaction(text, now: now)
    } catch {
      throw .invalidAnswer("\(path): \(error.description)")
    }
    let transaction = verified.transaction
    guard bundleIDs.contains(transaction.bundleID) else { throw .wrongApp(transaction.bundleID) }
    guard bundleID == nil || transaction.bundleID == bundleID else {
      throw .invalidAnswer("\(path): the transaction is of another app than the answer")
    }
    guard transaction.environmentName == nil || transaction.environment == environment else {
      throw .invalidAnswer("\(path): the transaction is of another store than the one that was asked")
    }
    guard originalID == nil || transaction.purchase.originalTransactionID == originalID,
      id == nil || transaction.purchase.transactionID.rawValue == id
    else { throw .invalidAnswer("\(path): another transaction than the answer calls it") }
    return verified
  }

  private func renewal(
    _ text: String, originalID: OriginalTransactionID, at path: String
  ) throws(ServerAPIError) -> SignedRenewalInfo {
    let verified: VerifiedRenewalInfo
    do {
      verified = try verifier.renewalInfo(text, now: now)
    } catch {
      throw .invalidAnswer("\(path): \(error.description)")
    }
    let renewal = verified.renewalInfo
    guard renewal.environmentName == nil || renewal.environment == environment else {
      throw .invalidAnswer("\(path): the renewal info is of another store than the one that was asked")
    }
    guard renewal.originalTransactionID == originalID else {
      throw .invalidAnswer("\(path): the renewal info of another subscription")
    }
    return renewal
  }
}

import Entitlements

import struct FoundationEssentials.Date

enum ServerAPIContents: Sendable {
  case purchases(SignedPurchases)
  case transaction(VerifiedTransaction)
  /// The transactions of an order; empty for an order that Apple does not know.
  case order([VerifiedTransaction])
  case refunds(RefundPage)
  case unsigned(UnsignedAnswer)

  /// Whether Apple has no such order. The other endpoints say so by an error.
  var isNotFound: Bool {
    guard case .order(let transactions) = self else { return false }
    return transactions.isEmpty
  }

  /// The start of the next page; `nil` on the last one.
  var nextRevision: String? {
    switch self {
    case .purchases(let purchases): purchases.nextRevision
    case .refunds(let page): page.nextRevision
    case .transaction, .order, .unsigned: nil
    }
  }
}

package struct SignedRefund: Sendable {
  package var transaction: SignedTransaction
  /// The signed transaction itself.
  package var text: String
}

struct RefundPage: Sendable {
  var refunds: [SignedRefund]
  var nextRevision: String?
}

/// The purchases of one customer, each signed on its own.
struct SignedPurchases: Sendable {
  struct Part: Sendable {
    var purchase: Purchase
    var renewal: RenewalInfo?
    /// The newest date of its signatures.
    var signedDate: Date
    /// The signed transaction itself.
    var text: String
  }

  var bundleID: BundleID
  var appAppleID: Int64?
  var parts: [Part]
  /// The number of signed transactions, with those that are no parts.
  var signatures: Int
  var nextRevision: String?
}

/// The check of an answer: the app is ours, the store is the one that was asked, every signature is Apple's, and each
/// transaction is the one that the answer names. A part without a store (2021) has the store of the answer.
///
/// One invalid part fails the answer. To leave it out could lose a refund.
struct ServerAPIExaminer {
  let verifier: SignedDataVerifier
  let bundleIDs: [BundleID]
  let environment: StoreEnvironment
  /// Our clock; it only refuses signatures from the future.
  let now: Date

  func contents(of response: ServerAPIResponse, asked id: String) throws(AppStoreError) -> ServerAPIContents {
    switch response {
    case .statuses(let response): .purchases(try purchases(of: response))
    // Consumables are used up, and subscriptions are current in the statuses only.
    case .history(let response):
      .purchases(try purchases(of: response) { $0 != "Consumable" && $0 != Self.subscription })
    case .payments(let response): .purchases(try purchases(of: response) { $0 == Self.subscription })
    case .transaction(let signed):
      .transaction(try transaction(signed, originalID: nil, id: id, bundleID: nil, at: "signedTransactionInfo"))
    case .order(let response): .order(try transactions(response.signedTransactions))
    case .refunds(let response):
      .refunds(
        RefundPage(
          refunds: zip(try transactions(response.signedTransactions), response.signedTransactions).map {
            SignedRefund(transaction: $0.payload, text: $1)
          }, nextRevision: response.nextRevision))
    case .unsigned(let answer): .unsigned(answer)
    }
  }

  private func transactions(_ signed: [String]) throws(AppStoreError) -> [VerifiedTransaction] {
    var transactions: [VerifiedTransaction] = []
    for (index, text) in signed.enumerated() {
      transactions.append(
        try transaction(text, originalID: nil, id: nil, bundleID: nil, at: "signedTransactions[\(index)]"))
    }
    return transactions
  }

  private func purchases(of response: StatusesResponse) throws(AppStoreError) -> SignedPurchases {
    try check(response.head)
    var parts: [SignedPurchases.Part] = []
    for item in response.items {
      let signed = try transaction(
        item.signedTransaction, originalID: item.originalTransactionID, id: nil, bundleID: response.head.bundleID,
        at: item.path)
      var purchase = signed.payload.purchase
      purchase.subscriptionGroupID = purchase.subscriptionGroupID ?? item.groupID
      var signedDate = signed.payload.signedDate
      var renewal: RenewalInfo?
      if let text = item.signedRenewal {
        let verified = try self.renewal(text, originalID: item.originalTransactionID, at: item.path)
        signedDate = max(signedDate, verified.signedDate)
        renewal = verified.renewal
      }
      if let status = item.status {
        renewal = renewal ?? RenewalInfo(originalTransactionID: item.originalTransactionID)
        renewal?.status = status
      }
      parts.append(
        SignedPurchases.Part(
          purchase: purchase, renewal: renewal, signedDate: signedDate, text: item.signedTransaction))
    }
    return SignedPurchases(
      bundleID: response.head.bundleID, appAppleID: response.head.appAppleID, parts: parts, signatures: parts.count)
  }

  private static let subscription = "Auto-Renewable Subscription"

  /// - Parameter isWanted: whether transactions of a type of product are parts.
  private func purchases(
    of response: HistoryResponse, where isWanted: (_ productType: String?) -> Bool
  ) throws(AppStoreError) -> SignedPurchases {
    try check(response.head)
    var parts: [SignedPurchases.Part] = []
    for (index, text) in response.signedTransactions.enumerated() {
      let signed = try transaction(
        text, originalID: nil, id: nil, bundleID: response.head.bundleID, at: "signedTransactions[\(index)]"
      ).payload
      guard isWanted(signed.productType) else { continue }
      parts.append(SignedPurchases.Part(purchase: signed.purchase, signedDate: signed.signedDate, text: text))
    }
    return SignedPurchases(
      bundleID: response.head.bundleID, appAppleID: response.head.appAppleID, parts: parts,
      signatures: response.signedTransactions.count, nextRevision: response.nextRevision)
  }

  private func check(_ head: ServerAPIResponseHead) throws(AppStoreError) {
    guard bundleIDs.contains(head.bundleID) else { throw .wrongApp(head.bundleID) }
    guard head.environment == environment else { throw .invalidAnswer("environment is not the store that was asked") }
  }

  /// - Parameters:
  ///   - originalID: the original transaction ID in the answer.
  ///   - id: the ID that was asked for.
  ///   - bundleID: the app of the answer; `nil` for any of ours.
  private func transaction(
    _ text: String, originalID: OriginalTransactionID?, id: String?, bundleID: BundleID?, at path: String
  ) throws(AppStoreError) -> VerifiedTransaction {
    let verified: VerifiedTransaction
    do {
      verified = try verifier.transaction(text, now: now)
    } catch {
      throw .invalidAnswer("\(path): \(error.description)")
    }
    let transaction = verified.payload
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
  ) throws(AppStoreError) -> SignedRenewalInfo {
    let verified: VerifiedRenewalInfo
    do {
      verified = try verifier.renewalInfo(text, now: now)
    } catch {
      throw .invalidAnswer("\(path): \(error.description)")
    }
    let renewal = verified.payload
    guard renewal.environmentName == nil || renewal.environment == environment else {
      throw .invalidAnswer("\(path): the renewal info is of another store than the one that was asked")
    }
    guard renewal.originalTransactionID == originalID else {
      throw .invalidAnswer("\(path): the renewal info of another subscription")
    }
    return renewal
  }
}

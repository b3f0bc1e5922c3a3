package import AppStore
package import Entitlements

import struct FoundationEssentials.Date

/// The purchase that a submission refers to: by a receipt or a signed transaction, by its ID, or both.
package struct PurchaseReference: Sendable {
  /// The submitted or stored receipt; `nil` for an ID that the service has never seen.
  package var receipt: SubmittedReceipt?
  package var proof: LocalProof = .unavailable
  /// The purchase that was asked for by its ID, where one was.
  var id: OriginalTransactionID?
  /// The store that it is known to be of.
  package var environment: StoreEnvironment?
  /// The app that it is known to be of.
  var bundleID: BundleID?

  package init(
    receipt: SubmittedReceipt? = nil, proof: LocalProof = .unavailable, id: OriginalTransactionID? = nil,
    environment: StoreEnvironment? = nil, bundleID: BundleID? = nil
  ) {
    self.receipt = receipt
    self.proof = proof
    self.id = id
    self.environment = environment
    self.bundleID = bundleID
  }

  /// The identity of the question, for the same one a moment later or from another caller.
  package enum Identity: Hashable, Sendable {
    case receipt(ReceiptFingerprint)
    case purchase(OriginalTransactionID, StoreEnvironment?)
  }

  /// - Parameter source: who is asked. The Server API is asked about a purchase, however often its transactions were
  ///   signed.
  func identity(for source: Source) -> Identity? {
    switch source {
    case .serverAPI:
      // Exact bytes: an answer about another signature may be older than this purchase.
      if id == nil, let receipt { return .receipt(receipt.fingerprint) }
      return id.map { .purchase($0, environment) }
    case .verifyReceipt, .signature: return receipt.map { .receipt($0.fingerprint) }
    }
  }

  /// The name for the log, which reveals nothing of the submission.
  package var name: String { receipt?.fingerprint.short ?? "none" }

  /// A source that can answer about a purchase.
  package enum Source: Hashable, Sendable {
    case verifyReceipt
    case serverAPI
    /// Apple's signature alone; no call is made.
    case signature
  }

  /// The sources to ask, best first; the next is asked when one knows nothing of the purchase.
  ///
  ///     subject                         with the Server API           without
  ///     app receipt, as sent            verifyReceipt                 verifyReceipt
  ///     iOS 6-style receipt, as sent    verifyReceipt                 verifyReceipt
  ///     signed transaction, as sent     Server API, its signature     its signature
  ///       of Xcode's                    its signature                 its signature
  ///     a purchase known by a receipt   Server API, verifyReceipt     verifyReceipt
  ///     a purchase known otherwise      Server API                    nobody
  ///
  /// verifyReceipt only where there is a shared secret. Without one an app receipt has to be proven here, and is treated
  /// like a signed transaction.
  func sources(hasVerifyReceipt: Bool, hasServerAPI: Bool) -> [Source] {
    let candidates: [Source] =
      switch receipt?.content {
      case .app where id == nil: hasVerifyReceipt ? [.verifyReceipt] : [.serverAPI, .signature]
      case .app: [.serverAPI, .verifyReceipt]
      case .transaction where id == nil: [.verifyReceipt]
      case .transaction: [.serverAPI, .verifyReceipt]
      case .signedTransaction where proof.isXcode: [.signature]
      case .signedTransaction where id == nil: [.serverAPI, .signature]
      case .signedTransaction, nil: [.serverAPI]
      }
    return candidates.filter { source in
      switch source {
      case .verifyReceipt: hasVerifyReceipt
      case .serverAPI: hasServerAPI
      case .signature: true
      }
    }
  }

  /// The purchase that the Server API is asked about; any one names the customer.
  var askedPurchase: OriginalTransactionID? {
    if let id { return id }
    guard let purchases = receipt?.purchases else { return nil }
    // The newest: of old ones Apple may know no more.
    return purchases.max { ($0.purchaseDate ?? .distantPast) < ($1.purchaseDate ?? .distantPast) }?
      .originalTransactionID
  }
}

package import AppStore
package import Entitlements

import struct FoundationEssentials.Date

/// The reference of a submission to a purchase: a receipt or a signed transaction, an ID, or both.
package struct PurchaseReference: Sendable {
  /// The submitted or stored receipt; `nil` for an ID that the service has never seen.
  var receipt: SubmittedReceipt?
  private let deferredProof: DeferredProof
  /// The ID of the purchase, if it was asked for by ID.
  var id: OriginalTransactionID?
  var environment: StoreEnvironment?
  var bundleID: BundleID?

  package init(
    receipt: SubmittedReceipt? = nil, proof: DeferredProof = DeferredProof(.unavailable),
    id: OriginalTransactionID? = nil,
    environment: StoreEnvironment? = nil, bundleID: BundleID? = nil
  ) {
    self.receipt = receipt
    deferredProof = proof
    self.id = id
    self.environment = environment
    self.bundleID = bundleID
  }

  /// The result of our own check, which is made now if it was put off.
  package var proof: LocalProof { deferredProof.value }

  /// The identity of a question to Apple, which repeated and concurrent questions share.
  package enum Identity: Hashable, Sendable {
    case receipt(ReceiptFingerprint)
    /// The same, by somebody who wants the bytes of verifyReceipt's answer.
    case whole(ReceiptFingerprint, VerifyReceiptDetail)
    case purchase(OriginalTransactionID, StoreEnvironment?)
  }

  /// - Parameter source: the source to ask. The Server API is asked about a purchase, however often its transactions
  ///   were signed.
  func identity(for source: Source, _ detail: VerifyReceiptDetail = .decoded) -> Identity? {
    switch source {
    case .verifyReceipt where detail != .decoded: return receipt.map { .whole($0.fingerprint, detail) }
    case .serverAPI:
      // The exact bytes: an answer about another signature may be older than this purchase.
      if id == nil, let receipt { return .receipt(receipt.fingerprint) }
      return id.map { .purchase($0, environment) }
    case .verifyReceipt, .signature: return receipt.map { .receipt($0.fingerprint) }
    }
  }

  /// The name for the log, which reveals nothing of the submission.
  var name: String { receipt?.fingerprint.short ?? "none" }

  package enum Source: Hashable, Sendable {
    case verifyReceipt
    case serverAPI
    /// Apple's signature alone; no call is made.
    case signature
  }

  /// The sources to ask, best first; the next is asked if one does not know the purchase.
  ///
  ///     reference                       with the Server API           without
  ///     app receipt, as sent            verifyReceipt                 verifyReceipt
  ///     iOS 6-style receipt, as sent    verifyReceipt                 verifyReceipt
  ///     signed transaction, as sent     Server API, its signature     its signature
  ///       by Xcode                      its signature                 its signature
  ///     AppTransaction                  its signature                 its signature
  ///     a purchase with a receipt       Server API, verifyReceipt     verifyReceipt
  ///     a purchase without one          Server API                    none
  ///
  /// verifyReceipt needs a shared secret. Without one an app receipt has to be proven here, and is treated like a
  /// signed transaction.
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
      case .appTransaction: [.signature]
      }
    return candidates.filter { source in
      switch source {
      case .verifyReceipt: hasVerifyReceipt
      case .serverAPI: hasServerAPI
      case .signature: true
      }
    }
  }

  /// The purchase to ask the Server API about; each one leads to all of the customer's.
  var askedPurchase: OriginalTransactionID? {
    if let id { return id }
    guard let purchases = receipt?.purchases else { return nil }
    // The newest: Apple may have forgotten old ones.
    return purchases.max { ($0.purchaseDate ?? .distantPast) < ($1.purchaseDate ?? .distantPast) }?
      .originalTransactionID
  }
}

package import Entitlements
package import struct FoundationEssentials.Date

/// Apple's request for consumption information about a transaction, for its decision on a refund.
package struct ConsumptionRequest: Hashable, Sendable {
  package enum State: String, Hashable, Sendable, CaseIterable {
    case due
    case answered
    /// The time ended without the customer's consent, and nothing was sent.
    case unconsented
    /// The time ended without an answer.
    case missed
    /// Apple refused the answer.
    case refused
  }

  package var environment: StoreEnvironment
  package var transactionID: TransactionID
  package var originalTransactionID: OriginalTransactionID
  package var bundleID: BundleID
  package var isAutoRenewable: Bool
  /// The time of Apple's signature.
  package var askedAt: Date
  package var answerBy: Date
  package var state = State.due
  /// Attempts that failed.
  package var attempts = 0
  package var problem: String?
  package var closedAt: Date?
  /// When it was last changed; `nil` for one that is not kept.
  package var changedAt: Date?

  package init(
    environment: StoreEnvironment, transactionID: TransactionID, originalTransactionID: OriginalTransactionID,
    bundleID: BundleID, isAutoRenewable: Bool, askedAt: Date, answerBy: Date
  ) {
    self.environment = environment
    self.transactionID = transactionID
    self.originalTransactionID = originalTransactionID
    self.bundleID = bundleID
    self.isAutoRenewable = isAutoRenewable
    self.askedAt = askedAt
    self.answerBy = answerBy
  }
}

/// The record of a transaction: the word of the app's backend, and Apple's newest request.
package struct ConsumptionRecord: Hashable, Sendable {
  package var said: ConsumptionInformation?
  package var request: ConsumptionRequest?
}

/// A request that was claimed, with the word of the app's backend.
package struct ClaimedConsumptionRequest: Hashable, Sendable {
  package var request: ConsumptionRequest
  package var said: ConsumptionInformation?
}

/// The result of looking at a claimed request.
package enum ConsumptionResult: Hashable, Sendable {
  /// - Parameter attempts: attempts that failed, this one included.
  case due(at: Date, attempts: Int, problem: String)
  case closed(ConsumptionRequest.State, problem: String? = nil)
}

package import Entitlements
package import struct FoundationEssentials.Date

/// An extension of renewal dates that was asked for: by whom and why, and its outcome.
package struct ExtensionRecord: Hashable, Sendable {
  package typealias ID = Int64

  package enum State: String, Hashable, Sendable, CaseIterable {
    /// Apple has not answered yet.
    case due
    /// Apple has taken it, and works on it: only of a product.
    case running
    case done
    /// Apple refused it.
    case refused
    /// Apple gave no answer in time.
    case failed
  }

  package enum Subject: Hashable, Sendable {
    case purchase(OriginalTransactionID)
    /// All active subscribers of a product.
    case product(ExtendedProduct)

    package var product: ExtendedProduct? {
      if case .product(let product) = self { product } else { nil }
    }

    package var purchase: OriginalTransactionID? {
      if case .purchase(let id) = self { id } else { nil }
    }
  }

  package var id: ID
  package var environment: StoreEnvironment
  package var subject: Subject
  /// The app to ask about; `nil`: any of ours.
  package var bundleID: BundleID?
  package var terms: RenewalExtension
  /// The name of the key that asked.
  package var author: String
  package var note: String?
  package var requestID: String
  package var askedAt: Date
  package var state = State.due
  /// Attempts that failed; of a running one, looks at its status.
  package var attempts = 0
  package var problem: String?
  package var closedAt: Date?
  /// The new end of the purchase's period.
  package var expiresAt: Date?
  /// Users here whose access a product gave when it was asked for.
  package var expected: Int64?
  /// Subscriptions of a product that Apple has extended, and those that it could not; as Apple reports them, one by one, and
  /// exact at the end.
  package var succeeded: Int64 = 0
  package var failed: Int64 = 0

  package var key: SubscriptionKey? {
    subject.purchase.map { SubscriptionKey(environment: environment, originalTransactionID: $0) }
  }
}

/// The result of looking at a claimed extension.
package enum ExtensionResult: Hashable, Sendable {
  /// To be asked again.
  ///
  /// - Parameter attempts: attempts that failed, this one included.
  case due(at: Date, attempts: Int, problem: String?)
  /// Apple works on it; its status is asked at a moment.
  case running(lookAt: Date, attempts: Int, problem: String?)
  /// - Parameters:
  ///   - expiresAt: the new end of a purchase's period.
  ///   - note: kept in the history of the purchase's owner.
  case extended(expiresAt: Date, note: Note)
  case complete(succeeded: Int64?, failed: Int64?)
  case refused(String)
  case failed(String)
}

/// Asks for an extension. It is durable before Apple is asked.
package struct AskExtension: LedgerOperation {
  package enum Outcome: Hashable, Sendable {
    /// Recorded, and claimed for the caller.
    case asked(ExtensionRecord)
    /// The same was asked for before: under this idempotency key, or it waits for Apple's answer.
    case known(ExtensionRecord)
    /// The idempotency key was used for another one.
    case mismatch
    /// Another extension of this purchase waits for Apple's answer.
    case waiting(ExtensionRecord)
  }

  package var environment: StoreEnvironment
  package var subject: ExtensionRecord.Subject
  package var bundleID: BundleID?
  package var terms: RenewalExtension
  package var author: String
  package var note: String?
  package var requestID: String
  package var idempotencyKey: String?
  package var now: Date
  /// `nil`: a job asks Apple.
  package var claimedUntil: Date?

  package init(
    environment: StoreEnvironment, subject: ExtensionRecord.Subject, bundleID: BundleID? = nil,
    terms: RenewalExtension, author: String, note: String?, requestID: String, idempotencyKey: String?, now: Date,
    claimedUntil: Date?
  ) {
    self.environment = environment
    self.subject = subject
    self.bundleID = bundleID
    self.terms = terms
    self.author = author
    self.note = note
    self.requestID = requestID
    self.idempotencyKey = idempotencyKey
    self.now = now
    self.claimedUntil = claimedUntil
  }

  package func run(_ tables: LedgerTables) throws -> Outcome {
    if let idempotencyKey,
      let former = try tables.extensions.record(of: subject, environment, under: idempotencyKey)
    {
      return isSame(as: former) && former.note == note ? .known(former) : .mismatch
    }
    for open in try tables.extensions.openExtensions(of: subject, environment) {
      if isSame(as: open) { return .known(open) }
      if subject.purchase != nil { return .waiting(open) }
    }
    return .asked(try tables.extensions.add(self))
  }

  private func isSame(as former: ExtensionRecord) -> Bool {
    former.subject == subject && former.bundleID == bundleID && former.terms.days == terms.days
      && former.terms.reason == terms.reason
  }
}

/// The end of an extension of a product, as Apple's notification tells it.
package struct ExtensionSummary: Hashable, Sendable {
  package var requestIdentifier: String
  package var succeeded: Int64?
  package var failed: Int64?

  package init(requestIdentifier: String, succeeded: Int64?, failed: Int64?) {
    self.requestIdentifier = requestIdentifier
    self.succeeded = succeeded
    self.failed = failed
  }
}

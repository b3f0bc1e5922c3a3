package import Entitlements
package import struct FoundationEssentials.Date

/// An event of RevenueCat's, ready to be recorded.
package struct RevenueCatReport: Sendable {
  /// The change that the event tells of.
  package enum Content: Hashable, Sendable {
    /// A purchase at a store that only RevenueCat can tell of. The key's ID begins with the store.
    case purchase(SubscriptionKey, StoreEvent)
    /// A purchase at Apple's, which has the last word.
    case hint(SubscriptionKey, StoreEvent)
    /// RevenueCat cannot reach a store, and gives access meanwhile. The key is the purchase's, where the event names one;
    /// of one at Apple's, Apple has the last word.
    case temporary(StoreEnvironment, Store, StoreEvent, SubscriptionKey?)
    /// Everything of some users becomes another one's.
    case transfer(from: [UserID], to: UserID)
    /// Kept only.
    case nothing
  }

  /// A store by RevenueCat's name, in small letters: `play_store`.
  package struct Store: Identifier {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }

    /// Whether the store is Apple's, who has the last word about its purchases.
    package var isApples: Bool { rawValue == "app_store" || rawValue == "mac_app_store" }

    /// The key of a purchase at a store other than Apple's. Apple's IDs are digits, so that none has this form.
    package func key(_ environment: StoreEnvironment, _ originalTransactionID: String) -> SubscriptionKey {
      SubscriptionKey(
        environment: environment, originalTransactionID: OriginalTransactionID("\(self):\(originalTransactionID)"))
    }
  }

  /// RevenueCat's ID of the event.
  package var id: String
  package var type: String
  package var store: Store?
  package var environment: StoreEnvironment?
  /// When it happened, by RevenueCat's clock.
  package var at: Date
  /// The body as received.
  package var payload: String
  /// Every user whom the body names.
  package var users: [UserID] = []
  package var content: Content
  /// The purchases that a transfer moves (`policy.ownership`).
  package var ownership: OwnershipPolicy
  package var evaluationContext: EvaluationContext
  /// When time alone changes what a purchase gives.
  package var nextTurn: NextCheck
  /// How long a report counts that somebody else has to confirm (`policy.provisional`).
  package var provisional: Duration
  /// Until when the app's rows are claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    id: String, type: String, store: Store? = nil, environment: StoreEnvironment? = nil, at: Date, payload: String,
    content: Content, ownership: OwnershipPolicy = .keep, evaluationContext: EvaluationContext,
    nextTurn: @escaping NextCheck = { _, _ in nil }, provisional: Duration = .zero, rowsClaimedUntil: Date? = nil
  ) {
    self.id = id
    self.type = type
    self.store = store
    self.environment = environment
    self.at = at
    self.payload = payload
    self.content = content
    self.ownership = ownership
    self.evaluationContext = evaluationContext
    self.nextTurn = nextTurn
    self.provisional = provisional
    self.rowsClaimedUntil = rowsClaimedUntil
  }

  /// The ID under which it is kept among the notifications.
  package var uuid: String { "revenuecat:\(id)" }
}

/// The outcome of a report.
package enum RevenueCatReportOutcome: Sendable {
  /// It was recorded before. Nothing was written.
  case duplicate
  /// It counts for the owner of the purchase, who need not be the user whom the event names.
  case recorded(owner: UserID, losers: [UserID], isForAnother: Bool)
  /// Apple is to be asked.
  case hint(RevenueCatHint)
  /// It changes nothing.
  case noted
}

/// A purchase at Apple's that somebody has to ask about.
package struct RevenueCatHint: Hashable, Sendable {
  package var key: SubscriptionKey
  /// The user whom RevenueCat names; the purchase's owner, if it has one.
  package var user: UserID
  /// The time of the newest event.
  package var at: Date
  /// When the first event came.
  package var reportedAt: Date
  /// Questions that Apple did not answer.
  package var attempts: Int
  /// Whether RevenueCat could not reach Apple either: that Apple does not know the purchase says nothing then.
  package var isTemporary = false
}

/// A report whose time has come.
package enum DueRevenueCatReport: Hashable, Sendable {
  case hint(RevenueCatHint)
  /// Access that was given while RevenueCat could not reach a store is over.
  case over(SubscriptionKey)
}

/// A purchase at another store that time alone has changed.
package struct RevenueCatTurn: Hashable, Sendable {
  package var key: SubscriptionKey
  package var owner: UserID
}

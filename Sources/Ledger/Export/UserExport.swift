package import Access
package import Entitlements
package import struct FoundationEssentials.Date

/// The short parts of a user's export. Purchases, history, events and consumptions are read page by page.
package struct UserRecord: Sendable {
  package var user: UserID
  /// Every ID of the user, as first given: the own one, and those of an SDK that turned out to be the user.
  package var ids: [UserID]
  /// The user with all evidence and the last verdict; `nil` without a verdict.
  package var profile: LedgerProfile?
  package var firstSeenAt: Date?
  package var lastSeenAt: Date?
  /// The progress by which the user is counted in the figures.
  package var progress: UserProgress?
  package var grants: [GivenRecord]
  package var trials: [TrialRecord]
  package var devices: [KeptDevice]
  /// The sum of each feature over all time; of a limit, how many exist.
  package var totals: [String: Int]
  package var timeZone: String?
  package var exposures: [Exposure]
  package var attributes: [String: CustomerAttribute]
  package var waitingReceipts: [PendingReceipt]
  /// The reports of RevenueCat's that nobody has confirmed yet.
  package var reports: [SubscriptionKey: [StoreEvent]]
  /// The write to the app's row that waits.
  package var update: KeptUpdate?

  /// A device as an app described it.
  package struct KeptDevice: Sendable {
    package var device: Device
    package var firstSeenAt: Date
    package var lastSeenAt: Date
  }

  /// An update of the app's row that waits.
  package struct KeptUpdate: Sendable {
    package var state: String
    package var waitingSince: Date
    package var attempts: Int
    /// The store's code for what went wrong last.
    package var problem: String?
  }
}

/// A purchase of a user, with everything that is kept of it.
package struct ExportedPurchase: Sendable {
  package var evidence: SubscriptionEvidence
  /// Whether the user presented it, or has it as it names the user.
  package var isPresented: Bool
  /// The time of the next check with Apple.
  package var scheduledAt: Date?
  /// The receipt or signed transaction that proved it; `nil` for a purchase at another store.
  package var proof: KeptProof?
  /// The events that RevenueCat reported of a purchase at another store.
  package var events: [StoreEvent] = []
  package var notifications: [NotificationLine]
  /// The consumption information about its transactions, and Apple's requests.
  package var consumption: [TransactionID: ConsumptionRecord] = [:]
  /// The extensions of its renewal date, the newest first.
  package var extensions: [ExtensionRecord] = []

  /// A receipt or a signed transaction. Several purchases may have the same.
  package struct KeptProof: Sendable {
    /// The digest of the bytes or the JWS, in hexadecimal digits.
    package var sha256: String
    package var receipt: KeptReceipt
  }

  /// The most notifications of one purchase: those of half a year.
  package static let notificationLimit = 1_000
  package static let extensionLimit = 1_000
}

/// One consumption of a meter.
package struct ExportedConsumption: Sendable {
  package var feature: String
  package var consumedAt: Date
  /// Tells those of one millisecond apart.
  package var number: Int64
  package var amount: Int
  /// The amount that was given back.
  package var returned: Int?
  package var idempotencyKey: String?
}

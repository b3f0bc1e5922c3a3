package import Access
package import Entitlements
package import struct FoundationEssentials.Date

/// An event for others: the app's backend, which reads events or receives them.
package struct ChangeEvent: Hashable, Sendable {
  /// The place in the order of all events.
  package var sequence: Int64
  /// A value of `EventType`, or a name of the app's own, without a dot.
  package var type: String
  package var user: UserID
  /// The moment of the change; for an event of the app's own, by the app's clock.
  package var at: Date
  package var recordedAt: Date
  /// The verdict after it, and the one before; `nil` for an event without one.
  package var entitlement: Entitlement?
  package var former: Entitlement?
  package var detail: Detail
  /// A forwarded notification, as Apple signed it, where it was asked for and is still there.
  package var payload: String?
  /// The begin of the period that the verdict is about, and its price and offer, as they were known then.
  package var purchasedAt: Date?
  package var sale: Purchase.Sale?
  /// Whether its verdicts or its detail cannot be read: what is missing then is not `nil` in the ledger.
  package var isUnreadable = false

  /// The verdict that the event is about: on the purchases alone, where a grant decides.
  package var verdict: Entitlement? { detail.covered ?? entitlement }
  package var formerVerdict: Entitlement? { detail.formerlyCovered ?? former }

  /// The facts of an event that its verdicts do not have.
  package struct Detail: Hashable, Codable, Sendable {
    /// The former and the present owner of a purchase.
    package var from: UserID?
    package var to: UserID?
    package var purchase: SubscriptionKey?
    /// Whether the former owner keeps other purchases.
    package var isPart: Bool?
    /// The price of the former verdict's purchase, where another one decides because it was taken back.
    package var takenBack: Purchase.Sale?
    /// Whether the transaction decided before, and has an event with its price.
    package var isTold: Bool?
    /// A period that was given, and its early end.
    package var given: GivenPeriod?
    package var endedAt: Date?
    /// A trial's name, the device, and what refused it.
    package var trial: String?
    package var device: String?
    package var refusedBy: String?
    /// The feature whose limit is reached. `limit` is `nil` for a feature that the tier lacks.
    package var feature: String?
    package var tier: Tier?
    package var current: Int?
    package var limit: Int?
    package var resetsAt: Date?
    /// The verdicts on the purchases alone, where a grant decides.
    package var covered: Entitlement?
    package var formerlyCovered: Entitlement?
    /// The app's own properties, a JSON object, and its ID of the event.
    package var properties: String?
    package var reportedID: String?
    /// The fields of a notification.
    package var notice: StoreNotice?
    /// The UUID of a notification that is forwarded.
    package var forwarded: String?
  }

  /// The ID for receivers, the same at each delivery.
  package var id: String { place.id }

  package var place: Place { Place(sequence: sequence, recordedAt: recordedAt.millisecondsSince1970) }

  /// The number of an event, and when it was recorded. Of a ledger that was restored from a backup, a number may mean
  /// another event; with the moment it does not.
  package struct Place: Hashable, Sendable {
    package var sequence: Int64
    /// Milliseconds since 1970.
    package var recordedAt: Int64

    package var id: String { "evt_\(recordedAt)_\(sequence)" }

    fileprivate init(sequence: Int64, recordedAt: Int64) {
      self.sequence = sequence
      self.recordedAt = recordedAt
    }

    package init?(id: String) {
      let parts = id.split(separator: "_", omittingEmptySubsequences: false)
      guard parts.count == 3, let recordedAt = Int64(parts[1]), let sequence = Int64(parts[2]) else { return nil }
      self.init(sequence: sequence, recordedAt: recordedAt)
      guard sequence > 0, self.id == id else { return nil }
    }
  }
}

/// An event that the app reports.
package struct AppEvent: Hashable, Sendable {
  package var user: UserID
  /// Without a dot: those are the service's.
  package var type: String
  package var at: Date
  /// A JSON object.
  package var properties: String
  /// The variant of an experiment that the user saw, where the event says so.
  package var exposure: Exposure?
  /// The reporter's ID of the event: of a user's events with the same one the first is kept.
  package var id: String?

  /// The type of the event of a paywall that was shown: the funnel begins with it.
  package static let paywall = "paywall_viewed"
  /// The most bytes of events that are kept of a user in a day (UTC), as `size` counts them.
  package static let mostBytes = 5_000_000

  /// The bytes that the event takes, its row included.
  var size: Int { 200 + type.utf8.count + properties.utf8.count + (id?.utf8.count ?? 0) }

  package init(user: UserID, type: String, at: Date, properties: String, exposure: Exposure? = nil, id: String? = nil) {
    self.user = user
    self.type = type
    self.at = at
    self.properties = properties
    self.exposure = exposure
    self.id = id
  }
}

/// The pauses between events of refusals: after the first one no other of the same kind makes an event for a while, so that
/// a client that asks in a loop cannot fill the disk.
enum RefusalEvents {
  /// The least and the most time between two events of one feature's limit. In between there is one in the window of
  /// the rule that refuses.
  static let leastPause = Duration.seconds(3_600)
  static let longestPause = Duration.seconds(30 * 86_400)
  /// The time between two events of refused trials.
  static let trialPause = Duration.seconds(86_400)
}

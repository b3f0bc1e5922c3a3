import Access
import CountersignAPI
import Entitlements
import Ledger
import Validation

import struct FoundationEssentials.Date

/// The head of a user's export; `purchases`, `history`, `events` and `consumptions` follow it page by page.
///
/// Receipts and signed transactions are in it as they are kept: the user has sent them. The texts of notifications and of
/// RevenueCat's events are not, as they may name others; what was read from them is in the purchases.
struct ExportDocument: Encodable {
  struct Grant: Encodable {
    var grant: GrantResponse
    var requestID: String
    var recordedAt: Date

    enum CodingKeys: String, CodingKey {
      case requestID = "request_id"
      case recordedAt = "recorded_at"
    }

    func encode(to encoder: any Encoder) throws {
      try grant.encode(to: encoder)
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(requestID, forKey: .requestID)
      try container.encode(recordedAt, forKey: .recordedAt)
    }
  }

  struct Trial: Encodable {
    var trial: String
    var deviceID: String
    var tier: String
    var startedAt: Date
    var endsAt: Date
    var isEndedEarly: Bool
    @Nullable var sessionsTotal: Int?
    var sessionsUsed: Int

    enum CodingKeys: String, CodingKey {
      case trial
      case deviceID = "device_id"
      case tier
      case startedAt = "started_at"
      case endsAt = "ends_at"
      case isEndedEarly = "ended_early"
      case sessionsTotal = "sessions_total"
      case sessionsUsed = "sessions_used"
    }
  }

  struct KeptDevice: Encodable {
    var deviceID: String
    @Nullable var app: String?
    @Nullable var model: String?
    @Nullable var iosVersion: String?
    @Nullable var appVersion: String?
    @Nullable var pushToken: String?
    var firstSeenAt: Date
    var lastSeenAt: Date

    enum CodingKeys: String, CodingKey {
      case deviceID = "device_id"
      case app, model
      case iosVersion = "ios_version"
      case appVersion = "app_version"
      case pushToken = "push_token"
      case firstSeenAt = "first_seen_at"
      case lastSeenAt = "last_seen_at"
    }
  }

  struct Consumption: Encodable {
    var feature: String
    var consumedAt: Date
    var amount: Int
    @Nullable var returned: Int?
    @Nullable var idempotencyKey: String?

    enum CodingKeys: String, CodingKey {
      case feature
      case consumedAt = "consumed_at"
      case amount, returned
      case idempotencyKey = "idempotency_key"
    }
  }

  /// The variant of an experiment that the user saw first.
  struct Variant: Encodable {
    var experiment: String
    var variant: String
    var exposedAt: Date

    enum CodingKeys: String, CodingKey {
      case experiment, variant
      case exposedAt = "exposed_at"
    }
  }

  struct Attribute: Encodable {
    @Nullable var value: String?
    var updatedAt: Date

    enum CodingKeys: String, CodingKey {
      case value
      case updatedAt = "updated_at"
    }
  }

  struct WaitingReceipt: Encodable {
    var receiptData: String
    var receivedAt: Date
    var requestID: String
    var attempts: Int

    enum CodingKeys: String, CodingKey {
      case receiptData = "receipt_data"
      case receivedAt = "received_at"
      case requestID = "request_id"
      case attempts
    }
  }

  /// A write to the app's row that waits.
  struct RowUpdate: Codable, Hashable {
    var state: String
    var waitingSince: Date
    var attempts: Int
    @Nullable var problem: String?

    enum CodingKeys: String, CodingKey {
      case state
      case waitingSince = "waiting_since"
      case attempts, problem
    }
  }

  /// An event that RevenueCat reported about a purchase.
  struct ReportedEvent: Encodable {
    var id: String
    var at: Date
    var change: String
    @Nullable var productID: String?
    @Nullable var transactionID: String?
    @Nullable var purchasedAt: Date?
    @Nullable var expiresAt: Date?
    @Nullable var price: Int64?
    @Nullable var currency: String?
    @Nullable var country: String?

    enum CodingKeys: String, CodingKey {
      case id, at, change
      case productID = "product_id"
      case transactionID = "transaction_id"
      case purchasedAt = "purchased_at"
      case expiresAt = "expires_at"
      case price, currency, country
    }
  }

  /// A report of RevenueCat's that somebody else has to confirm.
  struct Report: Encodable {
    var originalTransactionID: String
    var environment: String
    var events: [ReportedEvent]

    enum CodingKeys: String, CodingKey {
      case originalTransactionID = "original_transaction_id"
      case environment, events
    }
  }

  /// The days by which the user is counted in the figures.
  struct Progress: Codable, Hashable {
    var seenOn: String
    @Nullable var viewedOn: String?
    @Nullable var paidOn: String?

    enum CodingKeys: String, CodingKey {
      case seenOn = "seen_on"
      case viewedOn = "paywall_viewed_on"
      case paidOn = "paid_on"
    }
  }

  var userID: String
  var ids: [String]
  var exportedAt: Date
  @Nullable var firstSeenAt: Date?
  @Nullable var lastSeenAt: Date?
  @Nullable var progress: Progress?
  var entitlement: EntitlementResponse
  var grants: [Grant]
  var trials: [Trial]
  var devices: [KeptDevice]
  var totals: [String: Int]
  @Nullable var timeZone: String?
  var experiments: [Variant]
  var attributes: [String: Attribute]
  var waitingReceipts: [WaitingReceipt]
  var reports: [Report]
  @Nullable var rowUpdate: RowUpdate?

  enum CodingKeys: String, CodingKey {
    case userID = "user_id"
    case ids
    case exportedAt = "exported_at"
    case firstSeenAt = "first_seen_at"
    case lastSeenAt = "last_seen_at"
    case progress, entitlement, grants, trials, devices
    case totals = "feature_totals"
    case timeZone = "time_zone"
    case experiments, attributes
    case waitingReceipts = "waiting_receipts"
    case reports = "unconfirmed_reports"
    case rowUpdate = "profile_update"
  }

  init(_ record: UserRecord, _ standing: Standing, at now: Date) {
    userID = record.user.rawValue
    ids = record.ids.map(\.rawValue)
    exportedAt = now
    _firstSeenAt = Nullable(wrappedValue: record.firstSeenAt)
    _lastSeenAt = Nullable(wrappedValue: record.lastSeenAt)
    _progress = Nullable(
      wrappedValue: record.progress.map { progress in
        Progress(
          seenOn: FiguresResponse.day(progress.seen), viewedOn: progress.viewed.map(FiguresResponse.day),
          paidOn: progress.paid.map(FiguresResponse.day))
      })
    entitlement = EntitlementResponse(
      user: record.user, entitlement: standing.entitlement, isFromLedger: true, write: standing.write)
    grants = record.grants.map {
      Grant(grant: GrantResponse($0), requestID: $0.requestID, recordedAt: $0.recordedAt)
    }
    trials = record.trials.map { trial in
      Trial(
        trial: trial.name, deviceID: trial.device.rawValue, tier: trial.tier.rawValue, startedAt: trial.startedAt,
        endsAt: trial.endsAt, isEndedEarly: trial.isEndedEarly, sessionsTotal: trial.sessionsTotal,
        sessionsUsed: trial.sessionsUsed)
    }
    devices = record.devices.map { kept in
      KeptDevice(
        deviceID: kept.device.id.rawValue, app: kept.device.app?.rawValue, model: kept.device.model,
        iosVersion: kept.device.iosVersion, appVersion: kept.device.appVersion, pushToken: kept.device.pushToken,
        firstSeenAt: kept.firstSeenAt, lastSeenAt: kept.lastSeenAt)
    }
    totals = record.totals
    _timeZone = Nullable(wrappedValue: record.timeZone)
    experiments = record.exposures.map { exposure in
      Variant(experiment: exposure.experiment, variant: exposure.variant, exposedAt: exposure.at)
    }
    attributes = record.attributes.mapValues { attribute in
      Attribute(
        value: attribute.value,
        updatedAt: Date(timeIntervalSince1970: Double(attribute.updatedAtMilliseconds) / 1_000))
    }
    waitingReceipts = record.waitingReceipts.map { waiting in
      WaitingReceipt(
        receiptData: waiting.base64, receivedAt: waiting.receivedAt, requestID: waiting.requestID,
        attempts: waiting.attempts)
    }
    reports = record.reports.sorted { $0.key.originalTransactionID.rawValue < $1.key.originalTransactionID.rawValue }
      .map { key, events in
        Report(
          originalTransactionID: key.originalTransactionID.rawValue, environment: key.environment.rawValue,
          events: events.map(ReportedEvent.init))
      }
    _rowUpdate = Nullable(
      wrappedValue: record.update.map { update in
        RowUpdate(
          state: update.state, waitingSince: update.waitingSince, attempts: update.attempts, problem: update.problem)
      })
  }
}

extension ExportDocument.ReportedEvent {
  init(_ event: StoreEvent) {
    self.init(
      id: event.id, at: event.at, change: event.change.rawValue, productID: event.product?.rawValue,
      transactionID: event.transaction?.rawValue, purchasedAt: event.purchasedAt, expiresAt: event.expiresAt,
      price: event.price, currency: event.currency, country: event.country)
  }
}

extension ExportDocument.Consumption {
  init(_ consumption: ExportedConsumption) {
    self.init(
      feature: consumption.feature, consumedAt: consumption.consumedAt, amount: consumption.amount,
      returned: consumption.returned, idempotencyKey: consumption.idempotencyKey)
  }
}

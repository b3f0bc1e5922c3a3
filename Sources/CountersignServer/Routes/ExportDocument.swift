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

    enum CodingKeys: CodingKey { case requestID, recordedAt }

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
    var endedEarly: Bool
    @Nullable var sessionsTotal: Int?
    var sessionsUsed: Int
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
  }

  struct Consumption: Encodable {
    var feature: String
    var consumedAt: Date
    var amount: Int
    @Nullable var returned: Int?
    @Nullable var idempotencyKey: String?
  }

  /// The variant of an experiment that the user saw first.
  struct Variant: Encodable {
    var experiment: String
    var variant: String
    var exposedAt: Date
  }

  struct Attribute: Encodable {
    @Nullable var value: String?
    var updatedAt: Date
  }

  struct WaitingReceipt: Encodable {
    var receiptData: String
    var receivedAt: Date
    var requestID: String
    var attempts: Int
  }

  /// A write to the app's row that waits.
  struct RowUpdate: Codable, Hashable {
    var state: String
    var waitingSince: Date
    var attempts: Int
    @Nullable var problem: String?
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
  }

  /// A report of RevenueCat's that somebody else has to confirm.
  struct Report: Encodable {
    var originalTransactionID: String
    var environment: String
    var events: [ReportedEvent]
  }

  /// The days by which the user is counted in the figures.
  struct Progress: Codable, Hashable {
    var seenOn: String
    @Nullable var paywallViewedOn: String?
    @Nullable var paidOn: String?
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
  var featureTotals: [String: Int]
  @Nullable var timeZone: String?
  var experiments: [Variant]
  var attributes: [String: Attribute]
  var waitingReceipts: [WaitingReceipt]
  var unconfirmedReports: [Report]
  @Nullable var profileUpdate: RowUpdate?

  init(_ record: UserRecord, _ standing: Standing, at now: Date) {
    userID = record.user.rawValue
    ids = record.ids.map(\.rawValue)
    exportedAt = now
    _firstSeenAt = Nullable(wrappedValue: record.firstSeenAt)
    _lastSeenAt = Nullable(wrappedValue: record.lastSeenAt)
    progress = record.progress.map { progress in
      Progress(
        seenOn: FiguresResponse.day(progress.seen), paywallViewedOn: progress.viewed.map(FiguresResponse.day),
        paidOn: progress.paid.map(FiguresResponse.day))
    }
    entitlement = EntitlementResponse(
      user: record.user, entitlement: standing.entitlement, isFromLedger: true, write: standing.write)
    grants = record.grants.map {
      Grant(grant: GrantResponse($0), requestID: $0.requestID, recordedAt: $0.recordedAt)
    }
    trials = record.trials.map { trial in
      Trial(
        trial: trial.name, deviceID: trial.device.rawValue, tier: trial.tier.rawValue, startedAt: trial.startedAt,
        endsAt: trial.endsAt, endedEarly: trial.isEndedEarly, sessionsTotal: trial.sessionsTotal,
        sessionsUsed: trial.sessionsUsed)
    }
    devices = record.devices.map { kept in
      KeptDevice(
        deviceID: kept.device.id.rawValue, app: kept.device.app?.rawValue, model: kept.device.model,
        iosVersion: kept.device.iosVersion, appVersion: kept.device.appVersion, pushToken: kept.device.pushToken,
        firstSeenAt: kept.firstSeenAt, lastSeenAt: kept.lastSeenAt)
    }
    featureTotals = record.totals
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
    unconfirmedReports = record.reports.sorted {
      $0.key.originalTransactionID.rawValue < $1.key.originalTransactionID.rawValue
    }
    .map { key, events in
      Report(
        originalTransactionID: key.originalTransactionID.rawValue, environment: key.environment.rawValue,
        events: events.map(ReportedEvent.init))
    }
    profileUpdate = record.update.map { update in
      RowUpdate(
        state: update.state, waitingSince: update.waitingSince, attempts: update.attempts, problem: update.problem)
    }
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

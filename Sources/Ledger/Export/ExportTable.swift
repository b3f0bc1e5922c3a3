internal import Access
import Cryptography
internal import Entitlements
internal import struct FoundationEssentials.Date

/// A user's export.
struct ExportTable: LedgerTable {
  let tables: LedgerTables

  func record(of user: UserID) throws -> UserRecord {
    let (key, users) = try tables.erasure.names(of: user)
    let name = try tables.accounts.name(ofKey: key)
    let ids = Set([name] + users.map(\.key).filter { $0 != key }.map { UserID($0) })
    let customer = try tables.customers.customer(UserID(key))
    return UserRecord(
      user: name, ids: ids.sorted { $0.rawValue < $1.rawValue },
      profile: try tables.accounts.ledgerProfile(of: name), firstSeenAt: customer?.firstSeenAt,
      lastSeenAt: customer?.lastSeenAt, progress: try tables.progress.progress(ofKey: key),
      grants: try tables.given.given(to: UserID(key), limit: 10_000), trials: try trials(of: key),
      devices: try devices(of: key),
      totals: try totals(of: key),
      timeZone: try first("SELECT name FROM user_time_zone WHERE user_id = ?", key),
      exposures: try tables.exposures.exposures(of: key), attributes: try tables.customers.attributes(of: UserID(key)),
      waitingReceipts: try Set(users.flatMap(\.spellings)).sorted().flatMap(tables.pending.receipts(of:)),
      reports: try reports(of: key), update: try keptUpdate(of: key))
  }

  private func trials(of key: String) throws -> [TrialRecord] {
    try all("SELECT id FROM trial WHERE user_id = ? ORDER BY id", key, as: Int64.self)
      .compactMap(tables.trials.trial)
  }

  private func devices(of key: String) throws -> [UserRecord.KeptDevice] {
    try all(
      """
      SELECT device_id, app, model, ios_version, app_version, push_token, first_seen_at, last_seen_at FROM device
      WHERE user_id = ? ORDER BY device_id
      """, key
    ) { row in
      UserRecord.KeptDevice(
        device: Device(
          id: try row.get(0), app: try row.get(1), model: try row.get(2), iosVersion: try row.get(3),
          appVersion: try row.get(4), pushToken: try row.get(5)), firstSeenAt: try row.get(6),
        lastSeenAt: try row.get(7))
    }
  }

  private func totals(of key: String) throws -> [String: Int] {
    let totals = try all("SELECT feature, total FROM feature_total WHERE user_id = ?", key, as: (String, Int).self)
    return Dictionary(totals) { first, _ in first }
  }

  private func reports(of key: String) throws -> [SubscriptionKey: [StoreEvent]] {
    let reports = try all(
      "SELECT environment, original_transaction_id, events FROM revenuecat_report WHERE user_id = ?", key
    ) { row in (try row.get(0, as: SubscriptionKey.self), try StoredForm.decoded([StoreEvent].self, row.get(2))) }
    return Dictionary(reports) { first, _ in first }
  }

  private func keptUpdate(of key: String) throws -> UserRecord.KeptUpdate? {
    try first(
      "SELECT state, waiting_since, attempts, problem FROM outbox WHERE key = ?", key,
      into: UserRecord.KeptUpdate.init(state:waitingSince:attempts:problem:))
  }

  func purchases(ofKey key: String, from start: Int, limit: Int) throws -> [ExportedPurchase] {
    let purchases = try tables.accounts.account(withKey: key)?.purchases ?? []
    return try purchases.dropFirst(start).prefix(limit).map { id in
      guard id > 0 else {
        guard let purchase = try tables.otherStores.purchase(id: id) else { throw StoredForm.Unstorable() }
        return ExportedPurchase(
          evidence: purchase.evidence, isPresented: false, scheduledAt: purchase.dueAt, events: purchase.events,
          notifications: try tables.notifications.notifications(
            of: purchase.evidence.key, limit: ExportedPurchase.notificationLimit))
      }
      let purchase = try tables.purchases.purchase(id: id)
      let evidence = purchase.evidence.including(past: try tables.pastTransactions.transactions(of: id))
      let proof = try tables.proofs.proof(purchase.proof)
      return ExportedPurchase(
        evidence: evidence,
        isPresented: purchase.claim == .proof,
        scheduledAt: purchase.schedule.map { StoredForm.date($0.scheduledAt) },
        proof: .init(sha256: hexadecimal(proof.digest.bytes), receipt: proof.receipt),
        notifications: try tables.notifications.notifications(
          of: evidence.key, limit: ExportedPurchase.notificationLimit),
        consumption: try tables.consumptionRequests.records(of: evidence),
        extensions: try tables.extensions.records(of: evidence.key, limit: ExportedPurchase.extensionLimit))
    }
  }

  func consumptions(
    ofKey key: String, after last: ExportedConsumption?, limit: Int
  ) throws -> [ExportedConsumption] {
    let last =
      last
      ?? ExportedConsumption(feature: "", consumedAt: Date(millisecondsSince1970: 0), number: 0, amount: 0)
    return try all(
      """
      SELECT feature, consumed_at, number, amount, returned, idempotency_key FROM consumption
      WHERE user_id = ? AND (feature > ? OR (feature = ? AND (consumed_at > ? OR (consumed_at = ? AND number > ?))))
      ORDER BY feature, consumed_at, number LIMIT ?
      """, key, last.feature, last.feature, last.consumedAt, last.consumedAt, last.number, limit,
      into: ExportedConsumption.init(feature:consumedAt:number:amount:returned:idempotencyKey:))
  }
}

extension LedgerTables { var export: ExportTable { ExportTable(tables: self) } }

internal import Entitlements
internal import struct FoundationEssentials.Date

extension ExtensionRecord.State: StoredWord {}
extension RenewalExtension.Reason: StoredWord {}

/// Extensions of renewal dates.
struct ExtensionTable: LedgerTable {
  let tables: LedgerTables

  private static func extensions(where condition: String) -> SQL {
    SQL(
      """
      SELECT id, request_identifier, environment, subject, is_of_product, storefronts, bundle_id, days, reason, author,
        note, request_id, asked_at, state, attempts, problem, closed_at, expires_at, expected, succeeded, failed
      FROM renewal_extension WHERE \(condition)
      """)
  }

  private static let extensionByID = extensions(where: "id = ?")
  private static let extensionByName = extensions(where: "request_identifier = ?")
  private static let extensionByKey = extensions(
    where: "environment = ? AND subject = ? AND is_of_product = ? AND idempotency_key = ?")
  private static let openExtensionsOfSubject = extensions(
    where: "environment = ? AND subject = ? AND is_of_product = ? AND due_at IS NOT NULL ORDER BY id")
  private static let extensionsOfSubject = extensions(
    where: "environment = ? AND subject = ? AND is_of_product = 0 ORDER BY id DESC LIMIT ?")
  private static let newestExtensions = extensions(where: "is_of_product = ? ORDER BY id DESC LIMIT ?")
  private static let dueExtensions = extensions(
    where: """
      \(ScheduleTable.isClaimable) ORDER BY due_at, id LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */
      """)

  private static func extensionRecord(_ row: SQLRow) throws -> ExtensionRecord {
    let subject: String = try row.get(3)
    let storefronts = try row.get(5, as: String?.self).map { try StoredForm.decoded([String].self, $0) }
    var record = ExtensionRecord(
      id: try row.get(0), environment: try row.get(2),
      subject: try row.get(4)
        ? .product(ExtendedProduct(productID: ProductID(subject), storefronts: storefronts))
        : .purchase(OriginalTransactionID(subject)),
      bundleID: try row.get(6),
      terms: RenewalExtension(days: try row.get(7), reason: try row.get(8), requestIdentifier: try row.get(1)),
      author: try row.get(9), note: try row.get(10), requestID: try row.get(11), askedAt: try row.get(12))
    (record.state, record.attempts) = (try row.get(13), try row.get(14))
    (record.problem, record.closedAt, record.expiresAt) = (try row.get(15), try row.get(16), try row.get(17))
    (record.expected, record.succeeded, record.failed) = (try row.get(18), try row.get(19), try row.get(20))
    return record
  }

  // MARK: Reading

  func record(_ id: ExtensionRecord.ID) throws -> ExtensionRecord? {
    try first(Self.extensionByID, id, read: Self.extensionRecord)
  }

  func record(
    of subject: ExtensionRecord.Subject, _ environment: StoreEnvironment, under idempotencyKey: String
  ) throws -> ExtensionRecord? {
    try first(
      Self.extensionByKey, environment, subject.name, subject.product != nil, idempotencyKey,
      read: Self.extensionRecord)
  }

  func openExtensions(
    of subject: ExtensionRecord.Subject, _ environment: StoreEnvironment
  ) throws -> [ExtensionRecord] {
    try all(
      Self.openExtensionsOfSubject, environment, subject.name, subject.product != nil, read: Self.extensionRecord)
  }

  func records(of key: SubscriptionKey, limit: Int) throws -> [ExtensionRecord] {
    try all(
      Self.extensionsOfSubject, key.environment, key.originalTransactionID, max(0, limit), read: Self.extensionRecord)
  }

  func records(ofProducts isOfProducts: Bool, limit: Int) throws -> [ExtensionRecord] {
    try all(Self.newestExtensions, isOfProducts, max(0, limit), read: Self.extensionRecord)
  }

  // MARK: Writing

  func add(_ asked: AskExtension) throws -> ExtensionRecord {
    let product = asked.subject.product
    let expected = try product.map { product in
      try first(
        "SELECT CAST(coalesce(sum(users), 0) AS BIGINT) FROM access_count WHERE product_id = ?", product.productID,
        as: Int64.self)
    }
    let id = try first(
      """
      INSERT INTO renewal_extension
        (request_identifier, environment, subject, is_of_product, storefronts, bundle_id, days, reason, author, note,
         request_id, idempotency_key, asked_at, state, due_at, claimed_until, attempts, expected, succeeded, failed)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'due', ?, ?, 0, ?, 0, 0) RETURNING id
      """, asked.terms.requestIdentifier, asked.environment, asked.subject.name, product != nil,
      product?.storefronts.map(StoredForm.encoded), asked.bundleID, asked.terms.days, asked.terms.reason, asked.author,
      asked.note, asked.requestID, asked.idempotencyKey, asked.now, asked.now, asked.claimedUntil, expected,
      as: Int64.self)
    guard let id, let record = try record(id) else { throw StoredForm.Unstorable() }
    return record
  }

  func claim(in environment: StoreEnvironment?, dueAt now: Date, until lease: Date, limit: Int) throws
    -> [ExtensionRecord]
  {
    let due = try all(Self.dueExtensions, environment, now, now, max(0, limit), read: Self.extensionRecord)
    for one in due { try execute("UPDATE renewal_extension SET claimed_until = ? WHERE id = ?", lease, one.id) }
    return due
  }

  func settle(_ record: ExtensionRecord, _ result: ExtensionResult, at now: Date) throws -> NoteID? {
    func update(_ state: ExtensionRecord.State, due: Date? = nil, attempts: Int, _ problem: String?) throws {
      try execute(
        """
        UPDATE renewal_extension SET
          state = ?, due_at = ?, claimed_until = NULL, attempts = ?, problem = ?, closed_at = ?
        WHERE id = ? AND due_at IS NOT NULL AND state = ?
        """, state, due, attempts, problem, due == nil ? now : nil, record.id, record.state)
    }
    switch result {
    case .due(let due, let attempts, let problem): try update(.due, due: due, attempts: attempts, problem)
    case .running(let look, let attempts, let problem): try update(.running, due: look, attempts: attempts, problem)
    case .refused(let problem): try update(.refused, attempts: record.attempts, problem)
    case .failed(let problem): try update(.failed, attempts: record.attempts, problem)
    case .complete(let succeeded, let failed):
      _ = try complete(
        ExtensionSummary(
          requestIdentifier: record.terms.requestIdentifier, succeeded: succeeded, failed: failed), at: now)
    case .extended(let end, var note):
      try update(.done, attempts: record.attempts, nil)
      // Another process was faster.
      guard changesCount > 0 else { return nil }
      try execute("UPDATE renewal_extension SET expires_at = ? WHERE id = ?", end, record.id)
      // An erasure may have redacted it since it was read.
      if let said = record.note, let present = try self.record(record.id)?.note, present != said {
        note.text = note.text.replacing(said, with: present)
      }
      guard let asked = record.key else { return nil }
      let key = try tables.purchases.successor(of: asked) ?? asked
      guard let owner = try tables.purchases.purchase(key)?.owner else { return nil }
      _ = try tables.schedule.recheckSoon(key.originalTransactionID, at: StoredForm.milliseconds(now))
      return try tables.events.append(note, about: owner, at: now)
    }
    return nil
  }

  func complete(_ summary: ExtensionSummary, at now: Date) throws -> ExtensionRecord? {
    try execute(
      """
      UPDATE renewal_extension SET
        state = 'done', due_at = NULL, claimed_until = NULL, problem = NULL, closed_at = ?,
        succeeded = coalesce(?, succeeded), failed = coalesce(?, failed)
      WHERE request_identifier = ? AND is_of_product = 1 AND due_at IS NOT NULL
      """, now, summary.succeeded, summary.failed, summary.requestIdentifier)
    guard changesCount > 0 else { return nil }
    return try first(Self.extensionByName, summary.requestIdentifier, read: Self.extensionRecord)
  }

  /// Counts a subscription of a product that Apple is extending, or could not extend.
  func countExtension(of productID: ProductID, in environment: StoreEnvironment, succeeded: Bool) throws {
    try execute(
      """
      UPDATE renewal_extension SET succeeded = succeeded + ?, failed = failed + ?
      WHERE id = (
        SELECT max(id) FROM renewal_extension
        WHERE environment = ? AND subject = ? AND is_of_product = 1 AND due_at IS NOT NULL)
      """, succeeded ? 1 : 0, succeeded ? 0 : 1, environment, productID)
  }

  /// Takes names out of what people said of extensions: of a purchase that was the user's before, or of any.
  func redact(recordsOf key: SubscriptionKey?, _ names: ErasedNames) throws {
    let columns = "SELECT id, note, request_id, idempotency_key FROM renewal_extension"
    let said =
      if let key {
        try all(
          SQL("\(columns) WHERE is_of_product = 0 AND environment = ? AND subject = ?"), key.environment,
          key.originalTransactionID, as: (Int64, String?, String, String?).self)
      } else { try all(SQL(columns), as: (Int64, String?, String, String?).self) }
    for (id, note, request, idempotencyKey) in said {
      let said = [note, request, idempotencyKey]
      var redacted = said.map { text in text.map { names.redacted($0) } }
      // Callers choose the IDs of requests.
      if key != nil { redacted[1] = "" }
      // Two keys may differ in names alone.
      if redacted[2] != idempotencyKey { redacted[2] = nil }
      guard redacted != said else { continue }
      try execute(
        "UPDATE renewal_extension SET note = ?, request_id = ?, idempotency_key = ? WHERE id = ?", redacted[0],
        redacted[1], redacted[2], id)
    }
  }

  /// Puts the extensions of a purchase under another ID. Idempotency keys end, lest both IDs have the same. While one of the
  /// other ID waits for Apple's answer, one that waits stays.
  func move(recordsOf former: SubscriptionKey, to key: SubscriptionKey) throws {
    let isTaken = try !openExtensions(of: .purchase(key.originalTransactionID), key.environment).isEmpty
    try execute(
      SQL(
        """
        UPDATE renewal_extension SET subject = ?, idempotency_key = NULL
        WHERE environment = ? AND subject = ? AND is_of_product = 0 \(isTaken ? "AND due_at IS NULL" : "")
        """), key.originalTransactionID, former.environment, former.originalTransactionID)
  }

  /// Forgets the extensions of a purchase.
  func forget(recordsOf key: SubscriptionKey) throws {
    try execute(
      "DELETE FROM renewal_extension WHERE environment = ? AND subject = ? AND is_of_product = 0", key.environment,
      key.originalTransactionID)
  }
}

extension LedgerTables { var extensions: ExtensionTable { ExtensionTable(tables: self) } }

extension ExtensionRecord.Subject {
  fileprivate var name: String {
    switch self {
    case .purchase(let id): id.rawValue
    case .product(let product): product.productID.rawValue
    }
  }
}

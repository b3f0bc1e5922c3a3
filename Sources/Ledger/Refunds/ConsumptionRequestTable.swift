internal import Entitlements
internal import struct FoundationEssentials.Date

extension ConsumptionRequest.State: StoredWord {}

/// Apple's requests for consumption data.
package struct ConsumptionRequestTable: LedgerTable {
  package let tables: LedgerTables

  private static let requestColumns = """
    environment, transaction_id, original_transaction_id, bundle_id, is_auto_renewable, asked_at, answer_by, state,
    attempts, problem, closed_at, said, changed_at
    """

  private static func request(_ row: SQLRow) throws -> ConsumptionRequest {
    var request = ConsumptionRequest(
      environment: try row.get(0), transactionID: TransactionID(try row.get(1)), originalTransactionID: try row.get(2),
      bundleID: try row.get(3), isAutoRenewable: try row.get(4), askedAt: try row.get(5), answerBy: try row.get(6))
    (request.state, request.attempts) = (try row.get(7), try row.get(8))
    (request.problem, request.closedAt, request.changedAt) = (try row.get(9), try row.get(10), try row.get(12))
    return request
  }

  private static func said(_ row: SQLRow) throws -> ConsumptionInformation? {
    try row.get(11, as: String?.self).map { try StoredForm.decoded(ConsumptionInformation.self, $0) }
  }

  /// A later request takes the place of an earlier one, which Apple has decided by then.
  func keep(_ request: ConsumptionRequest, at now: Date) throws {
    try execute(
      """
      INSERT INTO consumption_request
        (environment, transaction_id, original_transaction_id, bundle_id, is_auto_renewable, asked_at, answer_by, state,
         due_at, attempts, changed_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, 'due', ?, 0, ?)
      ON CONFLICT (environment, transaction_id) DO UPDATE SET
        original_transaction_id = excluded.original_transaction_id, bundle_id = excluded.bundle_id,
        is_auto_renewable = excluded.is_auto_renewable, asked_at = excluded.asked_at, answer_by = excluded.answer_by,
        state = 'due', due_at = excluded.due_at, claimed_until = NULL, attempts = 0, problem = NULL, closed_at = NULL,
        changed_at = excluded.changed_at
      WHERE consumption_request.asked_at IS NULL OR consumption_request.asked_at < excluded.asked_at
      """, request.environment, request.transactionID.rawValue, request.originalTransactionID, request.bundleID,
      request.isAutoRenewable, request.askedAt, request.answerBy, now, now)
  }

  /// A word takes the place of the one before. A customer's no stays until a word says yes.
  func keep(
    _ information: ConsumptionInformation, of id: TransactionID, in environment: StoreEnvironment, at now: Date
  ) throws {
    var information = information
    let consented = try record(of: id, in: environment)?.said?.customerConsented
    if information.customerConsented == nil, consented == false { information.customerConsented = false }
    try execute(
      """
      INSERT INTO consumption_request (environment, transaction_id, said, attempts, changed_at) VALUES (?, ?, ?, 0, ?)
      ON CONFLICT (environment, transaction_id) DO UPDATE SET
        said = excluded.said, changed_at = excluded.changed_at,
        due_at = CASE WHEN consumption_request.due_at IS NULL THEN NULL ELSE excluded.changed_at END
      """, environment, id.rawValue, StoredForm.encoded(information), now)
  }

  func record(of id: TransactionID, in environment: StoreEnvironment) throws -> ConsumptionRecord? {
    try first(
      SQL("SELECT \(Self.requestColumns) FROM consumption_request WHERE environment = ? AND transaction_id = ?"),
      environment, id.rawValue
    ) { row in
      let isAsked = try row.get(7, as: String?.self) != nil
      return ConsumptionRecord(said: try Self.said(row), request: isAsked ? try Self.request(row) : nil)
    }
  }

  func records(of evidence: SubscriptionEvidence) throws -> [TransactionID: ConsumptionRecord] {
    var records: [TransactionID: ConsumptionRecord] = [:]
    for id in evidence.purchases.map(\.transactionID) {
      records[id] = try record(of: id, in: evidence.key.environment)
    }
    return records
  }

  func claim(
    in environment: StoreEnvironment?, dueAt now: Date, until lease: Date, limit: Int
  ) throws -> [ClaimedConsumptionRequest] {
    let due = try all(
      SQL(
        """
        SELECT \(Self.requestColumns) FROM consumption_request
        WHERE \(ScheduleTable.isClaimable) ORDER BY due_at LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */
        """), environment, now, now, max(0, limit)
    ) { ClaimedConsumptionRequest(request: try Self.request($0), said: try Self.said($0)) }
    for one in due {
      try execute(
        "UPDATE consumption_request SET claimed_until = ? WHERE environment = ? AND transaction_id = ?", lease,
        one.request.environment, one.request.transactionID.rawValue)
    }
    return due
  }

  func settle(_ request: ConsumptionRequest, _ result: ConsumptionResult, at now: Date) throws {
    // A word of the app's backend that came since the claim makes it due at once.
    func update(_ state: ConsumptionRequest.State, due: Date?, attempts: Int, _ problem: String?) throws {
      try execute(
        """
        UPDATE consumption_request SET
          state = ?, due_at = CASE WHEN state = ? AND changed_at <> ? THEN due_at ELSE ? END, claimed_until = NULL,
          attempts = ?, problem = ?, closed_at = ?, changed_at = ?
        WHERE environment = ? AND transaction_id = ? AND state = 'due' AND asked_at = ?
        """, state, state, request.changedAt, due, attempts, problem, due == nil ? now : nil, now, request.environment,
        request.transactionID.rawValue, request.askedAt)
    }
    switch result {
    case .due(let due, let attempts, let problem): try update(.due, due: due, attempts: attempts, problem)
    case .closed(let state, let problem): try update(state, due: nil, attempts: request.attempts, problem)
    }
  }

  /// Forgets the consumption information about a purchase, and Apple's requests: they may name a transaction that no evidence
  /// has, as a restored one has an ID of its own.
  func forget(requestsOf key: SubscriptionKey, _ transactions: [Purchase]) throws {
    try execute("DELETE FROM consumption_request WHERE environment = ? AND original_transaction_id = ?", key)
    for transaction in transactions {
      try execute(
        "DELETE FROM consumption_request WHERE environment = ? AND transaction_id = ?", key.environment,
        transaction.transactionID.rawValue)
    }
  }

  /// Requests that wait stay, however old they are.
  func prune(before: Date, limit: Int) throws {
    try execute(
      """
      DELETE FROM consumption_request WHERE (environment, transaction_id) IN
        (SELECT environment, transaction_id FROM consumption_request WHERE changed_at < ? AND due_at IS NULL
         ORDER BY changed_at LIMIT ?)
      """, before, max(0, limit))
  }
}

extension LedgerTables {
  package var consumptionRequests: ConsumptionRequestTable { ConsumptionRequestTable(tables: self) }
}

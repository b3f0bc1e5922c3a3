package import Entitlements
package import struct FoundationEssentials.Date

/// Apple's requests for consumption information.
extension Ledger {
  /// Keeps the word of the app's backend on a transaction. A request that waits is due at once.
  package func say(
    _ information: ConsumptionInformation, of id: TransactionID, in environment: StoreEnvironment, at now: Date
  ) async throws(LedgerError) -> ConsumptionRecord {
    try await engine.submit { tables in
      try tables.consumptionRequests.keep(information, of: id, in: environment, at: now)
      return try tables.consumptionRequests.record(of: id, in: environment) ?? ConsumptionRecord()
    }
  }

  /// - Returns: `nil` where neither the app's backend nor Apple has said anything.
  package func consumptionRecord(
    of id: TransactionID, in environment: StoreEnvironment
  ) async throws(LedgerError) -> ConsumptionRecord? {
    try await readShort { tables in try tables.consumptionRequests.record(of: id, in: environment) }
  }

  /// Claims requests that are due, the longest due first. One that is not settled is due again at `lease`.
  ///
  /// - Parameter environment: that of the claimed ones; `nil`: any.
  package func claimConsumptionRequests(
    in environment: StoreEnvironment?, dueAt now: Date, until lease: Date, limit: Int
  ) async throws(LedgerError) -> [ClaimedConsumptionRequest] {
    guard try await read({ try $0.schedule.hasClaimable(in: "consumption_request", of: environment, at: now) }) else {
      return []
    }
    return try await engine.submit { tables in
      try tables.consumptionRequests.claim(in: environment, dueAt: now, until: lease, limit: limit)
    }
  }

  /// Records the result of a claimed request. A newer request about the same transaction is left unchanged.
  package func settle(
    _ request: ConsumptionRequest, _ result: ConsumptionResult, at now: Date
  ) async throws(LedgerError) {
    try await engine.submit { tables in try tables.consumptionRequests.settle(request, result, at: now) }
  }

  /// Returns claimed requests that were not settled.
  package func returnConsumptionRequests(
    _ requests: [ConsumptionRequest], claimedUntil lease: Date
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      for request in requests {
        try tables.execute(
          """
          UPDATE consumption_request SET claimed_until = NULL
          WHERE environment = ? AND transaction_id = ? AND claimed_until = ?
          """, request.environment, request.transactionID.rawValue, lease)
      }
    }
  }
}

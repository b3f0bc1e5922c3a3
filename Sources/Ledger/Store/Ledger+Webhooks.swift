package import struct FoundationEssentials.Date

/// Receivers of events, and what they were told.
extension Ledger {
  /// Takes up the receivers of the configuration: see `LedgerTables.keepWebhooks`.
  package func keepWebhooks(_ urls: [String: String]) async throws(LedgerError) {
    try await engine.submit { tables in try tables.keepWebhooks(urls) }
  }

  /// What a receiver is to be told now.
  /// - Parameters:
  ///   - due: the most events that wait.
  ///   - fresh: the most events that it was not told of yet.
  package func webhookWork(
    of name: String, dueAt now: Date, due: Int, fresh: Int
  ) async throws(LedgerError) -> WebhookWork {
    try await readShort { tables in try tables.webhookWork(of: name, dueAt: now, due: due, fresh: fresh) }
  }

  /// Records what became of events, and how far the receiver is, in one transaction. Without it they are sent again.
  /// - Parameters:
  ///   - through: every event up to this one is delivered, or among the results.
  ///   - isGone: whether the receiver wants nothing more.
  package func settleWebhook(
    _ name: String, _ results: [WebhookResult], through: Int64?, isGone: Bool, at now: Date
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.settleWebhook(name, results, through: through, at: now)
      if isGone { try tables.enableWebhook(name, false) }
    }
  }

  /// How far a receiver is; `nil` for one that is not known.
  package func webhookStatus(_ name: String) async throws(LedgerError) -> WebhookStatus? {
    try await read { tables in try tables.webhookStatus(name) }
  }

  /// What was given up, in the order of events.
  package func deadLetters(
    of name: String, after sequence: Int64, limit: Int
  ) async throws(LedgerError) -> [DeadLetter] {
    try await read { tables in try tables.deadLetters(of: name, after: sequence, limit: limit) }
  }

  /// Enables a receiver, and sends it again what was given up, or one event.
  /// - Returns: how many events; `nil` for an event that is not kept.
  package func redeliver(_ redelivery: Redelivery, to name: String) async throws(LedgerError) -> Int? {
    try await engine.submit { tables in
      let count = try tables.redeliver(redelivery, to: name)
      tables.changes.noteEvent()
      return count
    }
  }
}

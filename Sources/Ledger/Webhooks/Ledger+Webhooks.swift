package import struct FoundationEssentials.Date

/// Receivers of events, and what was delivered to them.
extension Ledger {
  /// Takes up the receivers of the configuration: see `WebhookTable.keep`.
  /// - Returns: those that are forgotten, as they were.
  @discardableResult
  package func keepWebhooks(_ urls: [String: String]) async throws(LedgerError) -> [String: WebhookStatus] {
    try await engine.submit { tables in try tables.webhooks.keep(urls) }
  }

  /// Claims receivers for a process, or renews its claims, so that one replica delivers to a receiver at a time. Where
  /// nobody else has the ledger open, all are granted.
  ///
  /// - Parameters:
  ///   - holder: the process's own word for itself.
  ///   - former: claims of others that ended before this are over.
  /// - Returns: those that are the process's until `lease`.
  package func claimWebhooks(
    _ names: [String], by holder: String, overBefore former: Date, until lease: Date
  ) async throws(LedgerError) -> Set<String> {
    guard engine.isShared else { return Set(names) }
    return try await engine.submit { tables in
      try Set(
        names.sorted().filter { name in
          try tables.execute(
            """
            INSERT INTO webhook_lease (webhook, holder, lease_until) VALUES (?, ?, ?)
            ON CONFLICT (webhook) DO UPDATE SET holder = excluded.holder, lease_until = excluded.lease_until
            WHERE webhook_lease.holder = excluded.holder OR webhook_lease.lease_until < ?
            """, name, holder, lease, former)
          return tables.changesCount == 1
        })
    }
  }

  /// Shortens claims of a wrong clock, which nobody may renew: none lasts longer than one that is made now.
  package func shortenWebhookClaims(to lease: Date) async throws(LedgerError) {
    guard engine.isShared else { return }
    try await engine.submit { tables in
      try tables.execute("UPDATE webhook_lease SET lease_until = ? WHERE lease_until > ?", lease, lease)
    }
  }

  /// Gives a process's claims back.
  package func releaseWebhooks(of holder: String) async throws(LedgerError) {
    guard engine.isShared else { return }
    try await engine.submit { tables in try tables.execute("DELETE FROM webhook_lease WHERE holder = ?", holder) }
  }

  /// The events that are to be delivered to a receiver now.
  /// - Parameters:
  ///   - due: the most events that wait.
  ///   - fresh: the most events that were never sent to it.
  ///   - withPayloads: whether the events have the notifications that they forward.
  ///   - withAttributes: whether the attributes of their customers are there.
  package func webhookWork(
    of name: String, dueAt now: Date, due: Int, fresh: Int, withPayloads: Bool = false, withAttributes: Bool = false
  ) async throws(LedgerError) -> WebhookWork {
    try await readShort { tables in
      var work = try tables.webhooks.work(of: name, dueAt: now, due: due, fresh: fresh)
      if withAttributes {
        for user in Set((work.due.map(\.event) + work.fresh).map(\.user)) {
          work.attributes[user] = try tables.customers.attributes(of: user)
        }
      }
      guard withPayloads else { return work }
      for index in work.due.indices {
        work.due[index].event.payload = try tables.webhooks.payload(of: work.due[index].event)
      }
      for index in work.fresh.indices { work.fresh[index].payload = try tables.webhooks.payload(of: work.fresh[index]) }
      return work
    }
  }

  /// Records what became of events, and how far the receiver is, in one transaction. Without it they are sent again.
  /// - Parameters:
  ///   - holder: the process that claimed the receiver. Where another one has by now, nothing is recorded.
  ///   - through: every event up to this one is delivered, or among the results.
  ///   - isGone: whether the receiver wants nothing more.
  package func settleWebhook(
    _ name: String, by holder: String? = nil, _ results: [WebhookResult], through: Int64?, isGone: Bool, at now: Date
  ) async throws(LedgerError) {
    let isShared = engine.isShared
    try await engine.submit { tables in
      if isShared, let holder,
        try !tables.exists("SELECT 1 FROM webhook_lease WHERE webhook = ? AND holder = ?", name, holder)
      {
        return
      }
      try tables.webhooks.settle(name, results, through: through, at: now)
      if isGone { try tables.webhooks.enable(name, false) }
    }
  }

  /// The state of a receiver; `nil` for one that is not known.
  ///
  /// - Parameter takes: whether events of a type are for the receiver.
  package func webhookStatus(
    _ name: String, taking takes: @escaping @Sendable (String) -> Bool = { _ in true }
  ) async throws(LedgerError) -> WebhookStatus? {
    try await read { tables in try tables.webhooks.status(name, taking: takes) }
  }

  /// The events that were given up, in their order.
  package func deadLetters(
    of name: String, after sequence: Int64, limit: Int
  ) async throws(LedgerError) -> [DeadLetter] {
    try await read { tables in try tables.webhooks.deadLetters(of: name, after: sequence, limit: limit) }
  }

  /// Enables a receiver, and sends it again what was given up, or one event; or forgets one event for it, which enables
  /// nothing.
  ///
  /// - Parameter takes: whether events of a type are for the receiver.
  package func redeliver(
    _ redelivery: Redelivery, to name: String, taking takes: @escaping @Sendable (String) -> Bool = { _ in true }
  ) async throws(LedgerError) -> Redelivery.Outcome {
    try await engine.submit { tables in
      let outcome = try tables.webhooks.redeliver(redelivery, to: name, taking: takes)
      if case .begun = outcome { tables.changes.noteEvent() }
      return outcome
    }
  }
}

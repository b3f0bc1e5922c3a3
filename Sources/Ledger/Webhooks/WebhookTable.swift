internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

/// Receivers of events, and what waits for each.
struct WebhookTable: LedgerTable {
  let tables: LedgerTables

  /// Receivers that are new begin with the next event. One with another URL is enabled, and goes on where it was. Those that
  /// are no longer named are forgotten, so that they do not get everything since when they come back.
  func keep(_ urls: [String: String]) throws -> [String: WebhookStatus] {
    var forgotten: [String: WebhookStatus] = [:]
    for name in try all("SELECT name FROM webhook ORDER BY name", as: String.self)
    where urls[name] == nil {
      forgotten[name] = try status(name) { _ in true }
      try execute("DELETE FROM webhook_delivery WHERE webhook = ?", name)
      try execute("DELETE FROM webhook WHERE name = ?", name)
    }
    for (name, url) in urls.sorted(by: { $0.key < $1.key }) {
      let digest = ReceiptDigest(of: url)
      let known = try first("SELECT url_sha256 FROM webhook WHERE name = ?", name, as: ReceiptDigest.self)
      guard let known else {
        try execute(
          "INSERT INTO webhook (name, url_sha256, through, is_enabled) VALUES (?, ?, ?, 1)", name, digest,
          tables.changeEvents.newest())
        continue
      }
      guard known != digest else { continue }
      try execute("UPDATE webhook SET url_sha256 = ?, is_enabled = 1 WHERE name = ?", digest, name)
    }
    return forgotten
  }

  func enable(_ name: String, _ isEnabled: Bool) throws {
    try execute("UPDATE webhook SET is_enabled = ? WHERE name = ?", isEnabled, name)
  }

  private func state(ofWebhook name: String) throws -> (Int64, Bool)? {
    try first("SELECT through, is_enabled FROM webhook WHERE name = ?", name, as: (Int64, Bool).self)
  }

  // MARK: Deliveries

  func work(of name: String, dueAt now: Date, due dueLimit: Int, fresh freshLimit: Int) throws -> WebhookWork {
    var work = WebhookWork()
    guard let (through, isEnabled) = try state(ofWebhook: name), isEnabled else { return work }
    work.isEnabled = true
    // Of each user the first that waits. One that is due is looked for among as many as one turn may send, the longest due
    // first; those behind another one of their user are due at zero, and are passed over.
    let rows = try all(
      """
      SELECT one.sequence, one.attempts FROM webhook_delivery AS one
      WHERE one.webhook = ? AND one.is_dead = 0 AND one.due_at <= ?
        AND NOT EXISTS (
          SELECT 1 FROM webhook_delivery AS other
          WHERE other.webhook = one.webhook AND other.is_dead = 0 AND other.user_id = one.user_id
            AND other.sequence < one.sequence)
      ORDER BY one.due_at, one.sequence LIMIT ?
      """, name, now, max(0, dueLimit), as: (Int64, Int).self)
    for (sequence, attempts) in rows {
      if let event = try changeEvent(sequence) { work.due.append(.init(event: event, attempts: attempts)) }
    }
    work.fresh = try tables.changeEvents.events(after: through, limit: freshLimit)
    for user in Set(work.fresh.map(\.user)) {
      let waits = try exists(
        "SELECT 1 FROM webhook_delivery WHERE webhook = ? AND is_dead = 0 AND user_id = ? LIMIT 1", name, user.key)
      if waits { work.blocked.insert(user) }
    }
    return work
  }

  /// The notification that an event forwards, as long as it is kept.
  func payload(of event: ChangeEvent) throws -> String? {
    try event.detail.forwarded.flatMap {
      try first("SELECT payload FROM notification WHERE uuid = ?", $0, as: String?.self) ?? nil
    }
  }

  /// - Parameter through: every event up to this one is delivered, or is among the results.
  func settle(_ name: String, _ results: [WebhookResult], through: Int64?, at now: Date) throws {
    for result in results {
      switch result.outcome {
      case .delivered, .untold:
        try execute("DELETE FROM webhook_delivery WHERE webhook = ? AND sequence = ?", name, result.sequence)
      case .waits: try keep(result, of: name, attempts: 0, due: Date(millisecondsSince1970: 0))
      case .failed(let attempts, let due, let problem):
        try keep(result, of: name, attempts: attempts, due: due, problem: problem, at: now)
      case .dead(let attempts, let problem):
        try keep(result, of: name, isDead: true, attempts: attempts, due: now, problem: problem, at: now)
      }
    }
    try count(results, of: name, at: now)
    if let through {
      try execute("UPDATE webhook SET through = ? WHERE name = ? AND through < ?", through, name, through)
    }
  }

  private func count(_ results: [WebhookResult], of name: String, at now: Date) throws {
    let delivered = results.count { $0.outcome == .delivered }
    let failed = results.count { ![.delivered, .untold, .waits].contains($0.outcome) }
    for (detail, count) in [("delivered", delivered), ("failed", failed)] where count > 0 {
      try tables.marks.mark(Int64(count), to: Tally(name: .webhooks, day: now.utcDay, label: name, detail: detail))
    }
  }

  private static let upsertDelivery = SQL.upsert(
    "webhook_delivery", key: "webhook, sequence", first: "user_id", "is_dead, attempts, due_at, problem, problem_at")

  private func keep(
    _ result: WebhookResult, of name: String, isDead: Bool = false, attempts: Int, due: Date, problem: String? = nil,
    at moment: Date? = nil
  ) throws {
    // The user may have been erased while it was sent.
    guard try changeEvent(result.sequence) != nil else { return }
    try execute(
      Self.upsertDelivery, name, result.sequence, result.user.key, isDead, attempts, due, problem,
      problem == nil ? nil : moment)
  }

  // MARK: For people

  /// Events after the last one that was looked at for a receiver, of which those that wait for it are counted.
  private static let lookahead = 10_000

  func status(_ name: String, taking takes: (String) -> Bool) throws -> WebhookStatus? {
    guard let (through, isEnabled) = try state(ofWebhook: name) else { return nil }
    var status = WebhookStatus()
    status.isEnabled = isEnabled
    let tried = try first(
      "SELECT count(*), min(sequence) FROM webhook_delivery WHERE webhook = ? AND is_dead = 0", name,
      as: (Int, Int64?).self)
    let next = try all(
      """
      SELECT type, count(*), min(sequence) FROM (
        SELECT type, sequence FROM change_event WHERE sequence > ? AND type <> 'user.erased' ORDER BY sequence LIMIT ?
      ) AS page GROUP BY type
      """, through, Self.lookahead
    ) {
      (type: try $0.get(0, as: String.self), count: try $0.get(1, as: Int.self), first: try $0.get(2, as: Int64.self))
    }
    .filter { takes($0.type) }
    status.waiting = min(next.reduce(tried?.0 ?? 0) { $0 + $1.count }, WebhookStatus.mostWaiting)
    if let oldest = ([tried?.1] + next.map(\.first)).compactMap(\.self).min() {
      status.oldest = try first("SELECT recorded_at FROM change_event WHERE sequence = ?", oldest)
    }
    status.dead =
      try first("SELECT count(*) FROM webhook_delivery WHERE webhook = ? AND is_dead = 1", name) ?? 0
    try first(
      """
      SELECT problem, problem_at FROM webhook_delivery
      WHERE webhook = ? AND problem_at IS NOT NULL ORDER BY problem_at DESC LIMIT 1
      """, name
    ) { row in
      status.problem = try row.get(0)
      status.problemAt = try row.get(1)
    }
    return status
  }

  func deadLetters(of name: String, after sequence: Int64, limit: Int) throws -> [DeadLetter] {
    let rows = try all(
      """
      SELECT sequence, attempts, problem, problem_at FROM webhook_delivery
      WHERE webhook = ? AND is_dead = 1 AND sequence > ? ORDER BY sequence LIMIT ?
      """, name, sequence, max(0, limit), as: (Int64, Int, String?, Date?).self)
    return try rows.compactMap { sequence, attempts, problem, failedAt in
      try changeEvent(sequence).map {
        DeadLetter(webhook: name, event: $0, attempts: attempts, problem: problem, failedAt: failedAt)
      }
    }
  }

  func redeliver(
    _ redelivery: Redelivery, to name: String, taking takes: (String) -> Bool
  ) throws -> Redelivery.Outcome {
    var count = 0
    switch redelivery {
    case .nothing: break
    case .dead:
      try execute(
        "UPDATE webhook_delivery SET is_dead = 0, attempts = 0, due_at = 0 WHERE webhook = ? AND is_dead = 1", name)
      count = changesCount
    case .event(let place):
      guard let event = try changeEvent(place.sequence), event.place == place else { return .unknown }
      guard takes(event.type) else { return .untaken(type: event.type) }
      try keep(WebhookResult(of: event, .waits), of: name, attempts: 0, due: Date(millisecondsSince1970: 0))
      count = 1
    case .discard(let place):
      guard try changeEvent(place.sequence)?.place == place else { return .unknown }
      try execute(
        "DELETE FROM webhook_delivery WHERE webhook = ? AND sequence = ? AND is_dead = 1", name, place.sequence)
      return changesCount == 1 ? .begun(0) : .unknown
    }
    try enable(name, true)
    return .begun(count)
  }

  private func changeEvent(_ sequence: Int64) throws -> ChangeEvent? {
    try tables.changeEvents.events(after: sequence - 1, limit: 1).first.flatMap {
      $0.sequence == sequence ? $0 : nil
    }
  }

  /// Forgets deliveries of events that are no longer kept.
  func pruneDeliveries(through sequence: Int64) throws {
    for name in try all("SELECT name FROM webhook ORDER BY name", as: String.self) {
      try execute("DELETE FROM webhook_delivery WHERE webhook = ? AND sequence <= ?", name, sequence)
    }
  }
}

extension LedgerTables { var webhooks: WebhookTable { WebhookTable(tables: self) } }

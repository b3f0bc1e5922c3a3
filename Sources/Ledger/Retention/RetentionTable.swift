internal import Entitlements
internal import struct FoundationEssentials.Date

/// Removal of old history and receipts.
struct RetentionTable: LedgerTable {
  let tables: LedgerTables

  private static let insertThinned = SQL.insert("thinned", "user_id, \(ThinnedHistoryTable.columns)")

  // MARK: What goes

  /// The last event that retention has looked at.
  private static let placeMemo = "retention"
  /// The most lines of a user that are judged at once. Of a longer history the oldest part stays as it is.
  private static let depth = 2_000

  private func place() throws -> Int64 { try tables.memo(Self.placeMemo).flatMap { Int64($0) } ?? 0 }

  /// The moment before which events may go: events for others refer to verdicts.
  private func bound(_ moment: Date) throws -> Date {
    let oldest = try first(
      "SELECT recorded_at FROM change_event WHERE sequence > 0 ORDER BY sequence LIMIT 1", as: Date.self)
    return min(moment, oldest ?? moment)
  }

  /// Whether there are events of before a moment that retention has not looked at.
  func hasHistory(before moment: Date) throws -> Bool {
    let next: Date? = try first(
      "SELECT recorded_at FROM event WHERE sequence > ? ORDER BY sequence LIMIT 1", place())
    return try next.map { try $0 < bound(moment) } ?? false
  }

  /// Takes the next events from before a moment, in their order, and removes what nobody needs any more of the users whose
  /// they are.
  func thin(before moment: Date, limit: Int) throws -> HistoryThinned {
    // One replica at a time thins the history.
    guard try tables.take(.history) else { return HistoryThinned(isBusy: true) }
    let moment = try bound(moment)
    let page = try all(
      "SELECT sequence, user_id, recorded_at FROM event WHERE sequence > ? ORDER BY sequence LIMIT ?", place(),
      max(0, limit), as: (Int64, String?, Date).self)
    let old = page.prefix { $0.2 < moment }
    guard let last = old.last else { return .init() }
    var newest: [String: Int64] = [:]
    for case (let sequence, let user?, _) in old { newest[user] = sequence }
    var thinned = HistoryThinned(examined: old.count)
    for (user, sequence) in newest.sorted(by: { $0.key < $1.key }) {
      thinned.removed += try thin(user, from: sequence)
    }
    try tables.keepMemo(Self.placeMemo, String(last.0))
    return thinned
  }

  /// An event of a user's that is old enough, as it is judged and removed.
  struct OldEvent {
    var line: HistoryThinning.Line
    var previous: Int64?
    var note: Int64?
    /// The stretch right before it that is gone already.
    var gap: ThinnedHistory?

    var isVerdict: Bool {
      if case .verdict = line.content { true } else { false }
    }
  }

  /// A user's events from one down, the oldest first.
  ///
  /// - Parameter limit: the most of them.
  func oldEvents(ofKey key: String, from sequence: Int64, limit: Int) throws -> (events: [OldEvent], isWhole: Bool) {
    var events: [OldEvent] = []
    var next = Optional(sequence)
    while let sequence = next {
      guard events.count < limit else { return (events.reversed(), false) }
      guard let event = try oldEvent(sequence) else {
        guard let gap = try tables.thinnedHistory.stretch(ofKey: key, endingWith: sequence) else {
          throw StoredForm.Unstorable()
        }
        // Where two stretches follow one another, an event is continued from the newer.
        if let last = events.indices.last, events[last].gap == nil { events[last].gap = gap }
        next = gap.previous
        continue
      }
      events.append(event)
      next = event.previous
    }
    return (events.reversed(), true)
  }

  private func oldEvent(_ sequence: Int64) throws -> OldEvent? {
    let row = try first(
      "SELECT kind, entitlement, previous, note FROM event WHERE sequence = ?", sequence,
      as: (String, String?, Int64?, Int64?).self)
    guard let (kind, entitlement, previous, note) = row else { return nil }
    let content: HistoryThinning.Line.Content
    switch kind {
    case "verdict": content = .verdict(.init(try StoredForm.value(Entitlement.self, entitlement ?? "")))
    case "note": content = .note(namedBy: Set(try lines(naming: sequence)))
    default: content = .ownership
    }
    return OldEvent(line: .init(id: sequence, content), previous: previous, note: note)
  }

  private func lines(naming note: Int64) throws -> [Int64] {
    try all("SELECT sequence FROM event WHERE note = ?", note)
  }

  /// - Returns: how many events were removed.
  private func thin(_ key: String, from sequence: Int64) throws -> Int {
    let newest = try first("SELECT newest FROM account WHERE key = ?", key, as: Int64.self)
    guard let newest else { return 0 }
    let (events, isWhole) = try oldEvents(ofKey: key, from: sequence, limit: Self.depth)
    let needless = HistoryThinning.needless(in: events.map(\.line), isWhole: isWhole, newest: newest)
    guard !needless.isEmpty else { return 0 }
    var stretch: ThinnedHistory?
    for event in events {
      guard needless.contains(event.line.id) else {
        stretch = nil
        continue
      }
      stretch = try account(for: event, in: event.gap ?? stretch, ofKey: key)
    }
    for event in events where needless.contains(event.line.id) {
      try execute("DELETE FROM event WHERE sequence = ?", event.line.id)
    }
    for note in Set(events.compactMap { needless.contains($0.line.id) ? $0.note : nil }).sorted()
    where try lines(naming: note).isEmpty {
      // One of the user's own, or of another's, is in a chain and goes with that.
      try execute("DELETE FROM event WHERE sequence = ? AND user_id IS NULL AND kind = 'note'", note)
    }
    return needless.count
  }

  /// Writes down that an event goes: in the stretch right before it, or in a new one.
  private func account(for event: OldEvent, in former: ThinnedHistory?, ofKey key: String) throws -> ThinnedHistory {
    guard let facts = try tables.thinnedHistory.facts(ofEvent: event.line.id) else { throw StoredForm.Unstorable() }
    let digest = ThinnedHistoryTable.digest(former?.digest ?? [], over: facts.values)
    let at = StoredForm.date(facts.recordedAt)
    guard var stretch = former else {
      let new = ThinnedHistory(
        newest: event.line.id, oldest: event.line.id, previous: event.previous, events: 1,
        verdicts: event.isVerdict ? 1 : 0, firstAt: at, lastAt: at, digest: digest)
      try execute(
        Self.insertThinned, key, new.newest, new.oldest, new.previous, new.events, new.verdicts, new.firstAt,
        new.lastAt, new.digest)
      return new
    }
    let place = stretch.newest
    stretch.newest = event.line.id
    stretch.events += 1
    stretch.verdicts += event.isVerdict ? 1 : 0
    stretch.lastAt = at
    stretch.digest = digest
    try execute(
      """
      UPDATE thinned SET newest = ?, events = ?, verdicts = ?, last_at = ?, digest = ? WHERE user_id = ? AND newest = ?
      """, stretch.newest, stretch.events, stretch.verdicts, stretch.lastAt, stretch.digest, key, place)
    return stretch
  }

  // MARK: What would go

  func report(before moment: Date?) throws -> RetentionReport {
    var report = RetentionReport()
    report.events = try first("SELECT count(*) FROM event") ?? 0
    report.removed = try first("SELECT coalesce(CAST(sum(events) AS BIGINT), 0) FROM thinned") ?? 0
    guard let moment = try moment.map(bound) else { return report }
    var key = ""
    while true {
      let page = try all(
        "SELECT key, newest FROM account WHERE key > ? ORDER BY key LIMIT 1000", key, as: (String, Int64).self)
      guard let last = page.last else { return report }
      key = last.0
      for (key, newest) in page {
        guard let newestOld = try newestEvent(from: newest, ofKey: key, before: moment) else { continue }
        let (events, isWhole) = try oldEvents(ofKey: key, from: newestOld, limit: Self.depth)
        let needless = HistoryThinning.needless(in: events.map(\.line), isWhole: isWhole, newest: newest)
        report.old += events.count
        report.needless += needless.count
        report.users += needless.isEmpty ? 0 : 1
      }
    }
  }

  /// A user's newest event from before a moment.
  private func newestEvent(from newest: Int64, ofKey key: String, before moment: Date) throws -> Int64? {
    var next = Optional(newest)
    while let sequence = next {
      let event = try first(
        "SELECT previous, recorded_at FROM event WHERE sequence = ?", sequence, as: (Int64?, Date).self)
      guard let (previous, recordedAt) = event else { return nil }
      if recordedAt < moment { return sequence }
      next = previous
    }
    return nil
  }
}

extension LedgerTables { var retention: RetentionTable { RetentionTable(tables: self) } }

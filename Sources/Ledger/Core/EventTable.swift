internal import Entitlements
internal import struct FoundationEssentials.Date

/// The history: append-only, each event names its user's previous one.
struct EventTable: LedgerTable {
  let tables: LedgerTables

  /// The columns of every event.
  struct EventHead {
    var recordedAt: Int64
    var requestID: String
    /// The note that is the reason.
    var note: NoteID?
  }

  struct Verdict {
    var version: Int64
    var changed: Bool
    var digest: ReceiptDigest?
    var evidenceAt: Int64?
    /// The verdict's stored form.
    var text: String
  }

  func nextID() throws -> Int64? { try tables.nextID("SELECT nextval('event_sequence_seq')") }

  // Each of these appends an event to the user's chain.

  func append(_ verdict: Verdict, to account: inout Account, _ head: EventHead) throws {
    account.newest = try insert(
      nextID(),
      """
      INSERT INTO event
        (sequence, user_id, previous, kind, recorded_at, request_id, note, version, changed, receipt_sha256, evidence_at,
         entitlement)
      VALUES (?, ?, ?, 'verdict', ?, ?, ?, ?, ?, ?, ?, ?)
      """, account.user.key, account.newest, head.recordedAt, head.requestID, head.note?.sequence, verdict.version,
      verdict.changed, verdict.digest, verdict.evidenceAt, verdict.text)
    account.verdict = account.newest
    account.version = verdict.version
  }

  func appendGain(of purchase: Int64, from other: UserID?, to account: inout Account, _ head: EventHead) throws {
    try appendChange("gained", of: purchase, other: other, to: &account, head)
    account.purchases.append(purchase)
    if let other { account.transfers.append(.init(purchase: purchase, from: other, to: account.user)) }
  }

  func appendLoss(of purchase: Int64, to other: UserID, from account: inout Account, _ head: EventHead) throws {
    try appendChange("lost", of: purchase, other: other, to: &account, head)
    account.purchases.removeAll { $0 == purchase }
    try tables.marks.markTrials(of: account.user.key)
    try tables.marks.markExposures(of: account.user.key)
    account.transfers.append(.init(purchase: purchase, from: account.user, to: other))
  }

  private func appendChange(
    _ kind: String, of purchase: Int64, other: UserID?, to account: inout Account, _ head: EventHead
  ) throws {
    account.newest = try insert(
      nextID(),
      """
      INSERT INTO event (sequence, user_id, previous, kind, recorded_at, request_id, note, purchase_id, other_user_id)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
      """, account.user.key, account.newest, kind, head.recordedAt, head.requestID, head.note?.sequence, purchase,
      other?.key)
  }

  /// Appends a note on a change of owner or a given period, which is listed with the event that names it: by itself it would be
  /// one on an inquiry with Apple.
  func append(_ note: Note) throws -> NoteID { try add(note, of: nil, after: nil) }

  /// Appends a note on an inquiry, and saves its user's account.
  func append(_ note: Note, about user: UserID, at now: Date) throws -> NoteID {
    var account = try tables.accounts.knownOrNewAccount(of: user)
    let id = try add(note, of: account.user, after: account.newest)
    account.newest = id.sequence
    try tables.accounts.save(account, at: StoredForm.milliseconds(now))
    return id
  }

  private func add(_ note: Note, of user: UserID?, after previous: Int64?) throws -> NoteID {
    let sequence = try first(
      """
      INSERT INTO event (user_id, previous, kind, recorded_at, request_id, author, text)
      VALUES (?, ?, 'note', ?, ?, ?, ?) RETURNING sequence
      """, user?.key, previous, note.recordedAt, note.requestID, note.author, note.text, as: Int64.self)
    guard let sequence else { throw StoredForm.Unstorable() }
    return NoteID(sequence: sequence)
  }

  // MARK: History

  /// One event of a user's chain, as stored.
  private struct StoredEvent {
    enum Content {
      case verdict(Entitlement, changed: Bool)
      case change(isGain: Bool, purchase: Int64, other: String?)
      case note(author: String, text: String)
    }

    var sequence: Int64
    var user: String?
    var previous: Int64?
    var recordedAt: Date
    var requestID: String
    var note: Int64?
    var content: Content

    init(_ row: SQLRow) throws {
      sequence = try row.get(0)
      user = try row.get(1)
      previous = try row.get(2)
      recordedAt = try row.get(4)
      requestID = try row.get(5)
      note = try row.get(6)
      switch try row.get(3, as: String.self) {
      case "verdict":
        content = .verdict(try StoredForm.value(Entitlement.self, row.get(8)), changed: try row.get(7))
      case "note": content = .note(author: try row.get(11), text: try row.get(12))
      case let kind: content = .change(isGain: kind == "gained", purchase: try row.get(9), other: try row.get(10))
      }
    }
  }

  private func event(_ sequence: Int64) throws -> StoredEvent {
    guard let event = try eventIfKept(sequence) else { throw StoredForm.Unstorable() }
    return event
  }

  private func eventIfKept(_ sequence: Int64) throws -> StoredEvent? {
    try first(
      """
      SELECT sequence, user_id, previous, kind, recorded_at, request_id, note, changed, entitlement, purchase_id,
        other_user_id, author, text
      FROM event WHERE sequence = ?
      """, sequence, read: StoredEvent.init)
  }

  /// A link of a user's chain: an event, or what is left of those that retention has taken out.
  private enum Link {
    case event(StoredEvent)
    case thinned(ThinnedHistory)

    var previous: Int64? {
      switch self {
      case .event(let event): event.previous
      case .thinned(let stretch): stretch.previous
      }
    }
  }

  private func link(_ sequence: Int64, ofKey key: String) throws -> Link {
    if let event = try eventIfKept(sequence) { return .event(event) }
    guard let stretch = try tables.thinnedHistory.stretch(ofKey: key, endingWith: sequence) else {
      throw StoredForm.Unstorable()
    }
    return .thinned(stretch)
  }

  private func note(_ sequence: Int64?) throws -> Note? {
    guard let event = try sequence.map(event), case .note(let author, let text) = event.content else { return nil }
    return Note(author: author, text: text, requestID: event.requestID, recordedAt: event.recordedAt)
  }

  /// The verdict of an event or the last one before it that is kept: those in between said the same. A verdict that
  /// `isMeant` refuses is passed over.
  private func verdict(
    from sequence: Int64?, ofKey key: String, within reach: Int = .max,
    where isMeant: (Entitlement) -> Bool = { _ in true }
  ) throws -> Entitlement? {
    var next = sequence
    for _ in 0..<reach {
      guard let sequence = next else { break }
      let link = try link(sequence, ofKey: key)
      if case .event(let event) = link, case .verdict(let found, _) = event.content, isMeant(found) { return found }
      next = link.previous
    }
    return nil
  }

  /// The most events of a user that are searched for a payment, the newest first.
  private static let reach = 500

  /// The newest verdict that a transaction decided, among a user's latest events.
  func verdict(
    decidedBy transaction: TransactionID, of account: Account, from sequence: Int64?
  ) throws -> Entitlement? {
    try verdict(from: sequence, ofKey: account.user.key, within: Self.reach) { $0.explanation.decidedBy == transaction }
  }

  /// A user's events from a position down.
  func timeline(of user: UserID, before: TimelinePosition?, limit: Int) throws -> TimelinePage {
    guard let account = try tables.accounts.account(of: user) else { return TimelinePage(events: [], next: nil) }
    return try timeline(of: account, before: before, limit: limit)
  }

  func timeline(of account: Account, before: TimelinePosition?, limit: Int) throws -> TimelinePage {
    // A position is an event's number, which anybody can make up: another user's event begins no page of this one's.
    var next = try before.map { try previous(of: $0.sequence, user: account.user.key) } ?? account.newest
    var events: [TimelineEvent] = []
    var last: Int64?
    while let sequence = next, events.count < max(1, limit) {
      let link = try link(sequence, ofKey: account.user.key)
      switch link {
      case .event(let event): events.append(try timelineEvent(event, of: account.user))
      case .thinned(let stretch):
        if case .removed(let newer) = events.last {
          events[events.count - 1] = .removed(newer.following(stretch))
        } else {
          events.append(.removed(stretch))
        }
      }
      last = sequence
      next = link.previous
    }
    return TimelinePage(events: events, next: next == nil ? nil : last.map(TimelinePosition.init))
  }

  private func previous(of sequence: Int64, user: String) throws -> Int64? {
    let kept = try first(
      "SELECT previous FROM event WHERE sequence = ? AND user_id = ?", sequence, user, as: Int64?.self)
    // It may have been taken out since the page before.
    return try kept ?? tables.thinnedHistory.stretch(ofKey: user, with: sequence)?.previous
  }

  private func timelineEvent(_ event: StoredEvent, of user: UserID) throws -> TimelineEvent {
    switch event.content {
    case .verdict(let entitlement, let changed):
      return .verdict(
        HistoryEntry(
          recordedAt: event.recordedAt, requestID: event.requestID, entitlement: entitlement, changed: changed),
        before: try verdict(from: event.previous, ofKey: user.key), note: try note(event.note))
    case .change(let isGain, let purchase, let other):
      let other = try other.map(tables.accounts.name(ofKey:))
      return .ownership(
        try change(event, of: purchase, from: isGain ? other : user, to: isGain ? user : other ?? user))
    case .note(let author, let text):
      return .inquiry(Note(author: author, text: text, requestID: event.requestID, recordedAt: event.recordedAt))
    }
  }

  private func change(_ event: StoredEvent, of purchase: Int64, from: UserID?, to: UserID) throws -> OwnershipChange {
    guard let key = try tables.purchases.key(ofPurchase: purchase) else { throw StoredForm.Unstorable() }
    return OwnershipChange(
      key: key, from: from, to: to, recordedAt: event.recordedAt, requestID: event.requestID, note: try note(event.note)
    )
  }

  /// The changes of a purchase's owner, newest first.
  func changes(of purchase: Int64, limit: Int) throws -> [OwnershipChange] {
    try all(
      """
      SELECT sequence FROM event WHERE purchase_id = ? AND kind = 'gained'
      ORDER BY recorded_at DESC, sequence DESC LIMIT ?
      """, purchase, max(0, limit), as: Int64.self
    )
    .compactMap { sequence in
      let event = try event(sequence)
      guard case .change(_, _, let other) = event.content, let owner = event.user else { return nil }
      return try change(
        event, of: purchase, from: other.map(tables.accounts.name(ofKey:)), to: tables.accounts.name(ofKey: owner))
    }
  }

  /// Whether one of a user's last verdicts came of a receipt. Older ones are not looked at: to ask Apple once more is
  /// harmless.
  func isAmongLastVerdicts(_ digest: ReceiptDigest, of account: Account) throws -> Bool {
    var next = account.newest
    for _ in 0..<Self.verdictsSearched {
      guard let sequence = next else { return false }
      let event = try first(
        "SELECT previous, receipt_sha256 FROM event WHERE sequence = ?", sequence,
        as: (Int64?, ReceiptDigest?).self)
      guard let (previous, known) = event else { return false }
      if known == digest { return true }
      next = previous
    }
    return false
  }

  static let verdictsSearched = 100
}

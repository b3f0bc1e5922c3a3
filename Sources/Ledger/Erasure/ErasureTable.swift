internal import Entitlements
internal import struct FoundationEssentials.Date

/// Erased users.
struct ErasureTable: LedgerTable {
  let tables: LedgerTables

  /// Every ID of a customer: of the user, and those that turned out to be the user.
  func names(of user: UserID) throws -> (key: String, users: [UserID]) {
    let key = try tables.accounts.key(of: user)
    var users = [user, UserID(key)]
    for spelling in [
      try first("SELECT spelling FROM account WHERE key = ?", key, as: UserID?.self),
      try first("SELECT reset_spelling FROM outbox WHERE key = ?", key, as: UserID?.self),
    ] {
      if case .some(.some(let spelling)) = spelling { users.append(spelling) }
    }
    let customers = try all(
      "SELECT key, spelling FROM customer WHERE key = ? OR joined_to = ?", key, key, as: (UserID, UserID?).self
    ).map { [$0, $1].compactMap(\.self) }
    return (key, users + customers.flatMap(\.self))
  }

  // MARK: The account and its history

  func rename(accountOf key: String, to pseudonym: UserID, rowVersion: Int64) throws {
    try execute(
      "UPDATE account SET key = ?, spelling = NULL, given = NULL, row_version = ? WHERE key = ?", pseudonym, rowVersion,
      key)
  }

  /// The result of erasing a user's events: their number, and the purchases they are about.
  struct ErasedEvents {
    var events = 0
    var notes = 0
    /// The purchases that came or went.
    var purchases: Set<Int64> = []
  }

  /// Takes the names out of a user's events, and the IDs of requests, which callers choose. The notes that are their reasons go
  /// with them: what a person wrote may say anything.
  func eraseEvents(from newest: Int64?, ofKey key: String, as pseudonym: UserID) throws -> ErasedEvents {
    var erased = ErasedEvents()
    var notes: Set<Int64> = []
    var next = newest
    while let sequence = next {
      let event = try first(
        "SELECT previous, kind, note, purchase_id, other_user_id FROM event WHERE sequence = ?", sequence,
        as: (Int64?, String, Int64?, Int64?, String?).self)
      guard let (previous, kind, note, purchase, other) = event else {
        guard let stretch = try tables.thinnedHistory.stretch(ofKey: key, endingWith: sequence) else {
          throw StoredForm.Unstorable()
        }
        next = stretch.previous
        continue
      }
      if kind == "note" { notes.insert(sequence) }
      if let note { notes.insert(note) }
      if let purchase { erased.purchases.insert(purchase) }
      if kind == "gained", other != nil { try eraseRequestID(ofLossesAfter: sequence) }
      try execute(
        "UPDATE event SET user_id = ?, request_id = ? WHERE sequence = ?", pseudonym, ErasedNames.text, sequence)
      erased.events += 1
      next = previous
    }
    try execute("UPDATE thinned SET user_id = ? WHERE user_id = ?", pseudonym, key)
    for note in notes.sorted() { erased.notes += try erase(note: note) ? 1 : 0 }
    return erased
  }

  /// A purchase that the user gained was lost by another one, in whose history the loss has the same request ID. It follows in
  /// the same transaction; events of other replicas may lie between.
  private func eraseRequestID(ofLossesAfter gain: Int64) throws {
    try execute(
      """
      UPDATE event SET request_id = ? WHERE sequence > ? AND sequence <= ?
        AND (request_id, recorded_at) = (SELECT request_id, recorded_at FROM event WHERE sequence = ?)
      """, ErasedNames.text, gain, gain + 1_000, gain)
  }

  private func erase(note sequence: Int64) throws -> Bool {
    try execute(
      "UPDATE event SET text = ?, request_id = ? WHERE sequence = ? AND kind = 'note' AND text <> ?", ErasedNames.text,
      ErasedNames.text, sequence, ErasedNames.text)
    return changesCount == 1
  }

  /// Renames the user in the histories of others, and in transfers at RevenueCat.
  func rename(elsewhere key: String, to pseudonym: UserID) throws {
    try execute("UPDATE event SET other_user_id = ? WHERE other_user_id = ?", pseudonym, key)
    try execute("UPDATE revenuecat_transfer SET from_user_id = ? WHERE from_user_id = ?", pseudonym, key)
    try execute("UPDATE revenuecat_transfer SET to_user_id = ? WHERE to_user_id = ?", pseudonym, key)
  }

  // MARK: Purchases

  /// The number of purchases that use a proof.
  func uses(ofProof id: Int64) throws -> Int {
    guard let uses = try first("SELECT uses FROM proof WHERE id = ?", id, as: Int.self) else {
      throw StoredForm.Unstorable()
    }
    return uses
  }

  /// Puts nothing in the place of a proof, whichever purchases use it.
  /// - Returns: whether there was anything.
  func erase(proof id: Int64) throws -> Bool {
    let digest = ReceiptDigest(ofReceipt: KeptReceipt.erasedText)
    try execute(
      """
      UPDATE proof SET sha256 = ?, is_text = 1, content = ?, frame_id = NULL, frame_at = NULL
      WHERE id = ? AND sha256 <> ?
      """, digest, Array(KeptReceipt.erasedText.utf8), id, digest)
    return changesCount == 1
  }

  // MARK: What was given, and trials

  /// Ends what was given to a user and renames it, without what was said of it.
  func rename(givenTo key: String, to pseudonym: UserID, at now: Date) throws -> Int {
    try execute("UPDATE given_period SET ended_at = ? WHERE user_id = ? AND is_over = 0 AND ends_at > ?", now, key, now)
    try execute(
      """
      UPDATE given_period SET user_id = ?, is_over = 1, text = NULL, idempotency_key = NULL, request_id = ?
      WHERE user_id = ?
      """, pseudonym, ErasedNames.text, key)
    return changesCount
  }

  /// The devices of trials stay: no second trial by erasing the account.
  func rename(trialsOf key: String, to pseudonym: UserID) throws -> Int {
    try execute("DELETE FROM trial_session WHERE trial_id IN (SELECT id FROM trial WHERE user_id = ?)", key)
    try execute("UPDATE trial SET user_id = ? WHERE user_id = ?", pseudonym, key)
    return changesCount
  }

  func erase(devicesOf key: String, as pseudonym: UserID) throws -> Int {
    try execute("DELETE FROM device WHERE user_id = ? AND trial_id IS NULL", key)
    let gone = changesCount
    try execute(
      """
      UPDATE device SET user_id = ?, model = NULL, ios_version = NULL, app_version = NULL, push_token = NULL
      WHERE user_id = ?
      """, pseudonym, key)
    return gone + changesCount
  }

  // MARK: What goes

  func erase(usageOf key: String) throws -> Int {
    try execute("DELETE FROM consumption WHERE user_id = ?", key)
    var gone = changesCount
    try execute("DELETE FROM feature_total WHERE user_id = ?", key)
    gone += changesCount
    try execute("DELETE FROM limit_due WHERE user_id = ?", key)
    try execute("DELETE FROM user_time_zone WHERE user_id = ?", key)
    return gone + changesCount
  }

  func erase(customersOf key: String) throws -> Int {
    try execute(
      "DELETE FROM customer_attribute WHERE key = ? OR key IN (SELECT key FROM customer WHERE joined_to = ?)", key, key)
    try execute("DELETE FROM customer WHERE key = ? OR joined_to = ?", key, key)
    return changesCount
  }

  /// - Parameter spelling: as the row has it.
  func erase(waitingReceiptsOf spelling: String) throws -> Int {
    try execute("DELETE FROM provisional_grant WHERE user_id = ?", spelling)
    try execute("DELETE FROM pending_receipt WHERE user_id = ?", spelling)
    return changesCount
  }

  /// Deletes the rows that name the user and that the erasure's report does not count: verdicts covered by others, refusals,
  /// the IDs and bytes of reported events, exposures (the sums keep their counts), RevenueCat's reports, and purchases that
  /// nobody has claimed.
  func eraseRows(of key: String) throws {
    for table in [
      "covered_verdict", "recorded_refusal", "reported_event", "reported_bytes", "exposure", "exposure_due",
      "counted_exposure", "revenuecat_report",
    ] {
      try execute(SQL("DELETE FROM \(table) WHERE user_id = ?"), key)
    }
    try execute("DELETE FROM unclaimed_evidence WHERE account_token = ?", key)
  }

  /// A job may have kept how far through the users it has got. It goes on from a part of the name, which comes before it.
  func eraseMemos(_ names: ErasedNames) throws {
    for (memo, kept) in try all("SELECT name, text FROM memo", as: (String, String).self)
    where names.occurs(inJSON: kept) {
      var text = kept
      for name in names.spellings {
        let quoted = "\"\(name)\""
        let pieces = text.split(separator: quoted, omittingEmptySubsequences: false)
        // A member may have the same name; a colon follows it.
        text = pieces.dropFirst().reduce(into: String(pieces.first ?? "")) { text, piece in
          text += (piece.hasPrefix(":") ? quoted : "\"\(name.prefix(name.count / 2))\"") + piece
        }
      }
      try tables.keepMemo(memo, text)
    }
  }

  // MARK: Notifications

  private struct KeptNotification {
    var uuid: String
    var user: String?
    var payload: String?
  }

  /// Takes the text from the notifications about a purchase that name a user, and the name with it.
  ///
  /// - Parameter isOwn: the purchase is the user's now, so that each of them is about the user.
  /// - Returns: how many lost their text.
  func eraseNotifications(
    about key: SubscriptionKey, isOwn: Bool, as pseudonym: UserID?, _ names: ErasedNames
  ) throws -> Int {
    let kept = try all(
      "SELECT uuid, user_id, payload FROM notification WHERE environment = ? AND original_transaction_id = ?",
      key, into: KeptNotification.init(uuid:user:payload:))
    return try kept.reduce(0) { try $0 + (erase($1, isOwn: isOwn, as: pseudonym, names) ? 1 : 0) }
  }

  /// - Returns: whether the text was there.
  func erase(notification uuid: String, as pseudonym: UserID?, _ names: ErasedNames) throws -> Bool {
    let kept = try first(
      "SELECT uuid, user_id, payload FROM notification WHERE uuid = ?", uuid,
      into: KeptNotification.init(uuid:user:payload:))
    return try kept.map { try erase($0, isOwn: false, as: pseudonym, names) } ?? false
  }

  private func erase(
    _ kept: KeptNotification, isOwn: Bool, as pseudonym: UserID?, _ names: ErasedNames
  ) throws -> Bool {
    let isUsers = kept.user.map(names.isName) ?? false
    let hasText =
      kept.payload.map { text in
        isOwn || isUsers
          || (kept.uuid.hasPrefix("revenuecat:") ? names.occurs(inJSON: text) : names.occurs(inSigned: text))
      } ?? false
    guard isUsers || hasText else { return false }
    let user = isUsers ? pseudonym?.rawValue : kept.user
    if isUsers, user == nil {
      // Nothing is left that it could be about.
      try execute("DELETE FROM notification WHERE uuid = ?", kept.uuid)
    } else if hasText {
      try execute("UPDATE notification SET user_id = ?, payload = NULL WHERE uuid = ?", user, kept.uuid)
    } else {
      try execute("UPDATE notification SET user_id = ? WHERE uuid = ?", user, kept.uuid)
    }
    return hasText
  }

  // MARK: The app's row

  /// Queues the reset of the row of a user who has no account any more.
  func enqueueReset(of key: String, spelling: UserID?, version: Int64, _ reset: Entitlement, at now: Date, dueAt: Date?)
    throws
  {
    changes.invalidate(row: version, of: UserID(key))
    try execute(
      """
      INSERT INTO outbox (key, version, state, is_doubtful, waiting_since, attempts, due_at, reset, reset_spelling)
      VALUES (?, ?, 'waiting', 0, ?, 0, ?, ?, ?)
      ON CONFLICT (key) DO UPDATE SET
        version = excluded.version, waiting_since = excluded.waiting_since,
        is_doubtful = CASE WHEN outbox.is_doubtful = 1 OR outbox.state = 'confirming' THEN 1 ELSE 0 END,
        state = 'waiting', attempts = 0, due_at = excluded.due_at, problem = NULL, problem_at = NULL,
        reset = excluded.reset, reset_spelling = excluded.reset_spelling
      """, key, version, now, dueAt ?? Date(millisecondsSince1970: 0), StoredForm.text(reset), spelling)
  }

  func forgetUpdate(of key: String) throws {
    try execute("DELETE FROM outbox WHERE key = ? AND reset IS NULL", key)
  }
}

extension LedgerTables { var erasure: ErasureTable { ErasureTable(tables: self) } }

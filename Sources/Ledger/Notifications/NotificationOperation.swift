internal import Entitlements
internal import struct FoundationEssentials.Date

/// Stores one notification inside an open transaction: its evidence and the record of its receipt are written together
/// or not at all.
struct NotificationOperation {
  let entry: NotificationEntry
  let tables: LedgerTables

  func run() throws -> NotificationOutcome {
    guard try !tables.hasNotification(entry.uuid) else { return .duplicate }
    var outcome = NotificationOutcome.noted
    for evidence in entry.evidence.sorted(by: { $0.key.precedes($1.key) }) {
      let next = try take(evidence)
      // A notification concerns one purchase. If it named several, the outcome reports the first that has an owner.
      if case .recorded = outcome { continue }
      outcome = next
    }
    let key = try entry.evidence.map(\.key).min { $0.precedes($1) }.map { try tables.successor(of: $0) ?? $0 }
    switch outcome {
    case .recorded(let user, _): try tables.append(entry, about: key, outcome: .recorded, user: user)
    case .unclaimed: try tables.append(entry, about: key, outcome: .unclaimed, user: nil)
    case .noted, .duplicate: try tables.append(entry, about: key, outcome: .noted, user: nil)
    }
    try appendEvents(of: outcome, about: key)
    if let consumption = entry.consumption { try tables.keep(consumption, at: entry.receivedAt) }
    if let succeeded = entry.hasExtended, let product = entry.notice?.productID, let store = entry.environment {
      try tables.countExtension(of: ProductID(product), in: store, succeeded: succeeded)
    }
    return outcome
  }

  /// The event of what the service does not act on, and the one that forwards the notification, in the order of the purchase.
  private func appendEvents(of outcome: NotificationOutcome, about key: SubscriptionKey?) throws {
    let recordedAt = try StoredForm.milliseconds(entry.receivedAt)
    var detail = ChangeEvent.Detail()
    if let notice = entry.notice, let type = EventType(ofNotification: notice.type) {
      var user = UserID.nobody
      if case .recorded(let owner, _) = outcome { user = owner }
      detail.notice = notice
      try tables.appendChangeEvent(type.rawValue, of: user, at: recordedAt, recordedAt: recordedAt, detail)
    }
    guard entry.isForwarded else { return }
    detail = ChangeEvent.Detail()
    detail.forwarded = entry.uuid
    let purchase = key.map { UserID("\($0.environment.rawValue) \($0.originalTransactionID.rawValue)") } ?? .nobody
    try tables.appendChangeEvent(EventType.forwarded, of: purchase, at: recordedAt, recordedAt: recordedAt, detail)
  }

  private func take(_ evidence: SubscriptionEvidence) throws -> NotificationOutcome {
    let evidence = try tables.followingMigrations(evidence)
    if let owner = try tables.purchase(evidence.key)?.owner {
      // The stored receipt of the purchase takes precedence, so this one is never written.
      let receipt = KeptReceipt(
        base64: entry.proof?.base64 ?? entry.payload, environment: evidence.key.environment,
        bundleID: entry.proof?.bundleID ?? entry.bundleID ?? BundleID(""))
      return .recorded(user: owner, try record(evidence, of: owner, receipt))
    }
    if let erased = try entry.claimant.flatMap(tables.pseudonym(ofErased:)) {
      // The purchase of somebody who was erased: it is nobody's until it is presented, and makes no user of that name.
      let nothing = KeptReceipt(
        base64: KeptReceipt.erasedText, environment: evidence.key.environment,
        bundleID: entry.proof?.bundleID ?? entry.bundleID ?? BundleID("unknown"))
      return .recorded(user: erased, try record(evidence, of: erased, nothing))
    }
    let stored = try tables.unclaimed(evidence.key)
    if let claimant = try claimant(), let receipt = proof(of: evidence.key) ?? stored?.receipt {
      let known = stored.map { $0.evidence.merging(evidence) } ?? evidence
      if !known.namesAnother(than: claimant), !known.isOfUnknownOwnership {
        return .recorded(user: claimant, try record(evidence, of: claimant, receipt))
      }
    }
    try keep(evidence, with: stored)
    return .unclaimed
  }

  /// The user named by the purchase, if that user exists or may be created. The account token that an app sets need not
  /// be a user ID.
  private func claimant() throws -> UserID? {
    guard let claimant = try entry.claimant.map(tables.name) else { return nil }
    return try entry.makesClaimant || tables.profile(of: claimant) != nil ? claimant : nil
  }

  /// The signed transaction, if it is from the store of the purchase.
  private func proof(of key: SubscriptionKey) -> KeptReceipt? {
    entry.proof.flatMap { $0.environment == key.environment ? $0 : nil }
  }

  private func record(_ evidence: SubscriptionEvidence, of user: UserID, _ receipt: KeptReceipt) throws -> Recorded {
    var entry = LedgerEntry(
      user: user, evidence: [evidence], contestedKeys: [], receipt: receipt, origin: .named,
      evaluatedAt: try moment(for: user), recordedAt: self.entry.receivedAt, requestID: self.entry.uuid,
      evaluate: self.entry.evaluate, nextCheck: self.entry.nextCheck)
    entry.keepsReceipts = true
    entry.rowsClaimedUntil = self.entry.rowsClaimedUntil
    let operation = try RecordOperation(prepared: try PreparedEntry(entry), tables: tables)
    // The entry contests no ownership and needs no approval.
    guard case .recorded(let recorded) = try operation.run() else { throw StoredForm.Unstorable() }
    return recorded
  }

  /// A notification that was missed is evaluated as of its signature, but not before the user's last verdict.
  private func moment(for user: UserID) throws -> Date {
    guard entry.evaluatedAt < entry.receivedAt, let account = try tables.account(of: user) else {
      return entry.evaluatedAt
    }
    let decided = try tables.profile(of: account)?.entitlement.explanation.evaluatedAt
    return max(entry.evaluatedAt, decided ?? entry.evaluatedAt)
  }

  private func keep(_ evidence: SubscriptionEvidence, with stored: LedgerTables.StoredUnclaimed?) throws {
    let merged = stored.map { $0.evidence.merging(evidence) } ?? evidence
    var unclaimed = LedgerTables.StoredUnclaimed(
      evidence: merged, rows: try StoredForm.text(merged), bundleID: stored?.bundleID, proof: stored?.proof,
      proofAt: stored?.proofAt)
    let reported = try StoredForm.milliseconds(evidence.evidenceTime)
    if let proof = proof(of: evidence.key), unclaimed.proofAt.map({ $0 < reported }) ?? true {
      unclaimed.bundleID = proof.bundleID
      unclaimed.proof = proof.base64
      unclaimed.proofAt = reported
    }
    try tables.save(unclaimed, seenAt: StoredForm.milliseconds(entry.receivedAt))
  }
}

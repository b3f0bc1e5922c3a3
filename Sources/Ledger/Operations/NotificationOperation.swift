internal import Entitlements
internal import struct FoundationEssentials.Date

/// Takes one notification inside an open transaction: what it tells and that it was taken are written together or not at
/// all.
struct NotificationOperation {
  let entry: NotificationEntry
  let tables: LedgerTables

  func run() throws -> NotificationOutcome {
    guard try !tables.hasNotification(entry.uuid) else { return .duplicate }
    var outcome = NotificationOutcome.noted
    for evidence in entry.evidence.sorted(by: { $0.key.precedes($1.key) }) {
      let next = try take(evidence)
      // A notification is about one purchase; were it about several, the first that is somebody's is told of.
      if case .recorded = outcome { continue }
      outcome = next
    }
    let key = entry.evidence.map(\.key).min { $0.precedes($1) }
    switch outcome {
    case .recorded(let user, _): try tables.append(entry, about: key, outcome: .recorded, user: user)
    case .unclaimed: try tables.append(entry, about: key, outcome: .unclaimed, user: nil)
    case .noted, .duplicate: try tables.append(entry, about: key, outcome: .noted, user: nil)
    }
    return outcome
  }

  private func take(_ evidence: SubscriptionEvidence) throws -> NotificationOutcome {
    if let owner = try tables.subscription(evidence.key)?.owner {
      // What is kept of the purchase stays, so that this is never written down.
      let receipt = KeptReceipt(
        base64: entry.proof?.base64 ?? entry.payload, environment: evidence.key.environment,
        bundleID: entry.proof?.bundleID ?? entry.bundleID ?? BundleID(""))
      return .recorded(user: owner, try record(evidence, of: owner, receipt))
    }
    let stored = try tables.unclaimed(evidence.key)
    if let claimant = try claimant(), let receipt = proof(of: evidence.key) ?? stored?.receipt {
      let known = stored.map { $0.evidence.merging(evidence) } ?? evidence
      if !known.namesAnother(than: claimant) {
        return .recorded(user: claimant, try record(evidence, of: claimant, receipt))
      }
    }
    try keep(evidence, with: stored)
    return .unclaimed
  }

  /// The user whom the purchase names, if there is one, or one may be made: what an app gives a purchase need not be the
  /// name of a user.
  private func claimant() throws -> UserID? {
    guard let claimant = try entry.claimant.map(tables.name) else { return nil }
    return try entry.makesClaimant || tables.profile(of: claimant) != nil ? claimant : nil
  }

  /// The signed transaction, where it is of the store that the purchase was made in.
  private func proof(of key: SubscriptionKey) -> KeptReceipt? {
    entry.proof.flatMap { $0.environment == key.environment ? $0 : nil }
  }

  private func record(
    _ evidence: SubscriptionEvidence, of user: UserID, _ receipt: KeptReceipt
  ) throws -> Recorded {
    var entry = LedgerEntry(
      user: user, evidence: [evidence], contestedKeys: [], receipt: receipt, ownership: .keep,
      evaluatedAt: self.entry.evaluatedAt, recordedAt: self.entry.receivedAt, requestID: self.entry.uuid,
      evaluate: self.entry.evaluate, nextCheck: self.entry.nextCheck)
    entry.keepsReceipts = true
    entry.isPresented = false
    entry.rowsClaimedUntil = self.entry.rowsClaimedUntil
    let operation = try RecordOperation(prepared: try PreparedEntry(entry), tables: tables, claim: .accountToken)
    // Neither is contested nor asks for admission.
    guard case .recorded(let recorded) = try operation.run() else { throw StoredForm.Unstorable() }
    return recorded
  }

  private func keep(_ evidence: SubscriptionEvidence, with stored: LedgerTables.StoredUnclaimed?) throws {
    let merged = stored.map { $0.evidence.merging(evidence) } ?? evidence
    var unclaimed = LedgerTables.StoredUnclaimed(
      evidence: merged, evidenceAt: try StoredForm.milliseconds(merged.evidenceTime),
      evaluatedAt: try StoredForm.milliseconds(merged.evaluatedAt), rows: try StoredForm.text(StoredForm.Rows(merged)),
      bundleID: stored?.bundleID, proof: stored?.proof, proofAt: stored?.proofAt)
    let reported = try StoredForm.milliseconds(evidence.evidenceTime)
    if let proof = proof(of: evidence.key), unclaimed.proofAt.map({ $0 < reported }) ?? true {
      unclaimed.bundleID = proof.bundleID.rawValue
      unclaimed.proof = proof.base64
      unclaimed.proofAt = reported
    }
    try tables.save(unclaimed, seenAt: StoredForm.milliseconds(entry.receivedAt))
  }
}

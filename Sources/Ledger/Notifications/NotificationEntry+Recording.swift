internal import Entitlements
internal import struct FoundationEssentials.Date

extension NotificationEntry: LedgerOperation {
  /// Records a verified notification once: its evidence is merged with that of each purchase.
  ///
  ///     the purchase's owner                  what happens
  ///     a user                                merged, evaluated, a line of the user's history
  ///     unowned, and it names the claimant,   claimed for the claimant, with the unclaimed evidence
  ///       who exists or may be created
  ///     unowned                               stored unclaimed, until a user claims the purchase
  package func run(_ tables: LedgerTables) throws -> NotificationOutcome {
    guard try !tables.notifications.isKnown(uuid) else { return .duplicate }
    var outcome = NotificationOutcome.noted
    for evidence in evidence.sorted(by: { $0.key.precedes($1.key) }) {
      let next = try take(evidence, tables)
      // A notification concerns one purchase. If it named several, the outcome reports the first that has an owner.
      if case .recorded = outcome { continue }
      outcome = next
    }
    let key = try evidence.map(\.key).min { $0.precedes($1) }.map { try tables.purchases.successor(of: $0) ?? $0 }
    switch outcome {
    case .recorded(let user, _): try tables.notifications.append(self, about: key, outcome: .recorded, user: user)
    case .unclaimed: try tables.notifications.append(self, about: key, outcome: .unclaimed, user: nil)
    case .noted, .duplicate: try tables.notifications.append(self, about: key, outcome: .noted, user: nil)
    }
    try appendEvents(of: outcome, about: key, tables)
    if let consumption { try tables.consumptionRequests.keep(consumption, at: receivedAt) }
    if let succeeded = hasExtended, let product = notice?.productID, let store = environment {
      try tables.extensions.countExtension(of: ProductID(product), in: store, succeeded: succeeded)
    }
    return outcome
  }

  /// The event of what the service does not act on, and the one that forwards the notification, in the order of the purchase.
  private func appendEvents(
    of outcome: NotificationOutcome, about key: SubscriptionKey?, _ tables: LedgerTables
  ) throws {
    let recordedAt = try StoredForm.milliseconds(receivedAt)
    var detail = ChangeEvent.Detail()
    if let notice, let type = EventType(ofNotification: notice.type) {
      var user = UserID.nobody
      if case .recorded(let owner, _) = outcome { user = owner }
      detail.notice = notice
      try tables.changeEvents.append(type.rawValue, of: user, at: recordedAt, recordedAt: recordedAt, detail)
    }
    guard isForwarded else { return }
    detail = ChangeEvent.Detail()
    detail.forwarded = uuid
    let purchase = key.map { UserID("\($0.environment.rawValue) \($0.originalTransactionID.rawValue)") } ?? .nobody
    try tables.changeEvents.append(
      EventType.forwarded, of: purchase, at: recordedAt, recordedAt: recordedAt, detail)
  }

  private func take(_ evidence: SubscriptionEvidence, _ tables: LedgerTables) throws -> NotificationOutcome {
    let evidence = try tables.migrations.followingMigrations(evidence)
    if let owner = try tables.purchases.purchase(evidence.key)?.owner {
      // The stored receipt of the purchase takes precedence, so this one is never written.
      let receipt = KeptReceipt(
        base64: proof?.base64 ?? payload, environment: evidence.key.environment,
        bundleID: proof?.bundleID ?? bundleID ?? BundleID(""))
      return .recorded(user: owner, try record(evidence, of: owner, receipt, tables))
    }
    if let erased = try claimant.flatMap(tables.pseudonyms.pseudonym(ofErased:)) {
      // The purchase of somebody who was erased: it is nobody's until it is presented, and makes no user of that name.
      let nothing = KeptReceipt(
        base64: KeptReceipt.erasedText, environment: evidence.key.environment,
        bundleID: proof?.bundleID ?? bundleID ?? BundleID("unknown"))
      return .recorded(user: erased, try record(evidence, of: erased, nothing, tables))
    }
    let stored = try tables.unclaimed.purchase(evidence.key)
    if let claimant = try knownClaimant(tables), let receipt = transaction(of: evidence.key) ?? stored?.receipt {
      let known = stored.map { $0.evidence.merging(evidence) } ?? evidence
      if !known.namesAnother(than: claimant), !known.isOfUnknownOwnership {
        return .recorded(user: claimant, try record(evidence, of: claimant, receipt, tables))
      }
    }
    try keep(evidence, with: stored, tables)
    return .unclaimed
  }

  /// The user named by the purchase, if that user exists or may be created. The account token that an app sets need not
  /// be a user ID.
  private func knownClaimant(_ tables: LedgerTables) throws -> UserID? {
    guard let claimant = try claimant.map(tables.accounts.name) else { return nil }
    return try makesClaimant || tables.accounts.verdict(of: claimant) != nil ? claimant : nil
  }

  /// The signed transaction, if it is from the store of the purchase.
  private func transaction(of key: SubscriptionKey) -> KeptReceipt? {
    proof.flatMap { $0.environment == key.environment ? $0 : nil }
  }

  private func record(
    _ evidence: SubscriptionEvidence, of user: UserID, _ receipt: KeptReceipt, _ tables: LedgerTables
  ) throws -> Recorded {
    var entry = LedgerEntry(
      user: user, evidence: [evidence], contestedKeys: [], receipt: receipt, origin: .named,
      evaluatedAt: try moment(for: user, tables), recordedAt: receivedAt, requestID: uuid, rules: rules)
    entry.keepsReceipts = true
    entry.rowsClaimedUntil = rowsClaimedUntil
    let operation = try RecordOperation(prepared: try PreparedEntry(entry), tables: tables)
    // The entry contests no ownership and needs no approval.
    guard case .recorded(let recorded) = try operation.run() else { throw StoredForm.Unstorable() }
    return recorded
  }

  /// A notification that was missed is evaluated as of its signature, but not before the user's last verdict.
  private func moment(for user: UserID, _ tables: LedgerTables) throws -> Date {
    guard evaluatedAt < receivedAt, let account = try tables.accounts.account(of: user) else { return evaluatedAt }
    let decided = try tables.accounts.verdict(of: account)?.explanation.evaluatedAt
    return max(evaluatedAt, decided ?? evaluatedAt)
  }

  private func keep(
    _ evidence: SubscriptionEvidence, with stored: UnclaimedTable.StoredUnclaimed?, _ tables: LedgerTables
  ) throws {
    let merged = stored.map { $0.evidence.merging(evidence) } ?? evidence
    var unclaimed = UnclaimedTable.StoredUnclaimed(
      evidence: merged, rows: try StoredForm.text(merged), bundleID: stored?.bundleID, proof: stored?.proof,
      proofAt: stored?.proofAt)
    let reported = try StoredForm.milliseconds(evidence.evidenceTime)
    if let proof = transaction(of: evidence.key), unclaimed.proofAt.map({ $0 < reported }) ?? true {
      unclaimed.bundleID = proof.bundleID
      unclaimed.proof = proof.base64
      unclaimed.proofAt = reported
    }
    try tables.unclaimed.save(unclaimed, seenAt: StoredForm.milliseconds(receivedAt))
  }
}

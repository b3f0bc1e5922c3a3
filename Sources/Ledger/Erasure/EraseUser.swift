internal import Entitlements
internal import struct FoundationEssentials.Date

/// Erases a user inside an open transaction.
///
///     stays, under a pseudonym    account, events (their facts), purchases (their keys and periods), what was given,
///                                 trials with their devices, transfers at RevenueCat
///     goes                        receipts, signed transactions, notes, IDs of requests, waiting receipts and what was
///                                 granted on them, consumption, time zone, devices, the SDK's customers, texts of
///                                 notifications, events for others, what experiments showed, consumption information,
///                                 extensions of renewal dates
///     stays until the row is      the outbox has the ID
///       reset
///
/// The rows that stay keep others from a second trial, and the purchases for whoever proves them. A second run finds nothing left to do.
struct EraseUser: LedgerOperation {
  let erasure: Erasure
  /// The names that were known before this; none for the first time.
  let known: [UserID]
  let traces: NameTraces

  private var now: Date { erasure.evaluationContext.recordedAt }

  func run(_ tables: LedgerTables) throws -> ErasureReport {
    let (key, users) = try tables.erasure.names(of: erasure.user)
    let names = ErasedNames(users + known)
    var report = ErasureReport(of: try tables.accounts.name(ofKey: key))
    var pseudonyms: [String: UserID] = [:]
    // Lets an event lose its names inside the open transaction: see the schema.
    try tables.keepMemo("erasing", "")
    for identity in Set((users + known).map(\.key)).sorted() where !UserID(identity).isErased {
      let pseudonym = try tables.pseudonyms.newPseudonym(ofKey: identity)
      let (erased, isKept) = try erase(identity, as: pseudonym, names, tables)
      if isKept { pseudonyms[identity] = pseudonym }
      report.add(erased)
    }
    report.customers += try tables.erasure.erase(customersOf: key)
    try tables.erasure.eraseMemos(names)
    try tables.extensions.redact(recordsOf: nil, names)
    let pseudonym = try pseudonyms[key] ?? tables.pseudonyms.formerSelves(of: UserID(key)).last
    report.add(try tables.erasure.erase(traces, names, as: pseudonym, pseudonyms))
    try tables.keepMemo("erasing", nil)
    tables.changes.invalidateAll()
    return report
  }

  /// - Returns: `isKept`: something of this name stays under the pseudonym.
  private func erase(
    _ key: String, as pseudonym: UserID, _ names: ErasedNames, _ tables: LedgerTables
  ) throws -> (report: ErasureReport, isKept: Bool) {
    var report = ErasureReport(of: UserID(key))
    let account = try tables.accounts.account(withKey: key)
    report.usage = try tables.erasure.erase(usageOf: key)
    try tables.progress.leaveLimits(ofKey: key)
    try tables.progress.erase(progressOf: key, as: account == nil ? nil : pseudonym)
    tables.changes.invalidate(usageOf: UserID(key))
    try tables.erasure.eraseRows(of: key)
    for spelling in Set(names.spellings.filter { UserID($0).key == key } + [key]).sorted() {
      report.waitingReceipts += try tables.erasure.erase(waitingReceiptsOf: spelling)
    }
    report.devices = try tables.erasure.erase(devicesOf: key, as: pseudonym)
    try tables.marks.markTrials(of: key)
    report.trials = try tables.erasure.rename(trialsOf: key, to: pseudonym)
    report.grants = try tables.erasure.rename(givenTo: key, to: pseudonym, at: now)
    try tables.erasure.rename(elsewhere: key, to: pseudonym)
    guard let account else {
      try tables.erasure.forgetUpdate(of: key)
      // A reset from an earlier erasure may still be queued.
      report.resetsRow = try tables.exists("SELECT 1 FROM outbox WHERE key = ? AND reset IS NOT NULL", key)
      return (report, false)
    }
    let rowVersion = try reset(account, key, &report, tables)
    let erased = try tables.erasure.eraseEvents(from: account.newest, ofKey: key, as: pseudonym)
    (report.events, report.notes) = (erased.events, erased.notes)
    // Before the purchases, whose owner is found with them.
    try tables.erasure.rename(accountOf: key, to: pseudonym, rowVersion: rowVersion)
    try erase(account.purchases, as: pseudonym, names, &report, tables)
    if account.version > 0 {
      // Without what was given, and without provisional grants.
      try tables.writer(erasure.evaluationContext, requestID: ErasedNames.text, digest: nil)
        .reevaluateIfChanged(pseudonym)
    }
    for id in erased.purchases.subtracting(account.purchases).sorted() {
      let former =
        try id < 0 ? tables.purchases.key(ofPurchase: id) : try tables.purchases.purchase(id: id).evidence.key
      guard let former else { continue }
      try tables.extensions.redact(recordsOf: former, names)
      report.notifications += try tables.erasure.eraseNotifications(about: former, isOwn: false, as: pseudonym, names)
    }
    return (report, true)
  }

  /// Queues the reset of the app's row, if it may have one with a verdict.
  /// - Returns: the version of the row.
  private func reset(
    _ account: Account, _ key: String, _ report: inout ErasureReport, _ tables: LedgerTables
  ) throws -> Int64 {
    guard let reset = erasure.reset, account.user.mayHaveRow, account.version > 0 else {
      try tables.erasure.forgetUpdate(of: key)
      return account.rowVersion
    }
    let version = account.rowVersion + 1
    try tables.erasure.enqueueReset(
      of: key, spelling: account.user.rawValue == key ? nil : account.user, version: version, reset,
      at: now, dueAt: erasure.rowsClaimedUntil)
    report.resetsRow = true
    return version
  }

  private func erase(
    _ purchases: [Int64], as pseudonym: UserID, _ names: ErasedNames, _ report: inout ErasureReport,
    _ tables: LedgerTables
  ) throws {
    let kept = try purchases.filter { $0 > 0 }.map(tables.purchases.purchase(id:))
    // A receipt with another user's purchases stays with those, unless it names this one.
    let shared = try Dictionary(grouping: kept, by: \.proof).filter { id, own in
      try own.count < tables.erasure.uses(ofProof: id)
        && !names.occurs(inSigned: tables.proofs.proof(id).receipt.base64)
    }
    for purchase in kept {
      var purchase = purchase
      purchase.owner = pseudonym
      // Whoever presents the purchase later is another user, and not the one whom it named.
      purchase.claim = .proof
      purchase.evidence = purchase.evidence.withoutAccounts { _ in true }
      purchase.rows = try StoredForm.text(purchase.evidence)
      if shared[purchase.proof] != nil {
        purchase.proof = try nothing(insteadOf: purchase.proof, tables)
      } else if try tables.erasure.erase(proof: purchase.proof) {
        report.receipts += 1
      }
      _ = try tables.purchases.save(purchase)
      let past = try purchase.id.map(tables.pastTransactions.transactions(of:)) ?? []
      try tables.accountTokens.forget(tokenOf: purchase.evidence.key)
      try tables.consumptionRequests.forget(requestsOf: purchase.evidence.key, purchase.evidence.purchases + past)
      try tables.extensions.forget(recordsOf: purchase.evidence.key)
      report.notifications += try tables.erasure.eraseNotifications(
        about: purchase.evidence.key, isOwn: true, as: pseudonym, names)
    }
    for id in purchases where id < 0 {
      guard var purchase = try tables.otherStores.purchase(id: id) else { throw StoredForm.Unstorable() }
      purchase.owner = pseudonym
      purchase.events = purchase.events.map { event in
        var event = event
        if names.isName(event.user.rawValue) { event.user = pseudonym }
        return event
      }
      _ = try tables.otherStores.save(purchase)
      report.notifications += try tables.erasure.eraseNotifications(
        about: purchase.evidence.key, isOwn: true, as: pseudonym, names)
    }
    report.purchases = purchases.count
  }

  /// - Returns: the proof of a purchase that no longer uses another one.
  private func nothing(insteadOf proof: Int64, _ tables: LedgerTables) throws -> Int64 {
    var nothing = try tables.proofs.proof(proof).receipt
    nothing.base64 = KeptReceipt.erasedText
    let id = try tables.proofs.add(StoredProof(nothing), at: StoredForm.milliseconds(now))
    try tables.proofs.leave(proof: proof)
    return id
  }
}

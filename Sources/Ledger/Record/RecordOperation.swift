internal import Entitlements
internal import struct FoundationEssentials.Date

/// Records one entry inside an open transaction.
///
/// **Evidence is merged** by subscription, as `SubscriptionEvidence.merging` says: a snapshot replaces an older one and
/// its stored receipt; a partial report is added. A claimed purchase also brings the evidence of notifications that
/// arrived while it was unclaimed. The verdict is evaluated over the merged evidence, never over the answer alone.
///
/// **The user named by a purchase** is read from the merged evidence: a row without an account token does not hide the
/// token of a newer row.
///
/// Unclaimed purchases that name this user are claimed in the same transaction.
///
/// **The evaluation time** is the later of the entry's and the newest at which evidence of the user was evaluated.
/// Without this rule the outcome of two answers would depend on their order of arrival: an older answer would evaluate
/// the newer evidence at a moment before it was given, and revive a subscription that has ended.
///
/// **A new verdict** adds a history line and increments the version. It is written when there was no verdict before,
/// when the user gained a subscription, when stored evidence changed (its source or content), or when the verdict
/// differs in anything but its times. A post that brings nothing but a newer time of the evidence is kept with the
/// purchase, and adds a line once a day: neither a client that posts in a loop nor an app that posts at each start fills
/// the disk. Each user who loses a subscription always gets a line.
final class RecordOperation {
  private let prepared: PreparedEntry
  private let tables: LedgerTables
  /// The user's account before.
  private let account: Account

  init(prepared: PreparedEntry, tables: LedgerTables) throws {
    for subscription in prepared.subscriptions { try tables.migrations.migrate(to: subscription.evidence) }
    tables.readAhead {
      let user = prepared.entry.user
      _ = try? tables.accounts.account(of: user)
      for subscription in prepared.subscriptions {
        let key = subscription.evidence.key
        _ = try? tables.purchases.successor(of: key)
        _ = try? tables.purchases.purchase(key)
        _ = try? tables.unclaimed.purchase(key)
        _ = try? tables.provisionalGrants.grant(on: key)
      }
      _ = try? tables.unclaimed.purchases(naming: user)
      _ = try? tables.provisionalGrants.evidence(of: user)
    }
    account = try tables.accounts.knownOrNewAccount(of: prepared.entry.user)
    var prepared = prepared
    prepared.entry.user = account.user
    try prepared.forgetErased(tables)
    try prepared.followMigrations(tables)
    self.prepared = prepared
    self.tables = tables
  }

  private var entry: LedgerEntry { prepared.entry }
  /// How the user acquires unowned purchases.
  private var claim: PurchaseTable.Claim { entry.origin == .named ? .accountToken : .proof }
  private var writer: VerdictWriter {
    VerdictWriter(
      tables: tables, rules: entry.rules, evaluatedAt: entry.evaluatedAt,
      head: .init(recordedAt: prepared.recordedAt, requestID: entry.requestID, note: entry.note),
      digest: prepared.proof.digest, evidenceAt: prepared.evidenceAt, rowsDueAt: prepared.rowsDueAt)
  }

  /// The stored purchases of the answer, before and after the merge.
  private struct StoredState {
    var stored: [SubscriptionKey: PurchaseTable.StoredPurchase] = [:]
    var unclaimed: [SubscriptionKey: UnclaimedTable.StoredUnclaimed] = [:]
    var merged: [SubscriptionKey: SubscriptionEvidence] = [:]
    var ofNobody: Set<SubscriptionKey> { Set(merged.filter { $0.value.isOfUnknownOwnership }.map(\.key)) }
  }

  /// A purchase of the user, to be stored.
  private struct PurchaseUpdate {
    enum Receipt {
      case entry
      /// The proof that is already stored.
      case kept(Int64)
      case proof(KeptReceipt)
    }

    var subscription: PreparedEntry.Subscription
    var receipt: Receipt
    var claim: PurchaseTable.Claim
    var key: SubscriptionKey { subscription.evidence.key }
  }

  func run() throws -> RecordOutcome {
    var known = StoredState()
    for subscription in prepared.subscriptions {
      let key = subscription.evidence.key
      known.stored[key] = try tables.purchases.purchase(key)
      known.unclaimed[key] = try tables.unclaimed.purchase(key)
      var (stored, answer) = (known.stored[key]?.evidence, subscription.evidence)
      // Two answers of the same time: the later arrival stands, since the caller has just seen it.
      if let known = stored, known.coverage == .snapshot, subscription.evidence.coverage == .snapshot,
        known.isAnswered(by: subscription.evidence)
      {
        answer = answer.keeping(known)
        stored = nil
      }
      known.merged[key] = [stored, known.unclaimed[key]?.evidence, answer]
        .compactMap { $0 }
        .reduce(nil) { $0?.merging($1) ?? $1 }
      if entry.user.isErased { known.merged[key] = known.merged[key]?.withoutAccounts { _ in true } }
    }
    switch try rule(over: known) {
    case .refused:
      try recheckOthers(Array(known.stored.keys), over: known)
      let contested = entry.contestedKeys.intersection(known.merged.keys)
      return contested.isSubset(of: known.ofNobody) ? .ofUnknownOwnership : .ownedByAnotherUser
    case .granted(let grant):
      guard try !comesAfterAnother() else { return .heldBack }
      if !grant.leftWithOthers.isEmpty { try recheckOthers(Array(grant.leftWithOthers), over: known) }
      return try record(grant, over: known)
    }
  }

  /// Has Apple asked about purchases that stay with other users, where a presented answer has a newer period: the app that
  /// presented it may finish it, and nobody else may hear of it.
  private func recheckOthers(_ keys: [SubscriptionKey], over known: StoredState) throws {
    guard entry.origin.isProven else { return }
    for key in keys {
      guard let stored = known.stored[key], stored.owner != entry.user, !stored.owner.isErased,
        let newest = known.merged[key]?.purchases.compactMap(\.purchaseDate).max(),
        stored.evidence.purchases.allSatisfy({ $0.purchaseDate.map { $0 < newest } ?? true })
      else { continue }
      _ = try tables.schedule.recheckSoon(key.originalTransactionID, at: StoredForm.milliseconds(entry.recordedAt))
    }
  }

  /// The time for which a receipt waits for an earlier one without a grant. The earlier user may have sent a receipt
  /// that Apple never answers for.
  private static let reservation = Duration.seconds(86_400)

  /// Whether a queued receipt contains a purchase that is granted to or reserved for another user, whose receipt came
  /// first and is still queued.
  ///
  /// Receipts are settled concurrently, so the order of two answers is chance.
  private func comesAfterAnother() throws -> Bool {
    guard case .settlement(let id, _) = entry.origin else { return false }
    // Settled meanwhile, or its user was erased.
    guard try tables.pending.pending(id) != nil else { return true }
    return try entry.contestedKeys.contains { key in
      guard let grant = try tables.provisionalGrants.grant(on: key) else { return false }
      let isReserved =
        grant.isReservation
        && entry.recordedAt.inWholeMilliseconds < grant.evidence.evaluatedAt.advanced(by: Self.reservation)
      guard !grant.isOver || isReserved else { return false }
      return grant.owner != entry.user && grant.pending < id
    }
  }

  private func rule(over known: StoredState) throws -> OwnershipRuling {
    let naming = try known.merged.filter {
      try tables.unclaimed.names($0.value, anotherThan: entry.user, tokensAreUserIDs: entry.tokensAreUserIDs)
    }.map(\.key)
    let origin = entry.origin
    return try OwnershipRuling.decide(
      user: entry.user,
      keys: Set(prepared.subscriptions.map(\.evidence.key)),
      contested: entry.contestedKeys,
      owners: known.stored.mapValues(\.owner),
      policy: origin.ownership,
      ofNobody: known.ofNobody,
      namingOthers: entry.keysNamingOthers.union(naming),
      naming: origin.isProven ? Set(known.merged.filter { $0.value.names(entry.user) }.map(\.key)) : [],
      unpresented: origin.isByUser ? Set(known.stored.filter { $0.value.claim == .accountToken }.map(\.key)) : [],
      ownerless: origin.isProven ? Set(known.stored.filter { $0.value.owner.isErased }.map(\.key)) : [],
      isInactive: tables.purchases.inactivity(of: known.stored, by: entry.rules, at: entry.evaluatedAt))
  }

  private func record(_ grant: OwnershipRuling.Grant, over known: StoredState) throws -> RecordOutcome {
    tables.readAhead {
      _ = try? tables.accounts.verdict(of: self.account)
      let reported = Set(known.stored.values.compactMap(\.id))
      for id in self.account.purchases where id > 0 && !reported.contains(id) {
        _ = try? tables.purchases.purchase(id: id)
      }
      if let proof = known.stored.values.first?.proof { _ = try? tables.proofs.isProof(proof, prepared.proof) }
    }
    let own = prepared.subscriptions.filter { grant.belongsToUser($0.evidence.key) }
    let named = try namingThisUser()
    let news = try own.map { try merge($0, over: known) } + named
    let answers = Dictionary(uniqueKeysWithValues: prepared.subscriptions.map { ($0.evidence.key, $0) })
    let evidence = try evidence(with: news, of: answers, over: known.stored)
    let moment = writer.moment(of: evidence, for: account)
    let surroundings = entry.rules.surroundings(of: evidence)
    func evaluated(_ given: [GivenPeriod]) -> Entitlement {
      entry.rules.evaluate(entry.user, evidence, among: surroundings, given: given, at: moment)
    }
    let verdict = evaluated(account.given)
    let before = try tables.accounts.verdict(of: account)
    guard entry.approves(before, verdict) else { return .heldBack }
    let gained =
      own.map(\.evidence.key).filter { grant.claimed.contains($0) || grant.moved[$0] != nil } + named.map(\.key)
    let repeated = gained.isEmpty ? try repeated(before, by: verdict, at: moment, news, over: known) : nil

    let past = news.compactMap { new in
      let reports = [
        known.stored[new.key]?.evidence, known.unclaimed[new.key]?.evidence, answers[new.key]?.evidence,
      ]
      return new.subscription.evidence.leftOut(
        of: reports.compactMap { $0 } + prepared.past.filter { $0.key == new.key })
    }
    if repeated == nil {
      tables.readAhead {
        for past in past {
          if let row = known.stored[past.key]?.id { _ = try? tables.pastTransactions.past(of: row, past.key) }
        }
        if news.contains(where: { known.stored[$0.key] == nil }) { _ = try? tables.proofs.nextID() }
        for new in news where known.stored[new.key] == nil { _ = try? tables.purchases.nextID() }
        for _ in 0...gained.count { _ = try? tables.events.nextID() }
        if self.account.rowVersion == 0 {
          _ = try? tables.pseudonyms.formerSelves(of: entry.user)
        } else {
          _ = try? tables.outbox.waitingSince(of: self.account)
        }
      }
    }
    let rows = try save(news, over: known.stored, among: surroundings, at: moment)
    for past in past {
      if let row = rows[past.key] { try tables.pastTransactions.keep(past, of: row) }
    }
    var account = account
    var recorded = Recorded(entitlement: repeated ?? verdict, changed: false, losers: [], write: .waiting)
    var disproven: Set<UserID> = []
    let gains = try gained.map { key in
      guard let row = rows[key] else { throw StoredForm.Unstorable() }
      return (purchase: row, from: grant.moved[key])
    }
    try OwnershipMove(
      tables: tables, gained: gains, tellsAccountTokens: entry.tellsAccountTokens, writer: { [self] _ in writer }
    ).run(to: &account) { [self] account in
      for key in own.map(\.evidence.key).filter({ known.unclaimed[$0] != nil }) + named.map(\.key) {
        try tables.unclaimed.remove(key)
      }
      if repeated != nil {
        recorded.write = try tables.outbox.writeState(of: entry.user)
      } else {
        recorded = try writer.save(verdict, of: &account, after: before, on: evidence) { _ in evaluated([]) }
      }
      disproven = try endGrants(on: own + named.map(\.subscription)).subtracting(grant.moved.values)
    }
    for user in disproven.sorted(by: { $0.rawValue < $1.rawValue }) {
      try writer.reevaluateIfChanged(user)
    }
    recorded.losers = disproven.union(grant.moved.values).sorted { $0.rawValue < $1.rawValue }
    recorded.ownedByOthers = grant.leftWithOthers.filter { known.stored[$0]?.owner.isErased == false }
    return .recorded(recorded)
  }

  /// Unclaimed purchases that name this user, apart from those in the answer.
  private func namingThisUser() throws -> [PurchaseUpdate] {
    let reported = Set(prepared.subscriptions.map(\.evidence.key))
    return try tables.unclaimed.purchases(naming: entry.user).compactMap { unclaimed in
      let key = unclaimed.evidence.key
      guard let receipt = unclaimed.receipt, !reported.contains(key), !unclaimed.evidence.isOfUnknownOwnership,
        try tables.purchases.purchase(key) == nil
      else {
        return nil
      }
      return PurchaseUpdate(
        subscription: try PreparedEntry.Subscription(unclaimed.evidence), receipt: .proof(receipt), claim: .accountToken
      )
    }
  }

  /// Ends provisional grants on these purchases, since Apple has answered. A grant to this user for a later renewal
  /// than the answer can report stays.
  /// - Returns: the other users who had a grant.
  private func endGrants(on own: [PreparedEntry.Subscription]) throws -> Set<UserID> {
    var users: Set<UserID> = []
    for subscription in own {
      let key = subscription.evidence.key
      guard let grant = try tables.provisionalGrants.grant(on: key) else { continue }
      if grant.owner == entry.user, try isOlder(subscription, than: grant.evidence) { continue }
      try tables.provisionalGrants.remove(on: key)
      if grant.owner != entry.user, !grant.isReservation { users.insert(grant.owner) }
    }
    return users
  }

  private func isOlder(_ answer: PreparedEntry.Subscription, than grant: SubscriptionEvidence) throws -> Bool {
    answer.evidenceAt < (try StoredForm.milliseconds(grant.evidenceTime))
  }

  /// A subscription of the answer, merged with the stored evidence.
  ///
  /// The receipt belongs to the answer that stands, or to the latest partial report. Of two answers of the same time,
  /// the one requested later stands, whatever their order of arrival: answers about iOS 6-style receipts carry no clock
  /// of Apple's, so a refund has the evidence time of the purchase.
  private func merge(_ new: PreparedEntry.Subscription, over known: StoredState) throws -> PurchaseUpdate {
    let key = new.evidence.key
    guard let merged = known.merged[key] else { throw StoredForm.Unstorable() }
    let subscription = merged == new.evidence ? new : try PreparedEntry.Subscription(merged)
    guard let stored = known.stored[key] else {
      return PurchaseUpdate(subscription: subscription, receipt: .entry, claim: claim)
    }
    let stands =
      new.evidence.coverage == .snapshot
      ? merged.isAnswered(by: new.evidence) : subscription.evidenceAt == new.evidenceAt
    return PurchaseUpdate(
      subscription: subscription,
      // The receipt of somebody who was erased is gone.
      receipt: stands && !entry.keepsReceipts || stored.owner.isErased && !entry.user.isErased
        ? .entry : .kept(stored.proof),
      claim: stored.owner == entry.user && !entry.origin.isByUser ? stored.claim : claim)
  }

  private func changesContent(_ news: PurchaseUpdate, over stored: PurchaseTable.StoredPurchase?) -> Bool {
    guard let stored else { return true }
    let new = news.subscription
    return new.rows != stored.rows && !new.evidence.repeats(stored.evidence)
      || new.evidence.source != stored.evidence.source || new.evidence.isAccountGone != stored.evidence.isAccountGone
  }

  /// Whether a schedule asked again because the last answer may be behind what Apple has told: every few minutes, for an hour.
  private func isAwaited(_ news: [PurchaseUpdate]) -> Bool {
    entry.origin == .recheck(nil) && news.contains { $0.subscription.evidence.isAwaited }
  }

  private func changesTime(_ news: PurchaseUpdate, over stored: PurchaseTable.StoredPurchase?) -> Bool {
    news.subscription.evidenceAt != stored?.evidenceAt
  }

  /// Seconds after which a verdict that Apple confirms is written again.
  private static let confirmationInterval = 86_400.0

  /// The answer, if the verdict says what the stored one says and needs no line: where no evidence changed, or where a
  /// post renews the time of it and nothing else asks for a line: no update that the profile store has not
  /// taken. What support or a schedule asks Apple is always a line, and writes the app's row; but not where the schedule
  /// waits for what an answer does not have yet.
  private func repeated(
    _ before: Entitlement?, by verdict: Entitlement, at moment: Date, _ news: [PurchaseUpdate], over known: StoredState
  ) throws -> Entitlement? {
    guard let before, !news.contains(where: { changesContent($0, over: known.stored[$0.key]) }) else { return nil }
    guard news.contains(where: { changesTime($0, over: known.stored[$0.key]) }) else {
      return VerdictWriter.isSame(verdict, before, by: \.apartFromMoment) ? before : nil
    }
    guard entry.origin.isByUser || isAwaited(news), entry.note == nil, let evaluatedAt = before.explanation.evaluatedAt,
      abs(moment.timeIntervalSince(evaluatedAt)) < Self.confirmationInterval,
      VerdictWriter.isSame(verdict, before, by: \.apartFromTimes),
      try tables.outbox.waitingUpdate(of: entry.user).map({ $0.attempts == 0 }) ?? true
    else { return nil }
    return verdict.inWholeMilliseconds
  }

  /// All evidence of the user after this answer, in the order in which the ledger will return it.
  private func evidence(
    with news: [PurchaseUpdate], of answers: [SubscriptionKey: PreparedEntry.Subscription],
    over stored: [SubscriptionKey: PurchaseTable.StoredPurchase]
  ) throws -> [SubscriptionEvidence] {
    let known = Set(news.compactMap { stored[$0.key]?.id })
    let others = try tables.purchases.purchases(of: account, without: known).map(\.evidence)
    return (news.map(\.subscription.evidence) + others).sorted { $0.key.precedes($1.key) }
      + (try tables.otherStores.storeEvidence(of: account))
      + (try tables.provisionalGrants.evidence(of: entry.user).filter { grant in
        try answers[grant.key].map { try isOlder($0, than: grant) } ?? true
      })
  }

  /// Writes only differences: a post that repeats stored evidence writes nothing and costs no fsync.
  /// - Returns: the rows of the purchases.
  private func save(
    _ news: [PurchaseUpdate], over known: [SubscriptionKey: PurchaseTable.StoredPurchase],
    among surroundings: PurchaseSurroundings, at moment: Date
  ) throws -> [SubscriptionKey: Int64] {
    var shared = try known.values.map(\.proof).first { try tables.proofs.isProof($0, prepared.proof) }
    var rows: [SubscriptionKey: Int64] = [:]
    for new in news {
      let stored = known[new.key]
      let evidence = new.subscription.evidence
      let schedule = try PurchaseTable.Schedule.next(
        after: stored?.schedule, of: new.key,
        at: entry.rules.nextCheck(of: evidence, among: surroundings, at: moment), asOf: moment)
      if let stored, let row = stored.id, isSame(new, as: stored, proof: shared) {
        if schedule != stored.schedule { try tables.schedule.schedule(row, schedule) }
        rows[new.key] = row
        continue
      }
      let proof = try proof(of: new, insteadOf: stored?.proof, &shared)
      rows[new.key] = try tables.purchases.save(
        PurchaseTable.StoredPurchase(
          id: stored?.id, evidence: evidence, owner: entry.user, claim: new.claim, proof: proof,
          evidenceAt: new.subscription.evidenceAt, evaluatedAt: new.subscription.evaluatedAt,
          rows: new.subscription.rows,
          renewalOffAt: evidence.renewals.contains { $0.autoRenews == false }
            ? stored?.renewalOffAt ?? new.subscription.evidenceAt : nil,
          billingFailedAt: evidence.renewals.contains { $0.isInBillingRetry == true }
            ? stored?.billingFailedAt ?? new.subscription.evidenceAt : nil,
          schedule: schedule))
    }
    return rows
  }

  private func isSame(_ new: PurchaseUpdate, as stored: PurchaseTable.StoredPurchase, proof: Int64?) -> Bool {
    if case .entry = new.receipt, stored.proof != proof { return false }
    return new.subscription.rows == stored.rows && !changesContent(new, over: stored)
      && !changesTime(new, over: stored) && new.subscription.evaluatedAt == stored.evaluatedAt
      && stored.owner == entry.user && stored.claim == new.claim
  }

  /// The stored proof of a purchase, which takes the place of another one.
  /// - Parameter shared: the row of this entry's receipt, which may prove several purchases.
  private func proof(of new: PurchaseUpdate, insteadOf former: Int64?, _ shared: inout Int64?) throws -> Int64 {
    switch new.receipt {
    case .kept(let id): return id
    case .proof(let receipt):
      return try tables.proofs.add(StoredProof(receipt), at: prepared.recordedAt)
    case .entry:
      if let shared {
        guard shared != former else { return shared }
        try tables.proofs.use(proof: shared)
        if let former { try tables.proofs.leave(proof: former) }
        return shared
      }
      if let former, try tables.proofs.replace(proof: former, by: prepared.proof, at: prepared.recordedAt) {
        shared = former
        return former
      }
      let added = try tables.proofs.add(prepared.proof, at: prepared.recordedAt)
      if let former { try tables.proofs.leave(proof: former) }
      shared = added
      return added
    }
  }
}

extension SubscriptionEvidence {
  /// Whether the last answer lacks the purchase that other evidence's lacked, and nothing but times differs beside it.
  fileprivate func repeats(_ other: SubscriptionEvidence) -> Bool {
    ahead != nil && ahead == other.ahead && apartFromTimes == other.apartFromTimes
  }

  private var apartFromTimes: SubscriptionEvidence {
    var copy = self
    (copy.evidenceTime, copy.evaluatedAt) = (.distantPast, .distantPast)
    (copy.coverage, copy.answeredAt) = (.snapshot, nil)
    copy.terms?.signedAt = nil
    for index in copy.purchases.indices { copy.purchases[index].reportedAt = nil }
    for index in copy.renewals.indices { copy.renewals[index].reportedAt = nil }
    return copy
  }

  /// Whether a snapshot is the newest of those that this evidence was merged from.
  fileprivate func isAnswered(by answer: SubscriptionEvidence) -> Bool {
    switch coverage {
    case .snapshot: isSameMoment(evidenceTime, answer.evidenceTime) && isSameMoment(evaluatedAt, answer.evaluatedAt)
    case .partial(let since):
      isSameMoment(since, answer.evidenceTime) && isSameMoment(answeredAt, answer.evaluatedAt)
    }
  }

  private func isSameMoment(_ one: Date?, _ other: Date) -> Bool {
    one.map { $0.millisecondsSince1970 == other.millisecondsSince1970 } ?? false
  }
}

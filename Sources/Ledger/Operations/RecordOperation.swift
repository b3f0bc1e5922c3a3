internal import Entitlements
internal import struct FoundationEssentials.Date

/// Records one entry inside an open transaction.
///
/// **Evidence is merged**, by subscription, as `SubscriptionEvidence.merging` says: an answer that tells all takes the place
/// of an older one, and the kept receipt with it; what is told in parts is added. With a purchase that is claimed comes what
/// notifications told of it while nobody had it. The verdict is judged over what is known then, never over the answer
/// alone.
///
/// **Whom a purchase names** is read from what is known of it after the merge: a row that names nobody does not hide that a
/// newer one names somebody.
///
/// Purchases that nobody has claimed and that name this user are claimed with the record.
///
/// **The moment of judgement** is the entry's, or the newest at which evidence of the user was judged, whichever is
/// later. Without this the outcome of two answers would depend on which arrives last: an answer overtaken by a newer one
/// would judge the newer evidence at a moment before it was given, and let an ended subscription live again.
///
/// **What is a new verdict.** A history line is written and the version grows when there was no verdict before, when the
/// user gained a subscription, when stored evidence changed (its time, source or content), or when the verdict differs
/// in anything but the moment it was judged at. Otherwise the answer repeats what is known: the stored verdict is
/// returned, unchanged, and neither history nor version grows, so that a client that posts in a loop cannot fill the
/// disk. Each user who loses a subscription always gets a line.
struct RecordOperation {
  private let prepared: PreparedEntry
  private let tables: LedgerTables
  /// How the user comes to what nobody owns.
  private let claim: LedgerTables.Claim

  init(prepared: PreparedEntry, tables: LedgerTables, claim: LedgerTables.Claim = .proof) throws {
    var prepared = prepared
    prepared.entry.user = try tables.name(of: prepared.entry.user)
    self.prepared = prepared
    self.tables = tables
    self.claim = claim
  }

  private var entry: LedgerEntry { prepared.entry }
  private var writer: VerdictWriter {
    VerdictWriter(
      tables: tables, recordedAt: prepared.recordedAt, requestID: entry.requestID, digest: prepared.digest,
      evidenceAt: prepared.evidenceAt, note: entry.note, rowsDueAt: prepared.rowsDueAt)
  }

  /// What the ledger knows of the subscriptions of the answer, and will know after it.
  private struct Knowledge {
    var stored: [SubscriptionKey: LedgerTables.StoredSubscription] = [:]
    var unclaimed: [SubscriptionKey: LedgerTables.StoredUnclaimed] = [:]
    var merged: [SubscriptionKey: SubscriptionEvidence] = [:]
  }

  /// A subscription of the user as it will be written down.
  private struct News {
    enum Receipt {
      case entry
      /// The row that is kept already.
      case kept(Int64)
      case proof(KeptReceipt)
    }

    var subscription: PreparedEntry.Subscription
    var receipt: Receipt
    var claim: LedgerTables.Claim
    var key: SubscriptionKey { subscription.evidence.key }
  }

  func run() throws -> RecordOutcome {
    var known = Knowledge()
    for subscription in prepared.subscriptions {
      let key = subscription.evidence.key
      known.stored[key] = try tables.subscription(key)
      known.unclaimed[key] = try tables.unclaimed(key)
      var stored = known.stored[key]?.evidence
      // Two answers that nothing tells apart: the one that came last, which the caller has just been shown.
      if let known = stored, known.coverage == .snapshot, subscription.evidence.coverage == .snapshot,
        known.isAnswered(by: subscription.evidence)
      {
        stored = nil
      }
      known.merged[key] = [stored, known.unclaimed[key]?.evidence, subscription.evidence]
        .compactMap { $0 }
        .reduce(nil) { $0?.merging($1) ?? $1 }
    }
    switch rule(over: known) {
    case .refused: return .ownedByAnotherUser
    case .granted(let grant):
      guard try !comesAfterAnother() else { return .heldBack }
      return try record(grant, over: known)
    }
  }

  /// How long a receipt waits for one that came before it and is not granted anything: whoever came first may have sent
  /// what Apple never answers.
  private static let reservation = 86_400.0

  /// Whether a receipt that waited has a purchase that counts for somebody else, or is reserved for them, whose receipt
  /// came first and waits too.
  ///
  /// Several receipts are settled at once, and which of two answers comes first is chance.
  private func comesAfterAnother() throws -> Bool {
    guard let id = entry.pendingID else { return false }
    return try entry.contestedKeys.contains { key in
      guard let grant = try tables.grant(on: key) else { return false }
      let isReserved =
        grant.isReservation
        && entry.recordedAt.timeIntervalSince(grant.evidence.evaluatedAt) < Self.reservation
      guard !grant.isOver || isReserved else { return false }
      return grant.owner != entry.user && grant.pending < id
    }
  }

  private func rule(over known: Knowledge) -> OwnershipRuling {
    let naming = known.merged.filter { $0.value.namesAnother(than: entry.user) }.map(\.key)
    return OwnershipRuling.decide(
      user: entry.user,
      keys: Set(prepared.subscriptions.map(\.evidence.key)),
      contested: entry.contestedKeys,
      owners: known.stored.mapValues(\.owner),
      policy: entry.ownership,
      namingOthers: entry.keysNamingOthers.union(naming),
      unpresented: entry.isPresented ? Set(known.stored.filter { $0.value.claim == .accountToken }.map(\.key)) : [],
      isInactive: { key in
        guard let stored = known.stored[key] else { return false }
        return entry.evaluate(stored.owner, [stored.evidence], entry.evaluatedAt).isInactive
      })
  }

  private func record(_ grant: OwnershipRuling.Grant, over known: Knowledge) throws -> RecordOutcome {
    let own = prepared.subscriptions.filter { grant.belongsToUser($0.evidence.key) }
    let named = try namingThisUser()
    let news = try own.map { try merge($0, over: known) } + named
    let evidence = try evidence(with: news)
    let moment = VerdictWriter.moment(of: evidence, notBefore: entry.evaluatedAt)
    let verdict = entry.evaluate(entry.user, evidence, moment)
    let before = try tables.profile(of: entry.user)
    guard entry.approves(before?.entitlement, verdict) else { return .heldBack }
    let hasNewEvidence = news.contains { changesKnowledge($0, over: known.stored[$0.key]) }
    let gains = !grant.claimed.isEmpty || !grant.moved.isEmpty || !named.isEmpty

    // As it is after each verdict that is written down.
    var recorded = Recorded(
      entitlement: verdict, changed: false, losers: [], keptByOthers: grant.leftWithOthers.count, write: .waiting)
    if let before, !gains, !hasNewEvidence,
      try VerdictWriter.isSame(verdict, before.entitlement, by: \.apartFromMoment)
    {
      recorded.entitlement = before.entitlement
      recorded.write = try tables.updateState(of: entry.user)
    } else {
      (recorded.entitlement, recorded.changed) = try writer.save(verdict, of: entry.user, after: before)
    }

    try save(news, over: known.stored)
    let gained = own.map(\.evidence.key).filter { grant.claimed.contains($0) || grant.moved[$0] != nil }
    for key in gained + named.map(\.key) {
      try tables.log(
        change: key, from: grant.moved[key], to: entry.user, recordedAt: prepared.recordedAt,
        requestID: entry.requestID, note: entry.note)
    }
    for key in own.map(\.evidence.key).filter({ known.unclaimed[$0] != nil }) + named.map(\.key) {
      try tables.removeUnclaimed(key)
    }
    try schedule(news, at: moment)
    let owners = Set(grant.moved.values)
    let disproven = try endGrants(on: own + named.map(\.subscription)).subtracting(owners)
    for loser in owners.sorted(by: { $0.rawValue < $1.rawValue }) {
      try writer.reevaluate(loser, by: entry.evaluate, at: entry.evaluatedAt)
    }
    for user in disproven.sorted(by: { $0.rawValue < $1.rawValue }) {
      try writer.judgeIfChanged(user, by: entry.evaluate, at: entry.evaluatedAt)
    }
    recorded.losers = owners.union(disproven).sorted { $0.rawValue < $1.rawValue }
    return .recorded(recorded)
  }

  /// What nobody has claimed and names this user; what the answer tells of itself apart.
  private func namingThisUser() throws -> [News] {
    let reported = Set(prepared.subscriptions.map(\.evidence.key))
    return try tables.unclaimed(naming: entry.user).compactMap { unclaimed in
      let key = unclaimed.evidence.key
      guard let receipt = unclaimed.receipt, !reported.contains(key), try tables.subscription(key) == nil else {
        return nil
      }
      return News(
        subscription: try PreparedEntry.Subscription(unclaimed.evidence), receipt: .proof(receipt), claim: .accountToken
      )
    }
  }

  /// Writes down when each subscription of the answer has to be asked about again, as the ledger knows it now.
  private func schedule(_ news: [News], at moment: Date) throws {
    for new in news {
      let kept = try new.subscription.kept()
      try tables.schedule(new.key, at: entry.nextCheck(kept, moment), asOf: moment)
    }
  }

  /// Apple has spoken about these purchases: what others were granted on a signature ends, and this user's needs it no
  /// more, unless it is of a later renewal than the answer can tell of.
  /// - Returns: the others.
  private func endGrants(on own: [PreparedEntry.Subscription]) throws -> Set<UserID> {
    var users: Set<UserID> = []
    for subscription in own {
      let key = subscription.evidence.key
      guard let grant = try tables.grant(on: key) else { continue }
      if grant.owner == entry.user, try isOlder(subscription, than: grant.evidence) { continue }
      try tables.removeGrant(on: key)
      if grant.owner != entry.user, !grant.isReservation { users.insert(grant.owner) }
    }
    return users
  }

  private func isOlder(_ answer: PreparedEntry.Subscription, than grant: SubscriptionEvidence) throws -> Bool {
    answer.evidenceAt < (try StoredForm.milliseconds(grant.evidenceTime))
  }

  /// A subscription of the answer with all that is known of it.
  ///
  /// The receipt goes with the answer that stands, or the part that was told last. Where two answers are of the same time,
  /// the one that was asked for later stands, whichever arrived last: answers about iOS 6-style receipts carry no clock of
  /// Apple's, so a refund has the evidence time of the purchase.
  private func merge(_ new: PreparedEntry.Subscription, over known: Knowledge) throws -> News {
    let key = new.evidence.key
    guard let merged = known.merged[key] else { throw StoredForm.Unstorable() }
    let subscription = merged == new.evidence ? new : try PreparedEntry.Subscription(merged)
    guard let stored = known.stored[key] else { return News(subscription: subscription, receipt: .entry, claim: claim) }
    let stands =
      new.evidence.coverage == .snapshot
      ? merged.isAnswered(by: new.evidence) : subscription.evidenceAt == new.evidenceAt
    return News(
      subscription: subscription,
      receipt: stands && !entry.keepsReceipts ? .entry : .kept(stored.receiptID),
      claim: stored.owner == entry.user && !entry.isPresented ? stored.claim : claim)
  }

  private func changesKnowledge(_ news: News, over stored: LedgerTables.StoredSubscription?) -> Bool {
    guard let stored else { return true }
    let new = news.subscription
    return new.evidenceAt != stored.evidenceAt || new.rows != stored.rows
      || new.evidence.source != stored.evidence.source || new.evidence.isAccountGone != stored.evidence.isAccountGone
  }

  /// Everything known of the user after this answer, in the order in which the ledger will hand it out.
  private func evidence(with news: [News]) throws -> [SubscriptionEvidence] {
    var all: [SubscriptionKey: SubscriptionEvidence] = [:]
    for new in news { all[new.key] = new.subscription.evidence }
    for stored in try tables.subscriptions(of: entry.user, without: Set(all.keys)) {
      all[stored.evidence.key] = stored.evidence
    }
    let reported = Dictionary(uniqueKeysWithValues: prepared.subscriptions.map { ($0.evidence.key, $0) })
    return all.values.sorted { $0.key.precedes($1.key) }
      + (try tables.provisionalEvidence(of: entry.user).filter { grant in
        try reported[grant.key].map { try isOlder($0, than: grant) } ?? true
      })
  }

  /// Writes what differs from the stored: a post that repeats what is known writes nothing and costs no fsync.
  private func save(_ news: [News], over known: [SubscriptionKey: LedgerTables.StoredSubscription]) throws {
    let kept = known.isEmpty ? nil : try tables.receiptID(of: entry.receipt, digest: prepared.digest)
    let differing = news.filter { new in
      guard let stored = known[new.key] else { return true }
      if case .entry = new.receipt, stored.receiptID != kept { return true }
      return changesKnowledge(new, over: stored) || new.subscription.evaluatedAt != stored.evaluatedAt
        || stored.owner != entry.user || stored.claim != new.claim
    }
    var used: Set<Int64> = []
    for new in differing {
      let receiptID = try receiptID(of: new)
      used.insert(receiptID)
      try tables.save(
        .init(
          evidence: new.subscription.evidence, owner: entry.user, receiptID: receiptID,
          evidenceAt: new.subscription.evidenceAt, evaluatedAt: new.subscription.evaluatedAt,
          rows: new.subscription.rows,
          claim: new.claim))
    }
    let replaced = Set(differing.compactMap { known[$0.key]?.receiptID }).subtracting(used)
    for id in replaced.sorted() { try tables.pruneReceipt(id) }
  }

  private func receiptID(of new: News) throws -> Int64 {
    switch new.receipt {
    case .entry: try tables.save(entry.receipt, digest: prepared.digest, seenAt: prepared.recordedAt)
    case .kept(let id): id
    case .proof(let receipt):
      try tables.save(receipt, digest: ReceiptDigest(of: receipt.base64), seenAt: prepared.recordedAt)
    }
  }
}

extension SubscriptionEvidence {
  /// Whether an answer that tells all is the newest of those that this evidence was put together from.
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

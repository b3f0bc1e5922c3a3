internal import Entitlements
internal import struct FoundationEssentials.Date

/// Records one entry inside an open transaction.
///
/// **Newest evidence wins**, by subscription: evidence older than the stored is dropped; evidence of the same time or
/// newer replaces it, and the kept receipt with it. The verdict is judged over what is known then, never over the
/// answer alone.
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
  let prepared: PreparedEntry
  let tables: LedgerTables

  private var entry: LedgerEntry { prepared.entry }
  private var writer: VerdictWriter {
    VerdictWriter(
      tables: tables, recordedAt: prepared.recordedAt, requestID: entry.requestID, digest: prepared.digest,
      evidenceAt: prepared.evidenceAt, note: entry.note)
  }

  func run() throws -> RecordOutcome {
    var known: [SubscriptionKey: LedgerTables.StoredSubscription] = [:]
    for subscription in prepared.subscriptions {
      known[subscription.evidence.key] = try tables.subscription(subscription.evidence.key)
    }
    switch rule(over: known) {
    case .refused: return .ownedByAnotherUser
    case .granted(let grant):
      guard try !comesAfterAnother() else { return .heldBack }
      return try record(grant, over: known)
    }
  }

  /// Whether a receipt that waited has a purchase that counts for somebody else, whose receipt came first and waits too.
  ///
  /// Several receipts are settled at once, and which of two answers comes first is chance.
  private func comesAfterAnother() throws -> Bool {
    guard let id = entry.pendingID else { return false }
    return try entry.contestedKeys.contains { key in
      guard let grant = try tables.grant(on: key), !grant.isOver else { return false }
      return grant.owner != entry.user && grant.pending < id
    }
  }

  private func rule(over known: [SubscriptionKey: LedgerTables.StoredSubscription]) -> OwnershipRuling {
    OwnershipRuling.decide(
      user: entry.user,
      keys: Set(prepared.subscriptions.map(\.evidence.key)),
      contested: entry.contestedKeys,
      owners: known.mapValues(\.owner),
      policy: entry.ownership,
      namingOthers: entry.keysNamingOthers,
      isInactive: { key in
        guard let stored = known[key] else { return false }
        return entry.judge(stored.owner, [stored.evidence], entry.judgedAt).isInactive
      })
  }

  private func record(
    _ grant: OwnershipRuling.Grant, over known: [SubscriptionKey: LedgerTables.StoredSubscription]
  ) throws -> RecordOutcome {
    let own = prepared.subscriptions.filter { grant.belongsToUser($0.evidence.key) }
    let news = own.compactMap { newest(of: $0, and: known[$0.evidence.key]) }
    let evidence = try evidence(of: grant, with: news, over: known)
    let moment = VerdictWriter.moment(of: evidence, notBefore: entry.judgedAt)
    let verdict = entry.judge(entry.user, evidence, moment)
    let before = try tables.profile(of: entry.user)
    guard entry.admits(before?.entitlement, verdict) else { return .heldBack }
    let hasNewEvidence = news.contains { changesKnowledge($0, over: known[$0.evidence.key]) }
    let gains = !grant.claimed.isEmpty || !grant.moved.isEmpty

    var recorded = Recorded(
      entitlement: verdict, changed: false, losers: [], keptByOthers: grant.leftWithOthers.count, write: .waiting)
    if let before, !gains, !hasNewEvidence,
      try VerdictWriter.isSame(verdict, before.entitlement, by: \.apartFromMoment)
    {
      recorded.entitlement = before.entitlement
    } else {
      (recorded.entitlement, recorded.changed) = try writer.save(verdict, of: entry.user, after: before)
    }
    recorded.write = try tables.updateState(of: entry.user)

    try save(news, over: known)
    try move(grant.moved.keys.filter { key in !news.contains { $0.evidence.key == key } }, of: known)
    for key in own.map(\.evidence.key) where grant.claimed.contains(key) || grant.moved[key] != nil {
      try tables.log(
        change: key, from: grant.moved[key], to: entry.user, recordedAt: prepared.recordedAt,
        requestID: entry.requestID, note: entry.note)
    }
    try schedule(own, at: moment)
    let owners = Set(grant.moved.values)
    let disproven = try endGrants(on: own).subtracting(owners)
    for loser in owners.sorted(by: { $0.rawValue < $1.rawValue }) {
      try writer.judgeAnew(loser, by: entry.judge, at: entry.judgedAt)
    }
    for user in disproven.sorted(by: { $0.rawValue < $1.rawValue }) {
      try writer.judgeIfChanged(user, by: entry.judge, at: entry.judgedAt)
    }
    recorded.losers = owners.union(disproven).sorted { $0.rawValue < $1.rawValue }
    return .recorded(recorded)
  }

  /// Writes down when each subscription of the answer has to be asked about again, as the ledger knows it now.
  private func schedule(_ own: [PreparedEntry.Subscription], at moment: Date) throws {
    for key in own.map(\.evidence.key) {
      guard let stored = try tables.subscription(key) else { continue }
      try tables.schedule(key, at: entry.nextCheck(stored.evidence, moment), asOf: moment)
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
      if grant.owner != entry.user { users.insert(grant.owner) }
    }
    return users
  }

  private func isOlder(_ answer: PreparedEntry.Subscription, than grant: SubscriptionEvidence) throws -> Bool {
    answer.evidenceAt < (try StoredForm.milliseconds(grant.evidenceTime))
  }

  /// The evidence of the answer, if it takes the place of the stored.
  ///
  /// Where both are of the same time, the one that was asked for later stands, whichever arrived last: answers about
  /// iOS 6-style receipts carry no clock of Apple's, so a refund has the evidence time of the purchase.
  private func newest(
    of new: PreparedEntry.Subscription, and stored: LedgerTables.StoredSubscription?
  ) -> PreparedEntry.Subscription? {
    guard let stored else { return new }
    guard new.evidenceAt >= stored.evidenceAt else { return nil }
    return new.evidenceAt == stored.evidenceAt && new.judgedAt < stored.judgedAt ? nil : new
  }

  private func changesKnowledge(
    _ new: PreparedEntry.Subscription, over stored: LedgerTables.StoredSubscription?
  ) -> Bool {
    guard let stored else { return true }
    return new.evidenceAt != stored.evidenceAt || new.rows != stored.rows
      || new.evidence.source != stored.evidence.source || new.evidence.isAccountGone != stored.evidence.isAccountGone
  }

  /// Everything known of the user after this answer, in the order in which the ledger will hand it out.
  private func evidence(
    of grant: OwnershipRuling.Grant, with news: [PreparedEntry.Subscription],
    over known: [SubscriptionKey: LedgerTables.StoredSubscription]
  ) throws -> [SubscriptionEvidence] {
    var all: [SubscriptionKey: SubscriptionEvidence] = [:]
    for stored in try tables.subscriptions(of: entry.user) { all[stored.evidence.key] = stored.evidence }
    for key in grant.moved.keys { all[key] = known[key]?.evidence }
    for new in news { all[new.evidence.key] = new.evidence }
    let told = Dictionary(uniqueKeysWithValues: prepared.subscriptions.map { ($0.evidence.key, $0) })
    return all.values.sorted { $0.key.precedes($1.key) }
      + (try tables.provisionalEvidence(of: entry.user).filter { grant in
        try told[grant.key].map { try isOlder($0, than: grant) } ?? true
      })
  }

  /// Writes what differs from the stored: a post that repeats what is known writes nothing and costs no fsync.
  private func save(
    _ news: [PreparedEntry.Subscription], over known: [SubscriptionKey: LedgerTables.StoredSubscription]
  ) throws {
    let kept = try tables.receiptID(of: entry.receipt, digest: prepared.digest)
    let differing = news.filter { new in
      guard let stored = known[new.evidence.key] else { return true }
      return changesKnowledge(new, over: stored) || new.judgedAt != stored.judgedAt || stored.receiptID != kept
        || stored.owner != entry.user
    }
    guard !differing.isEmpty else { return }
    let receiptID = try tables.save(entry.receipt, digest: prepared.digest, seenAt: prepared.recordedAt)
    for new in differing {
      try tables.save(
        .init(
          evidence: new.evidence, owner: entry.user, receiptID: receiptID, evidenceAt: new.evidenceAt,
          judgedAt: new.judgedAt, rows: new.rows))
    }
    let replaced = Set(differing.compactMap { known[$0.evidence.key]?.receiptID }).subtracting([receiptID])
    for id in replaced.sorted() { try tables.pruneReceipt(id) }
  }

  /// Hands over subscriptions of which more is known already than the answer tells.
  private func move(
    _ keys: [SubscriptionKey], of known: [SubscriptionKey: LedgerTables.StoredSubscription]
  ) throws {
    for key in keys {
      guard var stored = known[key] else { continue }
      stored.owner = entry.user
      try tables.save(stored)
    }
  }
}

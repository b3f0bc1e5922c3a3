package import Access
package import Entitlements
package import struct FoundationEssentials.Date

/// Checks the rules of a meter and counts, in one durable step: of a thousand at once as many are let through as the rules allow.
/// Of refusals the first of a window makes an event, and no other writes anything.
package struct Consume: LedgerOperation {
  package enum Outcome: Sendable {
    /// Counted now, or under the same key before: the answer of then.
    case consumed(FeatureAnswer)
    /// Nothing was counted.
    case refused(FeatureAccess)
    /// The key stands for another request.
    case mismatch
  }

  package var user: UserID
  package var feature: Feature
  /// The tier of the present verdict on the user.
  package var tier: Tier
  /// At least 1.
  package var amount: Int
  /// Our own clock, in whole milliseconds, read once.
  package var now: Date
  package var zone: ZoneChoice
  package var idempotencyKey: String?
  /// The request that the key stands for: another text under the same key is a mismatch.
  package var request: String

  package init(
    user: UserID, feature: Feature, tier: Tier, amount: Int, now: Date, zone: ZoneChoice, idempotencyKey: String?,
    request: String
  ) {
    self.user = user
    self.feature = feature
    self.tier = tier
    self.amount = amount
    self.now = now.inWholeMilliseconds
    self.zone = zone
    self.idempotencyKey = idempotencyKey
    self.request = request
  }

  /// The time for which a key stands for its request.
  package static let keyLifetime = Duration.seconds(7 * 86_400)
  /// The least time between two cleanups of a user's feature. Each costs two statements; keys and consumptions that are over
  /// count for nothing until then.
  static let cleanupInterval = Duration.seconds(3_600)
  /// The least time for which consumptions are kept, however short today's rules look back: a catalog may get longer ones.
  static let leastMemory = Duration.seconds(62 * 86_400)

  package func run(_ tables: LedgerTables) throws -> Outcome {
    var consumption = self
    consumption.user = UserID(try tables.accounts.key(of: user))
    return try consumption.consume(tables)
  }

  private func consume(_ tables: LedgerTables) throws -> Outcome {
    if let idempotencyKey,
      let former = try tables.usage.consumption(of: feature.name, of: user, under: idempotencyKey)
    {
      if now < former.consumedAt.advanced(by: Self.keyLifetime) {
        return former.request == request ? .consumed(former.answer) : .mismatch
      }
      try tables.usage.forgetKeys(
        of: feature.name, of: user, in: former.consumedAt..<former.consumedAt.advanced(by: .milliseconds(1)))
    }
    let zone = try zone.resolved(for: user, at: now, tables)
    let attempt = Attempt(at: now, in: zone.zone, amount: amount)
    let former = try tables.usage.total(of: feature.name, of: user)
    let usage = try tables.usage.usage(
      of: feature.name, of: user, beside: former, feature.questions(for: tier, attempt))
    let access = feature.access(for: tier, attempt, usage: usage)
    guard access.isAllowed else {
      try appendRefusal(access, tables)
      return .refused(access)
    }

    let answer = FeatureAnswer(tier: tier, access: feature.access(for: tier, after: attempt, usage: usage))
    if former == nil { try tables.progress.record(UserProgress(seen: now.utcDay), of: user) }
    var total = former ?? FeatureTotal()
    let isKeyed = idempotencyKey != nil
    try tables.usage.add(
      amount, of: feature.name, of: user, at: now, number: total.nextNumber, key: idempotencyKey,
      request: isKeyed ? request : nil, answer: isKeyed ? answer : nil)
    total.total += amount
    total.nextNumber += 1
    try forget(&total, tables)
    try tables.usage.save(total, of: feature.name, of: user)
    if zone.isNew { try tables.usage.keep(zone.zone, of: user, changedAt: now) }
    tables.changes.invalidate(usageOf: user)
    return .consumed(answer)
  }

  /// Appends the event of a reached limit, once in the window of the rule that refuses. Another refusal writes nothing.
  private func appendRefusal(_ access: FeatureAccess, _ tables: LedgerTables) throws {
    let longest = now.advanced(by: RefusalEvents.longestPause)
    let until = max(now.advanced(by: RefusalEvents.leastPause), min(access.resetsAt ?? longest, longest))
    guard try tables.changeEvents.admitsRefusalEvent(of: "limit \(feature.name)", to: user, at: now, until: until)
    else { return }
    var detail = ChangeEvent.Detail()
    (detail.feature, detail.tier, detail.current) = (feature.name.rawValue, tier, access.current)
    (detail.limit, detail.resetsAt) = (access.limit, access.resetsAt)
    try tables.changeEvents.append(.limitReached, of: user, at: now, detail)
  }

  /// Forgets keys and consumptions that are over, once an hour. Each key is visited once.
  private func forget(_ total: inout FeatureTotal, _ tables: LedgerTables) throws {
    let keysUntil = now.advanced(by: .zero - Self.keyLifetime)
    guard total.keysUntil.advanced(by: Self.cleanupInterval) <= keysUntil else { return }
    try tables.usage.forgetKeys(of: feature.name, of: user, in: total.keysUntil..<keysUntil)
    total.keysUntil = keysUntil
    let memory = max(feature.horizon, Self.leastMemory)
    try tables.usage.forgetConsumptions(
      of: feature.name, of: user, before: now.advanced(by: .zero - memory),
      keepsReturned: feature.countsForEver)
  }
}

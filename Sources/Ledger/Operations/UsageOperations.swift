internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date
internal import struct FoundationEssentials.TimeZone

/// Checks and counts a consumption inside an open transaction, so that no two count on the same remainder.
struct ConsumeOperation {
  let consuming: Consuming
  let tables: LedgerTables

  func run() throws -> ConsumingOutcome {
    let (user, feature, now) = (consuming.user, consuming.feature, consuming.now)
    if let key = consuming.idempotencyKey,
      let former = try tables.consumption(of: feature.name, of: user, under: key)
    {
      if now < former.consumedAt.advanced(by: Consuming.keyLifetime) {
        return former.request == consuming.request ? .consumed(answer: former.answer) : .mismatch
      }
      try tables.forgetKeys(
        of: feature.name, of: user, in: former.consumedAt..<former.consumedAt.advanced(by: .milliseconds(1)))
    }
    let zone = try consuming.zone.resolved(for: user, at: now, tables)
    let attempt = Attempt(at: now, in: zone.zone, amount: consuming.amount)
    let usage = try tables.usage(of: feature.name, of: user, feature.questions(for: consuming.tier, attempt))
    let access = feature.access(for: consuming.tier, attempt, usage: usage)
    guard access.isAllowed else {
      try appendRefusal(access)
      return .refused(access)
    }

    let answer = consuming.answer(feature.access(for: consuming.tier, after: attempt, usage: usage))
    let former = try tables.total(of: feature.name, of: user)
    if former == nil { try tables.note(UserProgress(seen: now.utcDay), of: user) }
    var total = former ?? FeatureTotal()
    let isKeyed = consuming.idempotencyKey != nil
    try tables.add(
      consuming.amount, of: feature.name, of: user, at: now, number: total.nextNumber, key: consuming.idempotencyKey,
      request: isKeyed ? consuming.request : nil, answer: isKeyed ? answer : nil)
    total.total += consuming.amount
    total.nextNumber += 1
    try forget(&total)
    try tables.save(total, of: feature.name, of: user)
    if zone.isNew { try tables.keep(zone.zone, of: user, changedAt: now) }
    tables.changes.note(usageOf: user)
    return .consumed(answer: answer)
  }

  /// Appends the event of a reached limit, once in the window of the rule that refuses. Another refusal writes nothing.
  private func appendRefusal(_ access: FeatureAccess) throws {
    let (user, feature, now) = (consuming.user, consuming.feature, consuming.now)
    let longest = now.advanced(by: RefusalEvents.longestPause)
    let until = max(now.advanced(by: RefusalEvents.leastPause), min(access.resetsAt ?? longest, longest))
    guard try tables.admitsRefusalEvent(of: "limit \(feature.name)", to: user, at: now, until: until) else { return }
    var detail = ChangeEvent.Detail()
    (detail.feature, detail.tier, detail.current) = (feature.name.rawValue, consuming.tier, access.current)
    (detail.limit, detail.resetsAt) = (access.limit, access.resetsAt)
    try tables.appendChangeEvent(.limitReached, of: user, at: now, detail)
  }

  /// Forgets keys and consumptions that are over. Each is visited once.
  private func forget(_ total: inout FeatureTotal) throws {
    let (user, feature, now) = (consuming.user, consuming.feature, consuming.now)
    let keysUntil = now.advanced(by: .zero - Consuming.keyLifetime)
    if total.keysUntil < keysUntil {
      try tables.forgetKeys(of: feature.name, of: user, in: total.keysUntil..<keysUntil)
      total.keysUntil = keysUntil
    }
    let memory = max(feature.horizon, Consuming.leastMemory)
    try tables.forgetConsumptions(
      of: feature.name, of: user, before: now.advanced(by: .zero - memory),
      keepsReturned: feature.countsForEver)
  }
}

/// Gives back what was consumed under a key inside an open transaction.
struct GiveBackOperation {
  let givingBack: GivingBack
  let tables: LedgerTables

  func run() throws -> GivingBackOutcome {
    let (user, feature, now) = (givingBack.user, givingBack.feature, givingBack.now)
    guard
      let consumption = try tables.consumption(of: feature.name, of: user, under: givingBack.idempotencyKey),
      now < consumption.consumedAt.advanced(by: Consuming.keyLifetime),
      var total = try tables.total(of: feature.name, of: user)
    else { return .unknown }
    let zone = try givingBack.zone.resolved(for: user, at: now, tables).zone
    let attempt = Attempt(at: now, in: zone)
    if givingBack.isByUser {
      guard now < consumption.consumedAt.advanced(by: GivingBack.patience) else { return .tooLate }
      for limit in feature.returnLimits(for: givingBack.tier, attempt) {
        let returns = try tables.returns(of: feature.name, of: user, in: limit.range)
        let used = limit.countsTimes ? returns.times + 1 : returns.amount + consumption.amount
        guard used <= limit.maximum else { return .tooOften }
      }
    }
    try tables.takeBack(consumption, of: feature.name, of: user)
    total.total = max(0, total.total - consumption.amount)
    try tables.save(total, of: feature.name, of: user)
    tables.changes.note(usageOf: user)
    let usage = try tables.usage(of: feature.name, of: user, feature.questions(for: givingBack.tier, attempt))
    return .returned(feature.access(for: givingBack.tier, attempt, usage: usage))
  }
}

extension ZoneChoice {
  /// The zone that counts for a user now, and whether it has to be kept.
  func resolved(for user: UserID, at now: Date, _ tables: LedgerTables) throws -> (zone: TimeZone, isNew: Bool) {
    guard let kept = try tables.timeZone(of: user) else {
      return named.map { ($0, true) } ?? (usual, false)
    }
    guard let named, named.ianaName != kept.zone.ianaName,
      isTrusted || now >= kept.changedAt.advanced(by: Self.patience)
    else { return (kept.zone, false) }
    return (named, true)
  }
}

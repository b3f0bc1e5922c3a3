import Entitlements
import FoundationEssentials

/// The decision table once more, for one subscription, written as naively as it reads and sharing nothing with the
/// product but the input types: whole milliseconds, full scans, no sorting, no early returns out of shared helpers.
struct ReferenceModel {
  struct Verdict: Equatable, CustomStringConvertible {
    var status: String
    var tier: String
    var reason: String
    var accessUntil: Int64?
    var isStale = false
    /// Whether access is over by time alone.
    var isByTime = false
    var lines: Set<Line> = []
    var isEntitled: Bool { accessUntil != nil || reason == "lifetime" }
    var description: String {
      "\(status) \(tier) \(reason) \(accessUntil ?? -1)\(isStale ? " stale" : "")"
    }
    static func == (one: Verdict, other: Verdict) -> Bool { one.description == other.description }
  }

  /// The lines of the contract that a reason does not name.
  enum Line: CaseIterable {
    /// Apple's status, told after the end.
    case active, expired, billingRetry, billingGracePeriod, revoked
    case revokedWhileRunning
    case dueByFlag, dueByStatus, longDue
    case undatedGrace, rememberedGrace
    /// No access in billing retry: a grace period was granted.
    case noRetryAfterGrace
    case graceToldOver
    case voluntaryDespiteRetry, voluntaryDespiteStatus
    case seasonAfterSeason, refundedSeason, restoredSeason
    case refundedUpgrade
  }

  static let tiers: [ProductID: String] = [
    pro: "pro", proYearly: "pro", premium: "premium", forever: "premium", season: "pro",
  ]
  private static let dayLength: Int64 = 86_400_000

  let rows: [Purchase]
  let renewal: RenewalInfo?
  var terms: RenewalTerms?
  var grace: KnownGrace?
  let isGone: Bool
  let answered: Int64
  let retryAccess: Int64
  let hold: Int64
  var lateRenewal: Int64 = 0
  private var seasonEnds: [OriginalTransactionID: Date] = [:]

  init(
    rows: [Purchase], renewal: RenewalInfo?, terms: RenewalTerms? = nil, grace: KnownGrace? = nil, isGone: Bool,
    answered: Int64, retryAccess: Int64, hold: Int64, lateRenewal: Int64 = 0
  ) {
    self.rows = rows
    self.renewal = renewal
    self.terms = terms
    self.grace = grace
    self.isGone = isGone
    self.answered = answered
    self.retryAccess = retryAccess
    self.hold = hold
    self.lateRenewal = lateRenewal
    placeSeasons()
  }

  private static func ms(_ date: Date?) -> Int64? { date?.millisecondsSince1970 }

  private static let calendar: Calendar = {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = .gmt
    return calendar
  }()

  /// When a season ends that began then: a month by the calendar.
  private static func monthAfter(_ start: Date) -> Date? { calendar.date(byAdding: .month, value: 1, to: start) }

  /// The rows of a purchase that Apple names no end of: each restore makes another one under its original ID. Of any other
  /// purchase the row alone.
  func copies(of row: Purchase) -> [Purchase] {
    guard row.expiresDate == nil, row.productID == forever || row.productID == season else { return [row] }
    let copies = rows.filter {
      $0.expiresDate == nil && $0.productID == row.productID && $0.originalTransactionID == row.originalTransactionID
    }
    return row.productID == season && copies.allSatisfy { $0.purchaseDate == nil } ? [row] : copies
  }

  /// The rows without those that another copy speaks for: the one that was reported last. Of one moment a refund counts.
  var counted: [Purchase] {
    rows.filter { row in
      copies(of: row).allSatisfy { other in
        func place(_ copy: Purchase) -> [Int64] {
          [
            -(Self.ms(copy.reportedAt) ?? 0), Self.ms(copy.cancellationDate) ?? .max, copy.isUpgraded ? 0 : 1,
            Self.ms(copy.purchaseDate).map { -$0 } ?? .max,
          ]
        }
        let (own, others) = (place(row), place(other))
        return own == others
          ? row.transactionID.rawValue <= other.transactionID.rawValue : own.lexicographicallyPrecedes(others)
      }
    }
  }

  private func isTakenBack(_ row: Purchase) -> Bool {
    let copies = copies(of: row)
    let last = copies.compactMap { Self.ms($0.reportedAt) }.max()
    return copies.contains { $0.cancellationDate != nil && Self.ms($0.reportedAt) == last }
  }

  private func firstDate(_ row: Purchase) -> Date? { copies(of: row).compactMap(\.purchaseDate).min() }

  /// When each season without an end of its own is over: after those that were bought before it. One that was taken back
  /// takes no time.
  private mutating func placeSeasons() {
    var seasons: [(row: Purchase, bought: Date)] = []
    for row in rows where row.productID == season && row.expiresDate == nil && copies(of: row).first == row {
      if let bought = firstDate(row) { seasons.append((row, bought)) }
    }
    seasons.sort {
      ($0.bought, $0.row.originalTransactionID.rawValue) < ($1.bought, $1.row.originalTransactionID.rawValue)
    }
    var last = Date.distantPast
    for (row, bought) in seasons {
      let end = Self.monthAfter(isTakenBack(row) ? bought : max(bought, last))
      seasonEnds[row.originalTransactionID] = end
      if let end, !isTakenBack(row) { last = end }
    }
  }

  private func seasonEnd(_ row: Purchase) -> Date? { seasonEnds[row.originalTransactionID] }

  /// When a row ended; `nil` is never.
  private func end(_ row: Purchase) -> Int64? {
    let begin = Self.ms(row.purchaseDate)
    let cancelled = Self.ms(row.cancellationDate)
    if row.productID == forever { return cancelled }
    let named = row.expiresDate ?? (row.productID == season ? seasonEnd(row) : nil)
    let expires = Self.ms(named) ?? Self.ms(.distantPast) ?? 0
    guard let cancelled else { return expires }
    return min(expires, max(cancelled, begin ?? cancelled))
  }

  /// Whether `a` ended after `b`; of two that ended together, the later purchase, the higher tier, the greater ID.
  private func isLater(_ a: Purchase, _ b: Purchase) -> Bool {
    func place(_ row: Purchase) -> [Int64] {
      [
        end(row) ?? .max, Self.ms(row.purchaseDate) ?? .min, Self.tiers[row.productID] == "premium" ? 1 : 0,
      ]
    }
    let (x, y) = (place(a), place(b))
    return x == y ? a.transactionID.rawValue > b.transactionID.rawValue : y.lexicographicallyPrecedes(x)
  }

  private func latest(_ rows: [Purchase]) -> Purchase? {
    rows.first { row in rows.allSatisfy { $0 == row || isLater(row, $0) } }
  }

  /// Whether an upgrade took a row's place: Apple says so, or another product of the subscription was bought while the row
  /// ran, and was taken back.
  func isReplaced(_ row: Purchase) -> Bool {
    if row.isUpgraded { return true }
    return rows.contains { later in
      guard later.cancellationDate != nil, later.expiresDate != nil, Self.runs(row, as: later) else { return false }
      // Of what ran then: what had been replaced before no longer did.
      let others = rows.filter { Self.runs($0, as: later) && $0.productID != later.productID }
      return others.contains { other in
        !other.isUpgraded
          && !rows.contains { earlier in
            guard let start = earlier.purchaseDate, let bought = later.purchaseDate, start < bought else {
              return false
            }
            return takes(earlier, other)
          }
      }
        && !rows.contains { earlier in
          guard let start = earlier.purchaseDate, let bought = later.purchaseDate, start < bought else { return false }
          return takes(earlier, row)
        }
    }
  }

  /// Whether a purchase that was taken back took another one's place.
  private func takes(_ later: Purchase, _ row: Purchase) -> Bool {
    guard later.cancellationDate != nil, later.expiresDate != nil, Self.runs(row, as: later) else { return false }
    let before = ReferenceModel(
      rows: rows.filter { ($0.purchaseDate ?? .distantFuture) <= (later.purchaseDate ?? .distantPast) }, renewal: nil,
      isGone: false, answered: 0, retryAccess: 0, hold: 0)
    return before.isReplaced(row)
  }

  /// Whether a row ran when another one of its subscription was bought.
  private static func runs(_ row: Purchase, as later: Purchase) -> Bool {
    guard let begin = ms(row.purchaseDate), let end = ms(row.expiresDate), let start = ms(later.purchaseDate),
      later.originalTransactionID == row.originalTransactionID, later.transactionID != row.transactionID
    else { return false }
    return begin < start && start < min(end, max(ms(row.cancellationDate) ?? .max, begin))
  }

  private func isLive(_ row: Purchase) -> Bool {
    guard Self.tiers[row.productID] != nil, !isReplaced(row), row.cancellationDate == nil else { return false }
    return row.productID == forever || row.expiresDate != nil || row.productID == season && seasonEnd(row) != nil
  }

  /// Whether the customer wants no other commitment after the one of a row.
  private func isStopped(_ row: Purchase) -> Bool {
    guard terms?.commitmentRenews == false else { return false }
    let begin = Self.ms(row.purchaseDate ?? .distantPast) ?? .min
    if let end = Self.ms(terms?.commitmentEndsAt) { return begin < end }
    return row.sale?.terms?.commitmentEndsAt != nil
  }

  private func table(at now: Int64) -> Verdict {
    let known = counted.filter { Self.tiers[$0.productID] != nil }
    if known.isEmpty {
      return Verdict(status: "active", tier: "free", reason: rows.isEmpty ? "no_purchases" : "no_known_product")
    }
    if isGone { return Verdict(status: "expired", tier: "free", reason: "account_gone") }
    let live = known.filter(isLive)
    let last = latest(live)
    let tier = last.flatMap { Self.tiers[$0.productID] } ?? "free"
    if live.contains(where: { $0.productID == forever }) {
      return Verdict(status: "active", tier: "premium", reason: "lifetime")
    }
    func takenBack(_ row: Purchase) -> Verdict {
      Verdict(status: "expired", tier: "free", reason: row.ownership == .familyShared ? "revoked" : "refunded")
    }
    let isLaterTakenBack = counted.contains { row in
      row.cancellationDate != nil && row.originalTransactionID == last?.originalTransactionID
        && (last?.purchaseDate ?? .distantPast) < (row.purchaseDate ?? .distantPast)
    }
    if let last, last.productID != season, renewal?.status == .revoked, !isLaterTakenBack {
      var verdict = takenBack(last)
      verdict.lines = [end(last).map { answered < $0 } ?? false ? .revokedWhileRunning : .revoked]
      return verdict
    }
    if let last, let end = end(last), now < end {
      if last.productID == season {
        return Verdict(
          status: "active", tier: tier, reason: "non_renewing", accessUntil: end, lines: linesOfSeason(last))
      }
      if renewal?.autoRenews == false {
        return Verdict(status: "cancelled", tier: tier, reason: "renewal_off", accessUntil: end)
      }
      return Verdict(
        status: "active", tier: tier, reason: isStopped(last) ? "renewal_off" : "renewing", accessUntil: end)
    }
    if let newest = latest(known.filter { !isReplaced($0) }), newest.cancellationDate != nil {
      var verdict = takenBack(newest)
      let isUpgrade = known.contains { row in
        row.cancellationDate == nil && isReplaced(row) && row.originalTransactionID == newest.originalTransactionID
          && Self.runs(row, as: newest) && Self.ms(row.expiresDate).map { now < $0 } ?? false
      }
      if isUpgrade { verdict.lines.insert(.refundedUpgrade) }
      return verdict
    }
    let intents = [1: "voluntary", 2: "billing_error", 3: "price_increase", 4: "product_unavailable"]
    let intent = renewal?.expirationIntent
    var over = Verdict(
      status: "expired", tier: "free", reason: intent.flatMap { intents[$0] } ?? "unknown", isByTime: true)
    guard let last, let end = end(last) else { return over }
    if last.productID == season { return Verdict(status: "expired", tier: "free", reason: "period_over") }

    // Apple's word on the status counts only after the end.
    let status = answered >= end ? renewal?.status : nil
    if status == .revoked { return takenBack(last) }
    var lines: Set<Line> = []
    if let status {
      lines.insert([.active: .active, .expired: .expired, .billingRetry: .billingRetry][status] ?? .billingGracePeriod)
    }
    let named = [renewal?.gracePeriodExpiresDate].compactMap { Self.ms($0) }.first { $0 > end }
    let isOfEarlierPeriod = Self.ms(grace?.after).map { $0 < end } ?? false
    let remembered = isOfEarlierPeriod ? nil : Self.ms(grace?.until)
    let dated = [named, remembered].compactMap(\.self).filter { $0 > end }.max()
    let saysSo = answered >= end && renewal?.status == .billingGracePeriod && renewal?.gracePeriodExpiresDate == nil
    let saysOver = answered >= end && renewal?.isGraceOver == true
    let running = [Self.ms(grace?.runningAt), saysSo ? answered : nil].compactMap(\.self).filter { $0 >= end }.max()
    let overAt = [Self.ms(grace?.overAt), saysOver ? answered : nil].compactMap(\.self).filter { $0 >= end }.max()
    let hadGrace = dated != nil || running != nil || overAt != nil
    if hadGrace, intent != 1 { over.reason = "billing_error" }
    let isRetried = status == .billingRetry || status == nil && renewal?.isInBillingRetry == true
    if intent == 1, renewal?.isInBillingRetry == true { lines.insert(.voluntaryDespiteRetry) }
    if intent == 1, status == .active || status == .billingRetry { lines.insert(.voluntaryDespiteStatus) }
    if hadGrace, isRetried, intent != 1 { lines.insert(.noRetryAfterGrace) }
    if saysOver { lines.insert(.graceToldOver) }
    over.lines = lines
    guard renewal != nil else { return over }

    var until = named
    if until == nil, intent != 1, status != .expired, status != .billingRetry {
      until = dated
      if let limit = until, let overAt { until = overAt < limit ? overAt : limit }
      if let running, overAt ?? .min < running {
        let undated = min(running + Self.dayLength, end + 28 * Self.dayLength)
        until = until.map { $0 > undated ? $0 : undated } ?? undated
      }
    }
    if let until, now < until {
      if until != named { lines.insert(until == remembered ? .rememberedGrace : .undatedGrace) }
      return Verdict(status: "grace_period", tier: tier, reason: "billing_grace", accessUntil: until, lines: lines)
    }
    if hadGrace || intent == 1 { return over }
    if isRetried {
      guard now < end + retryAccess else { return over }
      return Verdict(status: "grace_period", tier: tier, reason: "billing_retry", accessUntil: end + retryAccess)
    }
    let isDue = status == .active || status == nil && answered >= end && renewal?.autoRenews == true && intent == nil
    if isDue, now < end + lateRenewal {
      lines.insert(status == nil ? .dueByFlag : .dueByStatus)
      if end + Self.dayLength <= now { lines.insert(.longDue) }
      return Verdict(
        status: "active", tier: tier, reason: "renewal_due", accessUntil: end + lateRenewal, isStale: true, lines: lines
      )
    }
    return over
  }

  private func linesOfSeason(_ row: Purchase) -> Set<Line> {
    var lines: Set<Line> = []
    if copies(of: row).count > 1 { lines.insert(.restoredSeason) }
    let others = rows.filter { $0.productID == season && $0.originalTransactionID != row.originalTransactionID }
    if others.contains(where: isTakenBack) { lines.insert(.refundedSeason) }
    if let first = firstDate(row), let end = seasonEnd(row), row.expiresDate == nil,
      Self.monthAfter(first).map({ $0 < end }) ?? false
    {
      lines.insert(.seasonAfterSeason)
    }
    return lines
  }

  /// The verdict, with the hold: looks for the last millisecond of access that the answer foretold.
  func verdict(at now: Int64) -> Verdict {
    let now = max(now, answered)
    let verdict = table(at: now)
    guard verdict.isByTime, table(at: answered).isEntitled else { return verdict }
    // Access ends at one of these or never.
    var ends = rows.compactMap(end)
    ends += ends.map { $0 + retryAccess } + ends.map { $0 + lateRenewal } + ends.map { $0 + 28 * Self.dayLength }
    ends += [
      Self.ms(renewal?.gracePeriodExpiresDate), Self.ms(grace?.until), Self.ms(grace?.overAt), answered,
      answered + Self.dayLength,
      Self.ms(grace?.runningAt).map { $0 + Self.dayLength },
    ].compactMap { $0 }
    let foretold = ends.filter { $0 > answered && $0 <= now && table(at: $0 - 1).isEntitled }.max()
    guard let foretold else { return verdict }
    var held = table(at: foretold - 1)
    let paid = held.reason == "renewal_due" ? foretold - lateRenewal : foretold
    if now < max(foretold, paid + hold) {
      held.isStale = true
      return held
    }
    return Verdict(status: "expired", tier: "free", reason: "unproven", isStale: true)
  }

  /// Who speaks for several original transaction IDs of one group, each in a model of its own and all told of by an answer
  /// of this moment. The row that ends last of all decides; beside it count those that give access, and ended after it was
  /// bought, if they ended: of all these the highest tier, then the one that ends last, then the greatest ID. `nil` where
  /// none runs.
  static func runningSpeaker(of several: [ReferenceModel], at now: Int64) -> Purchase? {
    let last = several.compactMap { one in one.latest(one.counted.filter(one.isLive)).map { (model: one, row: $0) } }
    guard
      let deciding = last.first(where: { one in
        last.allSatisfy { $0.row == one.row || one.model.isLater(one.row, $0.row) }
      }), deciding.model.end(deciding.row).map({ now < $0 }) ?? true
    else { return nil }
    let known = min(ms(deciding.row.purchaseDate) ?? .min, now)
    let places = last.compactMap { one -> (row: Purchase, place: [Int64])? in
      let (verdict, end) = (one.model.verdict(at: now), one.model.end(one.row))
      guard verdict.isEntitled, end.map({ known < $0 }) ?? true else { return nil }
      let until = verdict.reason == "renewal_due" ? end : verdict.accessUntil
      return (one.row, [tiers[one.row.productID] == "premium" ? 1 : 0, until ?? .max, verdict.isStale ? 0 : 1])
    }
    return places.max { a, b in
      a.place == b.place
        ? a.row.transactionID.rawValue < b.row.transactionID.rawValue : a.place.lexicographicallyPrecedes(b.place)
    }?.row
  }
}

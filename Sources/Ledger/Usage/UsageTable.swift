internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

extension FeatureName: StoredWord {}

/// The sum of a user's consumption of a feature, and what is kept beside it.
struct FeatureTotal {
  var total = 0
  var nextNumber: Int64 = 0
  var keysUntil = Date(millisecondsSince1970: 0)
}

/// A consumption that was found by its key.
struct KeyedConsumption {
  var consumedAt: Date
  var number: Int64
  var amount: Int
  var request: String
  var answer: FeatureAnswer
}

/// The stored form of a `FeatureAnswer`.
private struct StoredAnswer: Codable {
  var tier: String
  var isAllowed: Bool
  var isMoreAllowed: Bool
  var limit: Int?
  var current: Int?
  var remaining: Int?
  var resetsAt: Date?
  var upgradeTo: String?

  init(_ answer: FeatureAnswer) {
    let access = answer.access
    (tier, isAllowed, isMoreAllowed) = (answer.tier.rawValue, access.isAllowed, access.isMoreAllowed)
    (limit, current) = (access.limit, access.current)
    (remaining, resetsAt, upgradeTo) = (access.remaining, access.resetsAt, access.upgradeTo?.rawValue)
  }

  var answer: FeatureAnswer {
    FeatureAnswer(
      tier: Tier(tier),
      access: FeatureAccess(
        isAllowed: isAllowed, isMoreAllowed: isMoreAllowed, limit: limit, current: current, remaining: remaining,
        resetsAt: resetsAt, upgradeTo: upgradeTo.map { Tier($0) }))
  }
}

/// Consumptions of features.
struct UsageTable: LedgerTable {
  let tables: LedgerTables

  func total(of feature: FeatureName, of user: UserID) throws -> FeatureTotal? {
    try first(
      "SELECT total, next_number, keys_until FROM feature_total WHERE user_id = ? AND feature = ?", user.key, feature,
      into: FeatureTotal.init(total:nextNumber:keysUntil:))
  }

  private static let upsertTotal = SQL.upsert(
    "feature_total", key: "user_id, feature", "total, next_number, keys_until")

  func save(_ total: FeatureTotal, of feature: FeatureName, of user: UserID) throws {
    try execute(Self.upsertTotal, user.key, feature, total.total, total.nextNumber, total.keysUntil)
  }

  /// A user's consumption of a feature.
  func usage(of feature: FeatureName, of user: UserID, _ questions: Set<UsageQuestion>) throws -> Usage {
    try usage(of: feature, of: user, beside: total(of: feature, of: user), questions)
  }

  func usage(
    of feature: FeatureName, of user: UserID, beside total: FeatureTotal?, _ questions: Set<UsageQuestion>
  ) throws -> Usage {
    guard let total else {
      // Nothing was ever consumed.
      return Usage(total: 0, questions) { _ in UsageAnswer() }
    }
    return try Usage(total: total.total, questions) { question in
      try answer(question, about: feature, of: user)
    }
  }

  /// The sum takes two rows of the range, however many it has: the first that counts, and the last.
  private func answer(_ question: UsageQuestion, about feature: FeatureName, of user: UserID) throws -> UsageAnswer {
    let (start, end) = (question.range.lowerBound, question.range.upperBound)
    let counted = try first(
      """
      SELECT first.consumed_at, first.running_total - first.amount, (
        SELECT last.running_total FROM consumption AS last
        WHERE last.user_id = first.user_id AND last.feature = first.feature AND last.consumed_at < ?
        ORDER BY last.consumed_at DESC, last.number DESC LIMIT 1)
      FROM consumption AS first
      WHERE first.user_id = ? AND first.feature = ? AND first.consumed_at >= ? AND first.consumed_at < ? AND first.amount > 0
      ORDER BY first.consumed_at, first.number LIMIT 1
      """, end, user.key, feature, start, end, as: (Date, Int, Int).self)
    guard let (oldest, before, last) = counted else { return UsageAnswer() }
    var answer = UsageAnswer(amount: last - before, oldest: oldest)
    if let keeping = question.keeping, answer.amount > max(0, keeping) {
      answer.blocking = try first(
        """
        SELECT consumed_at FROM consumption
        WHERE user_id = ? AND feature = ? AND consumed_at >= ? AND consumed_at < ? AND running_total >= ?
        ORDER BY consumed_at, number LIMIT 1
        """, user.key, feature, start, end, last - max(0, keeping), as: Date.self)
    }
    return answer
  }

  func consumption(of feature: FeatureName, of user: UserID, under key: String) throws -> KeyedConsumption? {
    try first(
      """
      SELECT consumed_at, number, amount, request, answer FROM consumption
      WHERE user_id = ? AND feature = ? AND idempotency_key = ?
      """, user.key, feature, key
    ) {
      KeyedConsumption(
        consumedAt: try $0.get(0), number: try $0.get(1), amount: try $0.get(2), request: try $0.get(3),
        answer: try StoredForm.decoded(StoredAnswer.self, $0.get(4)).answer)
    }
  }

  func add(
    _ amount: Int, of feature: FeatureName, of user: UserID, at moment: Date, number: Int64, key: String?,
    request: String?, answer: FeatureAnswer?
  ) throws {
    try execute(
      """
      INSERT INTO consumption
        (user_id, feature, consumed_at, number, amount, idempotency_key, request, answer, running_total)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ? + coalesce((
        SELECT running_total FROM consumption AS former
        WHERE former.user_id = ? AND former.feature = ? AND former.consumed_at <= ?
        ORDER BY former.consumed_at DESC, former.number DESC LIMIT 1), (
        SELECT running_total - amount FROM consumption AS later
        WHERE later.user_id = ? AND later.feature = ? AND later.consumed_at > ?
        ORDER BY later.consumed_at, later.number LIMIT 1), 0))
      """, user.key, feature, moment, number, amount, key, request,
      answer.map { try StoredForm.encoded(StoredAnswer($0)) }, amount, user.key, feature, moment, user.key, feature,
      moment)
    // There are later ones after the clock was set back.
    try execute(
      "UPDATE consumption SET running_total = running_total + ? WHERE user_id = ? AND feature = ? AND consumed_at > ?",
      amount, user.key, feature, moment)
  }

  /// Takes a consumption out of every count, and frees its key.
  func takeBack(_ consumption: KeyedConsumption, of feature: FeatureName, of user: UserID) throws {
    try execute(
      """
      UPDATE consumption
      SET returned = amount, amount = 0, idempotency_key = NULL, request = NULL, answer = NULL
      WHERE user_id = ? AND feature = ? AND consumed_at = ? AND number = ?
      """, user.key, feature, consumption.consumedAt, consumption.number)
    guard changesCount == 1 else { throw StoredForm.Unstorable() }
    try execute(
      """
      UPDATE consumption SET running_total = running_total - ?
      WHERE user_id = ? AND feature = ? AND (consumed_at, number) >= (?, ?)
      """, consumption.amount, user.key, feature, consumption.consumedAt, consumption.number)
  }

  /// Sums up anew after consumptions of another user have joined those of this one.
  func sumUp(ofKey key: String) throws {
    try execute(
      """
      UPDATE consumption SET running_total = ordered.sum FROM (
        SELECT feature, consumed_at, number, sum(amount) OVER (PARTITION BY feature ORDER BY consumed_at, number) AS sum
        FROM consumption WHERE user_id = ?) AS ordered
      WHERE user_id = ? AND consumption.feature = ordered.feature AND consumption.consumed_at = ordered.consumed_at
        AND consumption.number = ordered.number AND running_total <> ordered.sum
      """, key, key)
  }

  /// The number and the sum of the consumptions in a range that were given back.
  func returns(of feature: FeatureName, of user: UserID, in range: Range<Date>) throws -> (times: Int, amount: Int) {
    try first(
      """
      SELECT count(*), coalesce(sum(returned), 0) FROM consumption
      WHERE user_id = ? AND feature = ? AND consumed_at >= ? AND consumed_at < ? AND returned IS NOT NULL
      """, user.key, feature, range.lowerBound, range.upperBound
    ) { (try $0.get(0), try $0.get(1)) } ?? (0, 0)
  }

  /// Frees the keys of a range, which are over.
  func forgetKeys(of feature: FeatureName, of user: UserID, in range: Range<Date>) throws {
    try execute(
      """
      UPDATE consumption SET idempotency_key = NULL, request = NULL, answer = NULL
      WHERE user_id = ? AND feature = ? AND consumed_at >= ? AND consumed_at < ? AND idempotency_key IS NOT NULL
      """, user.key, feature, range.lowerBound, range.upperBound)
  }

  /// Deletes what no rule looks back to; the total has it.
  ///
  /// - Parameter keepsReturned: what was given back stays, as a rule on all time counts it.
  func forgetConsumptions(of feature: FeatureName, of user: UserID, before moment: Date, keepsReturned: Bool) throws {
    try execute(
      "DELETE FROM consumption WHERE user_id = ? AND feature = ? AND consumed_at < ? AND (returned IS NULL OR ? = 0)",
      user.key, feature, moment, keepsReturned)
    guard keepsReturned else { return }
    // Nothing stands between them and the next one any more.
    try execute(
      """
      UPDATE consumption SET running_total = rest.base FROM (
        SELECT running_total - amount AS base FROM consumption
        WHERE user_id = ? AND feature = ? AND consumed_at >= ? ORDER BY consumed_at, number LIMIT 1) AS rest
      WHERE user_id = ? AND feature = ? AND consumed_at < ? AND running_total <> rest.base
      """, user.key, feature, moment, user.key, feature, moment)
  }

  // MARK: Time zones

  func timeZone(of user: UserID) throws -> (zone: Zone, changedAt: Date)? {
    let kept = try first(
      "SELECT name, changed_at FROM user_time_zone WHERE user_id = ?", user.key, as: (String, Date).self)
    // A zone that the system's database no longer has.
    return kept.flatMap { name, changedAt in Zone(named: name).map { ($0, changedAt) } }
  }

  private static let upsertZone = SQL.upsert("user_time_zone", key: "user_id", "name, changed_at")

  func keep(_ zone: Zone, of user: UserID, changedAt: Date) throws {
    try execute(Self.upsertZone, user.key, zone.name, changedAt)
  }
}

extension LedgerTables { var usage: UsageTable { UsageTable(tables: self) } }

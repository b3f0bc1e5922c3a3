internal import Access
internal import Entitlements
internal import Ledger

extension FigureTable {
  /// The users of each tier and status.
  func subscribers() throws -> [SubscriberCount] {
    try tallies(.subscribers).compactMap { tally, count in
      guard count > 0, let status = SubscriptionStatus(rawValue: tally.detail) else { return nil }
      return SubscriberCount(tier: Tier(tally.label), status: status, users: count)
    }
  }

  /// The users of each step of the funnel, by day, or by the first days of months.
  func funnel(_ grain: FigureGrain, _ days: Range<Int>) throws -> [Int: [UserProgress.Step: Int64]] {
    try tallies(grain == .day ? .funnel : .funnelMonths, days).reduce(into: [:]) { funnel, row in
      if let step = UserProgress.Step(rawValue: row.tally.label) {
        funnel[row.tally.day, default: [:]][step] = row.count
      }
    }
  }

  /// The users of each step of the funnel over a range of days.
  func funnelSum(_ days: Range<Int>) throws -> [UserProgress.Step: Int64] {
    try sums(.funnel, days).reduce(into: [:]) { funnel, row in
      if let step = UserProgress.Step(rawValue: row.key.label) { funnel[step] = row.value }
    }
  }

  /// The sums of a range of days. SQL adds up, whole months from their own rows.
  private func sums(_ name: Tally.Name, _ days: Range<Int>) throws -> [Tally: Int64] {
    var sums: [Tally: Int64] = [:]
    for part in FigureSeries.monthsAndDays(of: days) {
      let rows = try all(
        "SELECT label, detail, sum(count) FROM tally WHERE name = ? AND day >= ? AND day < ? GROUP BY label, detail",
        part.grain == .day ? name : name.months ?? name, part.days.lowerBound, part.days.upperBound
      ) { row in (Tally(name: name, label: try row.get(0), detail: try row.get(1)), try row.get(2, as: Int64.self)) }
      for (tally, count) in rows { sums[tally, default: 0] += part.isTakenBack ? -count : count }
    }
    return sums.filter { $0.value != 0 }
  }

  /// The users near each limit of a tier.
  func nearLimits() throws -> [NearLimitCount] {
    try tallies(.nearLimit).filter { $0.count > 0 }.map { tally, count in
      NearLimitCount(feature: FeatureName(rawValue: tally.label), tier: Tier(tally.detail), users: count)
    }
  }

  /// The attempts of a range of days, by receiver.
  func webhookAttempts(_ days: Range<Int>) throws -> [WebhookAttempts] {
    var attempts: [String: WebhookAttempts] = [:]
    for (tally, count) in try sums(.webhooks, days) {
      let path = tally.detail == "delivered" ? \WebhookAttempts.delivered : \.failed
      attempts[tally.label, default: WebhookAttempts(webhook: tally.label)][keyPath: path] = count
    }
    return attempts.values.sorted { $0.webhook < $1.webhook }
  }

  /// The length of the periods of every counted product (ISO 8601).
  func productPeriods() throws -> [String: String] {
    let rows = try all("SELECT product_id, period FROM product_period", as: (String, String).self)
    return Dictionary(rows) { one, _ in one }
  }
}

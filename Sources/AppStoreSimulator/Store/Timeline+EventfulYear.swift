extension Timeline {
  /// One subscriber's year with every kind of subscription event, counted from its start:
  ///
  ///     day 0         a free week of pro monthly
  ///     day 7         the first month is paid, then every month
  ///     day 40, 45    renewal turned off, and on again
  ///     3 months 7 d  a charge fails; 16 days of grace begin
  ///        + 5 days   the charge succeeds; the month counts from the failed one's day
  ///     4 months 17 d upgrade to premium monthly in the middle of a month
  ///     5 months 23 d premium's first month, already over, is refunded while the second runs
  ///     6 months 20 d a downgrade to pro monthly is chosen
  ///     7 months 17 d it happens
  ///     8 months 17 d a charge fails; no grace this time, access ends
  ///        + 9 days   the charge succeeds; a month begins that day
  ///     9 months 30 d renewal turned off
  ///    10 months 26 d the subscription ends
  ///        + 20 days  the customer subscribes again
  ///        + 30 days  and gets the running month refunded
  ///
  /// Months and days are calendar ones, so the days move by up to three with the start.
  static func eventfulYear(start: Timestamp, environment: StoreEnvironment) -> Timeline {
    let paid = start.adding(days: 7)
    let failed = paid.adding(months: 3)
    let upgrade = failed.adding(months: 1).adding(days: 10)
    let downgrade = upgrade.adding(months: 3)
    let failedAgain = downgrade.adding(months: 1)
    let recovered = failedAgain.adding(days: 9)
    let ended = recovered.adding(months: 2)
    let again = ended.adding(days: 20)
    let refund = again.adding(days: 10)

    let trial = Subscription(
      product: .proMonthly, start: start, hasTrial: true, periods: 4, renewalOffFrom: start.adding(days: 40),
      renewalOnAgainFrom: start.adding(days: 45), intent: 2, retryDays: 60, graceDays: 16)
    var graced = Subscription(
      firstNumber: 4, product: .proMonthly, start: failed, periods: 2, isContinuation: true,
      chargedAt: failed.adding(days: 5))
    graced.upgradedAt = upgrade
    // In production the rest of the replaced month is refunded.
    if environment == .production {
      graced.cancellations = [Subscription.Cancellation(period: 1, at: upgrade, reason: 0)]
    }
    var premium = Subscription(firstNumber: 6, product: .premiumMonthly, start: upgrade, periods: 3)
    premium.cancellations = [
      Subscription.Cancellation(period: 0, at: upgrade.adding(months: 1).adding(days: 6), reason: 1)
    ]
    premium.nextProduct = .proMonthly
    premium.nextProductFrom = upgrade.adding(months: 2).adding(days: 3)
    let downgraded = Subscription(
      firstNumber: 9, product: .proMonthly, start: downgrade, periods: 1, isContinuation: true, intent: 2,
      retryDays: 60)
    let late = Subscription(
      firstNumber: 10, product: .proMonthly, start: recovered, periods: 2, isContinuation: true,
      renewalOffFrom: recovered.adding(months: 1).adding(days: 4), intent: 1)
    var last = Subscription(
      firstNumber: 12, product: .proMonthly, start: again, periods: 1, renewalOffFrom: refund, intent: 1)
    last.cancellations = [Subscription.Cancellation(period: 0, at: refund, reason: 0)]
    return Timeline(subscriptions: [trial, graced, premium, downgraded, late, last])
  }
}

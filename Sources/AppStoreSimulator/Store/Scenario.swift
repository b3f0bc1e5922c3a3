/// A customer's story, which begins before the receipt was issued and continues with the clock.
///
/// Each is a pure function of the time of issue (`start`), at which the story has reached the point that its name
/// describes. Moving the clock continues it: a grace period runs into billing retry, and that into the end.
enum Scenario: String, CaseIterable, Codable, Sendable {
  case subscriber, trial, renewing
  case lateRenewal = "late_renewal"
  case renewalOff = "renewal_off"
  case grace
  case graceWithoutDate = "grace_without_date"
  case graceEnded = "grace_ended"
  case billingRetry = "billing_retry"
  case expiredVoluntary = "expired_voluntary"
  case voluntaryRetrying = "voluntary_retrying"
  case expiredBillingError = "expired_billing_error"
  case expiredPriceIncrease = "expired_price_increase"
  case expiredProductUnavailable = "expired_product_unavailable"
  case expiredUnknown = "expired_unknown"
  case refunded
  case refundedProrated = "refunded_prorated"
  case refundedThenRebought = "refunded_then_rebought"
  case upgraded
  case upgradeRefunded = "upgrade_refunded"
  case downgradePending = "downgrade_pending"
  case crossgraded
  case commitment
  case commitmentStopped = "commitment_stopped"
  case migrated
  case familyShared = "family_shared"
  case familyRevoked = "family_revoked"
  case lifetime
  case lifetimeRefunded = "lifetime_refunded"
  case nonRenewing = "non_renewing"
  case empty
  case unknownProduct = "unknown_product"
  case wrongApp = "wrong_app"
  case twoGroups = "two_groups"
  case accountGone = "account_gone"
  case eventfulYear = "eventful_year"

  /// One line for people.
  var summary: String {
    switch self {
    case .subscriber: "buys pro monthly at the start and renews every month for ever"
    case .trial: "on day 3 of a free week of pro monthly; then pays and renews"
    case .renewing: "pro monthly, 45 days old, auto-renew on"
    case .lateRenewal:
      "pro monthly ended a second ago, each renewal is shown five minutes late (another time with `late`)"
    case .renewalOff: "pro monthly paid for 15 more days, auto-renew off; then expires"
    case .grace: "pro monthly ended 3 days ago, charge failed, 16 days of grace, 60 of retry"
    case .graceWithoutDate:
      "pro monthly ended 3 days ago, 16 days of grace told by status and subtype alone, then retry"
    case .graceEnded: "pro monthly ended 20 days ago, its 16 days of grace are over, the charge is retried until day 60"
    case .billingRetry: "pro monthly ended 3 days ago, charge failed, no grace, 60 days of retry"
    case .expiredVoluntary: "ended 30 days ago, auto-renew was off (intent 1)"
    case .voluntaryRetrying: "ended 3 days ago, auto-renew was off (intent 1), and yet the flag of billing retry is set"
    case .expiredBillingError: "ended 90 days ago, the charge never succeeded (intent 2)"
    case .expiredPriceIncrease: "ended 30 days ago, a higher price was not agreed to (intent 3)"
    case .expiredProductUnavailable: "ended 30 days ago, the product was withdrawn (intent 4)"
    case .expiredUnknown: "ended 30 days ago for another reason (intent 5)"
    case .refunded: "the running month of premium was refunded yesterday"
    case .refundedProrated: "the running month of premium was refunded yesterday, 45 % of its price"
    case .refundedThenRebought: "a refunded month, then bought again under the same original transaction ID"
    case .upgraded: "pro yearly replaced by premium monthly 5 days ago; the replaced row ends later"
    case .upgradeRefunded: "pro yearly replaced by premium monthly 5 days ago, which was refunded yesterday"
    case .downgradePending: "premium monthly for 15 more days, then pro monthly"
    case .crossgraded: "pro monthly for 15 more days, then pro yearly"
    case .commitment: "a year of pro, 45 days old, paid each month; another year follows"
    case .commitmentStopped: "a year of pro, 45 days old, paid each month; the customer wants no other year"
    case .migrated:
      "pro monthly, 45 days old, moved to the Advanced Commerce API and another ID 5 days ago; with `age` before it"
    case .familyShared: "premium monthly through family sharing"
    case .familyRevoked: "premium monthly through family sharing, which ended yesterday"
    case .lifetime: "bought for ever 100 days ago"
    case .lifetimeRefunded: "bought for ever 100 days ago, refunded yesterday; with `age` an old receipt shows it still"
    case .nonRenewing: "a season of pro, which does not renew, bought 10 days ago; the next one in 20 days"
    case .empty: "an authentic receipt without a single purchase"
    case .unknownProduct: "subscribed to a product that no catalog names"
    case .wrongApp: "an authentic receipt of another app, with our product IDs in it"
    case .twoGroups: "pro monthly and premium monthly, sold in separate subscription groups"
    case .accountGone: "the customer's account was deleted: status 21010"
    case .eventfulYear: "begins a free week at the start; in a year everything happens that can, to a refund at the end"
    }
  }

  /// The app of the receipt; `wrong_app` belongs to another app than requested.
  func bundleID(_ asked: String) -> String { self == .wrongApp ? "com.example.somebody-else" : asked }

  /// The story of a receipt issued at `start`. In the sandbox an upgrade leaves no cancellation date, as with Apple.
  ///
  /// - Parameter renewalsLateBy: seconds between a period's end and the moment at which its renewal is shown.
  func timeline(start: Timestamp, environment: StoreEnvironment, renewalsLateBy: Int64? = nil) -> Timeline {
    var timeline = story(start: start, environment: environment)
    let seconds = renewalsLateBy ?? (self == .lateRenewal ? Self.usualLateness : 0)
    for index in timeline.subscriptions.indices {
      timeline.subscriptions[index].renewalsLateBy = seconds * Timestamp.second
    }
    return timeline
  }

  /// Seconds by which renewals are late in `late_renewal`.
  private static let usualLateness: Int64 = 300

  private func story(start: Timestamp, environment: StoreEnvironment) -> Timeline {
    switch self {
    case .lifetime:
      return Timeline(oneTimePurchases: [OneTimePurchase(slot: 0, product: .forever, at: start.adding(days: -100))])
    case .lifetimeRefunded:
      return Timeline(oneTimePurchases: [
        OneTimePurchase(slot: 0, product: .forever, at: start.adding(days: -100), cancelledAt: start.adding(days: -1))
      ])
    case .nonRenewing:
      return Timeline(oneTimePurchases: [
        OneTimePurchase(slot: 0, product: .proSeason, at: start.adding(days: -10)),
        OneTimePurchase(slot: 1, product: .proSeason, at: start.adding(days: 20)),
      ])
    case .eventfulYear: return .eventfulYear(start: start, environment: environment)
    default: return Timeline(subscriptions: subscriptions(start: start, environment: environment))
    }
  }

  /// The subscriptions of a scenario that has purchases of no other kind.
  private func subscriptions(start: Timestamp, environment: StoreEnvironment) -> [Subscription] {
    switch self {
    case .subscriber: return [Subscription(product: .proMonthly, start: start)]
    case .trial:
      return [
        Subscription(product: .proMonthly, start: start.adding(days: -2), hasTrial: true)
      ]
    case .renewing, .wrongApp, .accountGone:
      return [Subscription(product: .proMonthly, start: start.adding(days: -45))]
    case .lateRenewal:
      let end = Timestamp(milliseconds: start.milliseconds - Timestamp.second)
      return [Subscription(product: .proMonthly, start: firstPurchase(forAnEndAt: end))]
    case .renewalOff:
      return [
        ending(.proMonthly, inDays: 15, from: start, intent: 1, renewalOffFrom: start.adding(days: -2))
      ]
    case .grace:
      return [
        ending(.proMonthly, inDays: -3, from: start, intent: 2, retryDays: 60, graceDays: 16)
      ]
    case .graceWithoutDate:
      var subscription = ending(.proMonthly, inDays: -3, from: start, intent: 2, retryDays: 60, graceDays: 16)
      subscription.hidesGrace = true
      return [subscription]
    case .graceEnded:
      return [
        ending(.proMonthly, inDays: -20, from: start, intent: 2, retryDays: 60, graceDays: 16)
      ]
    case .billingRetry:
      return [ending(.proMonthly, inDays: -3, from: start, intent: 2, retryDays: 60)]
    case .expiredVoluntary:
      return [ending(.proMonthly, inDays: -30, from: start, intent: 1, renewalOffFrom: start.adding(days: -40))]
    case .voluntaryRetrying:
      var subscription = ending(.proMonthly, inDays: -3, from: start, intent: 1, renewalOffFrom: start.adding(days: -5))
      subscription.keepsRetryFlag = true
      return [subscription]
    case .expiredBillingError: return [ending(.proMonthly, inDays: -90, from: start, intent: 2, retryDays: 60)]
    case .expiredPriceIncrease:
      var subscription = ending(.proMonthly, inDays: -30, from: start, intent: 3)
      subscription.declinesPrice = true
      return [subscription]
    case .expiredProductUnavailable: return [ending(.proMonthly, inDays: -30, from: start, intent: 4)]
    case .expiredUnknown: return [ending(.proMonthly, inDays: -30, from: start, intent: 5)]
    case .refunded: return [refundedMonth(endingInDays: 15, at: start.adding(days: -1), from: start)]
    case .refundedProrated:
      var subscription = refundedMonth(endingInDays: 15, at: start.adding(days: -1), from: start)
      subscription.cancellations[0].percentage = 45
      return [subscription]
    case .refundedThenRebought:
      return [
        refundedMonth(endingInDays: 15, at: start.adding(days: -10), from: start),
        Subscription(firstNumber: 2, product: .premiumMonthly, start: start.adding(days: -5)),
      ]
    case .upgraded: return upgrade(from: start, environment: environment)
    case .upgradeRefunded:
      var runs = upgrade(from: start, environment: environment)
      let refund = start.adding(days: -1)
      runs[1].periods = 1
      runs[1].intent = 1
      runs[1].renewalOffFrom = refund
      runs[1].cancellations = [Subscription.Cancellation(period: 0, at: refund, reason: 1)]
      return runs
    case .downgradePending: return change(from: .premiumMonthly, to: .proMonthly, start: start)
    case .crossgraded: return change(from: .proMonthly, to: .proYearly, start: start)
    case .commitment:
      return [Subscription(product: .proYearly, start: start.adding(days: -45), commitment: Subscription.Commitment())]
    case .commitmentStopped:
      var subscription = Subscription(
        product: .proYearly, start: start.adding(days: -45), periods: Subscription.Commitment.payments, intent: 1,
        commitment: Subscription.Commitment(stoppedFrom: start.adding(days: -2)))
      // The store turns the payments off when the last one is made.
      subscription.renewalOffFrom = subscription.period(Subscription.Commitment.payments - 1).start
      return [subscription]
    case .migrated:
      let moved = start.adding(days: -5)
      var former = Subscription(product: .proMonthly, start: start.adding(days: -45), periods: 2)
      former.migratedAt = moved
      return [
        former,
        Subscription(
          slot: 1, product: .proMonthly, start: former.period(1).start, chargedAt: moved, formerSlot: former.slot),
      ]
    case .familyShared:
      return [Subscription(product: .premiumMonthly, isFamilyShared: true, start: start.adding(days: -10))]
    case .familyRevoked:
      var subscription = refundedMonth(endingInDays: 15, at: start.adding(days: -1), from: start)
      subscription.isFamilyShared = true
      return [subscription]
    case .lifetime, .lifetimeRefunded, .nonRenewing, .empty, .eventfulYear: return []
    case .unknownProduct: return [Subscription(product: .unknown, start: start.adding(days: -10))]
    case .twoGroups:
      return [
        Subscription(product: .proMonthly, start: start.adding(days: -10)),
        Subscription(slot: 1, product: .premiumMonthly, group: Subscription.secondGroup, start: start.adding(days: -5)),
      ]
    }
  }

  /// Two paid months; the second ends a number of days after `start`.
  private func ending(
    _ product: Product, inDays days: Int, from start: Timestamp, intent: Int, retryDays: Int = 0, graceDays: Int = 0,
    renewalOffFrom: Timestamp? = nil
  ) -> Subscription {
    Subscription(
      product: product, start: start.adding(days: days).adding(months: -2), periods: 2,
      renewalOffFrom: renewalOffFrom, intent: intent, retryDays: retryDays, graceDays: graceDays)
  }

  /// The start of a subscription with a month that ends at a given time: a month before, or two if that month is too
  /// short.
  private func firstPurchase(forAnEndAt end: Timestamp) -> Timestamp {
    let months = [1, 2].first { end.adding(months: -$0).adding(months: $0) == end } ?? 1
    return end.adding(months: -months)
  }

  /// Two months of premium, the second refunded while it runs.
  private func refundedMonth(endingInDays days: Int, at refund: Timestamp, from start: Timestamp) -> Subscription {
    var subscription = ending(.premiumMonthly, inDays: days, from: start, intent: 1, renewalOffFrom: refund)
    subscription.cancellations = [Subscription.Cancellation(period: 1, at: refund, reason: 1)]
    return subscription
  }

  private func upgrade(from start: Timestamp, environment: StoreEnvironment) -> [Subscription] {
    let upgrade = start.adding(days: -5)
    var old = Subscription(product: .proYearly, start: start.adding(days: -35), periods: 1)
    old.upgradedAt = upgrade
    if environment == .production { old.cancellations = [Subscription.Cancellation(period: 0, at: upgrade, reason: 0)] }
    return [old, Subscription(firstNumber: 1, product: .premiumMonthly, start: upgrade)]
  }

  /// A product change that takes effect at the end of the period.
  private func change(from old: Product, to new: Product, start: Timestamp) -> [Subscription] {
    let first = start.adding(days: 15).adding(months: -2)
    var before = Subscription(product: old, start: first, periods: 2)
    before.nextProduct = new
    return [before, Subscription(firstNumber: 2, product: new, start: before.period(1).end, isContinuation: true)]
  }
}

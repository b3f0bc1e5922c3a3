/// Everything that one customer does with one app, past and future, in a scenario.
///
/// Independent of the present time: `state(at:)` evaluates it at a moment.
struct Timeline: Sendable {
  var subscriptions: [Subscription] = []
  var oneTimePurchases: [OneTimePurchase] = []
  /// Extensions of renewal dates, in the order in which they were made.
  var extensions: [RenewalExtension] = []
}

/// One run of renewals of one product.
///
/// Runs of the same slot share an original transaction ID: a customer who upgrades, or returns after a refund, keeps it
/// within a subscription group.
struct Subscription: Sendable {
  /// When a transaction was cancelled, and Apple's `cancellation_reason`: 0 other, 1 the app's fault.
  struct Cancellation: Sendable {
    var period: Int
    var at: Timestamp
    var reason: Int
    /// The part of the price that is given back; `nil`: all of it.
    var percentage: Int?
  }

  var slot = 0
  /// The number of this run's first transaction within its slot.
  var firstNumber = 0
  var product: Product
  var group = Subscription.mainGroup
  var isFamilyShared = false
  var start: Timestamp
  /// The first period is a free week.
  var hasTrial = false
  /// The number of paid periods; nil renews for ever.
  var periods: Int?
  /// The store began this run: a change at the end of a period, or a charge that succeeded late.
  var isContinuation = false
  /// When the first period was paid, if later than its start: the charge succeeded within a grace period, whose days
  /// are part of the paid period.
  var chargedAt: Timestamp?
  /// When auto-renew was turned off.
  var renewalOffFrom: Timestamp?
  /// When auto-renew was turned on again.
  var renewalOnAgainFrom: Timestamp?
  /// Apple's expiration intent once the last period has ended, 1...5.
  var intent: Int?
  /// Days after the end during which the store retries the charge.
  var retryDays = 0
  /// Days of the app's billing grace period.
  var graceDays = 0
  /// The grace period is told by status and subtype alone: without its end, and without the flag of billing retry.
  var hidesGrace = false
  /// The flag of billing retry stays set when the subscription is over.
  var keepsRetryFlag = false
  /// Milliseconds after the end of a period in which its renewal is not shown yet.
  var renewalsLateBy: Int64 = 0
  var cancellations: [Cancellation] = []
  /// Replaced by the next run of the slot at this moment.
  var upgradedAt: Timestamp?
  /// The product that renews next, if it is a different one.
  var nextProduct: Product?
  /// When the customer chose it; nil if before the story.
  var nextProductFrom: Timestamp?
  /// The customer has not agreed to a higher price.
  var declinesPrice = false
  /// The customer is bound for a year, and pays each month.
  var commitment: Commitment?
  /// Moved to another original transaction ID at this moment: the store shows nothing under this one since.
  var migratedAt: Timestamp?
  /// The slot from which this run has moved to an ID of its own.
  var formerSlot: Int?

  /// Twelve monthly payments at a time.
  struct Commitment: Sendable {
    static let payments = 12
    /// When the customer asked for no further one.
    var stoppedFrom: Timestamp?
  }

  /// The months of a period.
  private var months: Int { commitment == nil ? product.months : 1 }

  /// The end of the commitment of the nth period.
  fileprivate func commitmentEnd(_ index: Int) -> Timestamp? {
    commitment.map { _ in period(index / Commitment.payments * Commitment.payments + Commitment.payments - 1).end }
  }
  /// Extensions of its periods.
  var extensions: [(period: Int, days: Int)] = []

  static let mainGroup = "21000001"
  static let secondGroup = "21000002"

  /// The bounds of the nth period.
  func period(_ index: Int) -> (start: Timestamp, end: Timestamp) {
    let bounds = regularPeriod(index)
    func days(through last: Int) -> Int { extensions.filter { $0.period <= last }.reduce(0) { $0 + $1.days } }
    return (bounds.start.adding(days: days(through: index - 1)), bounds.end.adding(days: days(through: index)))
  }

  /// The bounds of the nth period without extensions.
  private func regularPeriod(_ index: Int) -> (start: Timestamp, end: Timestamp) {
    guard hasTrial else {
      return (start.adding(months: index * months), start.adding(months: (index + 1) * months))
    }
    let paidFrom = start.adding(days: 7)
    if index == 0 { return (start, paidFrom) }
    return (paidFrom.adding(months: (index - 1) * months), paidFrom.adding(months: index * months))
  }
}

/// A non-consumable, or a non-renewing subscription.
struct OneTimePurchase: Sendable {
  var slot: Int
  var product: Product
  var at: Timestamp
  var cancelledAt: Timestamp?

  fileprivate var moments: [Timestamp] { [at, cancelledAt].compactMap(\.self) }

  fileprivate func row(at now: Timestamp) -> CustomerState.Row {
    CustomerState.Row(
      product: product, slot: slot, number: 0, purchasedAt: at, shownAt: at, originallyPurchasedAt: at,
      expiresAt: nil,
      cancelledAt: cancelledAt.flatMap { $0 <= now ? $0 : nil }, cancellationReason: 1, isTrial: false,
      isUpgraded: false, isFamilyShared: false, isRenewal: false, group: nil)
  }
}

/// The store's knowledge of a customer at one moment.
struct CustomerState: Hashable, Sendable {
  /// One transaction.
  struct Row: Hashable, Sendable {
    var product: Product
    var slot: Int
    var number: Int
    var purchasedAt: Timestamp
    /// When the store first shows it.
    var shownAt: Timestamp
    var originallyPurchasedAt: Timestamp
    var expiresAt: Timestamp?
    var cancelledAt: Timestamp?
    var cancellationReason: Int
    var cancellationPercentage: Int?
    var isTrial: Bool
    var isUpgraded: Bool
    var isFamilyShared: Bool
    /// Charged by the store, not ordered by the customer.
    var isRenewal: Bool
    var group: String?
    var commitment: Commitment?
    /// The slot from which it has moved.
    var formerSlot: Int?
  }

  /// The place of a payment in a commitment.
  struct Commitment: Hashable, Sendable {
    /// From 1.
    var number: Int
    var endsAt: Timestamp
  }

  /// The renewal state of one subscription.
  struct Renewal: Hashable, Sendable {
    enum Phase: Hashable, Sendable {
      case running
      /// The period has ended, and its renewal is not shown yet.
      case due
      case grace, retry, ended
    }

    var product: Product
    var slot: Int
    var phase: Phase
    var nextProduct: Product
    var isOn: Bool
    var intent: Int?
    var isInRetry: Bool
    var graceUntil: Timestamp?
    var declinesPrice: Bool
    /// Whether another commitment follows, and the end of the present one; `nil` without one.
    var commitmentRenews: Bool?
    var commitmentEndsAt: Timestamp?
  }

  var rows: [Row] = []
  var renewals: [Renewal] = []

  var hasSubscriptions: Bool { rows.contains { $0.product.isSubscription } }
}

extension Timeline {
  /// The most transactions of one subscription: 82 years of months, so a clock moved too far stays cheap.
  static let periodLimit = 990

  func state(at now: Timestamp) -> CustomerState {
    var state = CustomerState()
    var firstPurchase: [Int: Timestamp] = [:]
    for subscription in subscriptions(at: now) where subscription.migratedAt.map({ now < $0 }) ?? true {
      let original = firstPurchase[subscription.slot] ?? subscription.start
      firstPurchase[subscription.slot] = original
      let rows = subscription.rows(at: now, originallyPurchasedAt: original)
      guard let last = rows.last else { continue }
      state.rows += rows
      // A slot has one renewal state: its last run's.
      state.renewals.removeAll { $0.slot == subscription.slot }
      state.renewals.append(subscription.renewal(at: now, after: last))
    }
    for purchase in oneTimePurchases where purchase.at <= now { state.rows.append(purchase.row(at: now)) }
    return state
  }

  /// The moments after `from`, up to and including `to`, at which the store's knowledge of a customer changes, in order.
  ///
  /// They are found by comparing the states around each moment named in a timeline, so no scenario needs its own list.
  func moments(after from: Timestamp, through to: Timestamp) -> [Timestamp] {
    let candidates =
      subscriptions(at: to).flatMap { $0.moments(through: to) }
      + oneTimePurchases.flatMap(\.moments) + extensions.map(\.madeAt)
    return Set(candidates).filter { from < $0 && $0 <= to }.sorted().filter { state(at: $0.before) != state(at: $0) }
  }
}

extension Subscription {
  fileprivate func rows(at now: Timestamp, originallyPurchasedAt original: Timestamp) -> [CustomerState.Row] {
    var rows: [CustomerState.Row] = []
    for index in 0..<min(periods ?? Timeline.periodLimit, Timeline.periodLimit) {
      let period = period(index)
      let purchasedAt = (index == 0 ? chargedAt : nil) ?? period.start
      let shownAt = index == 0 ? purchasedAt : shown(period.start)
      guard shownAt <= now else { break }
      let cancellation = cancellations.first { $0.period == index && $0.at <= now }
      rows.append(
        CustomerState.Row(
          product: product, slot: slot, number: firstNumber + index, purchasedAt: purchasedAt, shownAt: shownAt,
          originallyPurchasedAt: original, expiresAt: period.end, cancelledAt: cancellation?.at,
          cancellationReason: cancellation?.reason ?? 0, cancellationPercentage: cancellation?.percentage,
          isTrial: hasTrial && index == 0,
          isUpgraded: upgradedAt.map { $0 <= now && period.end > $0 } ?? false, isFamilyShared: isFamilyShared,
          isRenewal: index > 0 || isContinuation, group: group,
          commitment: commitmentEnd(index).map {
            CustomerState.Commitment(number: index % Commitment.payments + 1, endsAt: $0)
          }, formerSlot: formerSlot))
    }
    return rows
  }

  /// When a renewal is shown that is due at a moment.
  func shown(_ due: Timestamp) -> Timestamp { Timestamp(milliseconds: due.milliseconds + renewalsLateBy) }

  fileprivate func renewal(at now: Timestamp, after last: CustomerState.Row) -> CustomerState.Renewal {
    let end = last.expiresAt ?? now
    let phase = phase(at: now, after: last, end: end)
    let isOver = phase != .running && phase != .due
    let isOff = (renewalOffFrom.map { $0 <= now } ?? false) && !(renewalOnAgainFrom.map { $0 <= now } ?? false)
    let hasChosen = nextProductFrom.map { $0 <= now } ?? true
    let isInRetry = phase == .retry || phase == .grace && !hidesGrace || phase == .ended && keepsRetryFlag
    return CustomerState.Renewal(
      product: product, slot: slot, phase: phase, nextProduct: hasChosen ? nextProduct ?? product : product,
      isOn: isOver ? phase != .ended : !isOff,
      intent: isOver ? intent : nil,
      isInRetry: isInRetry,
      graceUntil: phase == .grace && !hidesGrace ? end.adding(days: graceDays) : nil,
      declinesPrice: declinesPrice,
      commitmentRenews: commitment.map { $0.stoppedFrom.map { now < $0 } ?? true },
      commitmentEndsAt: last.commitment?.endsAt)
  }

  private func phase(at now: Timestamp, after last: CustomerState.Row, end: Timestamp) -> CustomerState.Renewal.Phase {
    if now < end { return .running }
    if last.number - firstNumber + 1 < periods ?? .max { return .due }
    guard now < end.adding(days: retryDays) else { return .ended }
    return now < end.adding(days: graceDays) ? .grace : .retry
  }

  fileprivate func moments(through to: Timestamp) -> [Timestamp] {
    var moments = [
      renewalOffFrom, renewalOnAgainFrom, chargedAt, upgradedAt, nextProductFrom, migratedAt, commitment?.stoppedFrom,
    ].compactMap(\.self)
    moments += cancellations.map(\.at)
    for index in 0..<min(periods ?? Timeline.periodLimit, Timeline.periodLimit) {
      let period = period(index)
      guard period.start <= to else { break }
      moments += [period.start, shown(period.start), period.end]
      // Grace and retry follow the last period, whichever it is.
      if graceDays > 0 { moments.append(period.end.adding(days: graceDays)) }
      if retryDays > 0 { moments.append(period.end.adding(days: retryDays)) }
    }
    return moments
  }
}

extension Timestamp {
  /// The previous millisecond.
  var before: Timestamp { Timestamp(milliseconds: milliseconds - 1) }
}

import SeededRandom

@testable import AppStoreSimulator

/// A customer of whom everything is made up: one or two subscriptions, each a chain of runs that end in every way there is
/// and are followed by what may follow, and perhaps a purchase for ever.
///
/// Of one at the edges Apple says less, or later: renewals that show late, grace periods without a date, a retry flag that
/// stays, upgrades that no answer marks once they are refunded. Seasons follow one another.
struct MadeUpCustomer {
  static let start = Timestamp(milliseconds: 1_718_452_800_000)
  /// Until then there is something to look at.
  static let end = start.adding(days: 700)

  var timeline = Timeline()
  var isProduction: Bool
  /// How long before a period begins its renewal is charged, and shows.
  var lead: Int64
  /// When Apple took a refund back.
  var reversals: [Refund: Timestamp] = [:]
  let isAtTheEdges: Bool
  /// Once an upgrade was refunded, nothing marks the period that it replaced.
  var hidesUpgrades = false

  struct Refund: Hashable {
    var slot: Int
    var number: Int
  }

  init(_ chance: inout SeededRandom, isAtTheEdges: Bool = false) {
    self.isAtTheEdges = isAtTheEdges
    isProduction = chance.percent(50)
    lead = chance.pick([0, 0, 33_000, 6 * 3_600_000, 23 * 3_600_000])
    let isFamily = chance.percent(10)
    timeline.subscriptions = runs(slot: 0, isFamily: isFamily, &chance)
    if chance.percent(25) {
      var others = runs(slot: 1, isFamily: false, &chance)
      // The customer's own, beside what the family shares; else of another group.
      if !isFamily { for index in others.indices { others[index].group = Subscription.secondGroup } }
      timeline.subscriptions += others
    }
    for run in timeline.subscriptions where run.upgradedAt == nil {
      for refund in run.cancellations where refund.period + 1 < run.periods ?? .max && chance.percent(30) {
        reversals[Refund(slot: run.slot, number: run.firstNumber + refund.period)] =
          refund.at.adding(days: chance.within(1...20))
      }
    }
    if chance.percent(10) {
      let at = Self.start.adding(days: chance.within(0...300))
      timeline.oneTimePurchases = [
        OneTimePurchase(
          slot: 5, product: .forever, at: at,
          cancelledAt: chance.percent(50) ? at.adding(days: chance.within(1...60)) : nil)
      ]
    }
    if isAtTheEdges { bringToTheEdges(&chance) }
  }

  private mutating func bringToTheEdges(_ chance: inout SeededRandom) {
    hidesUpgrades = !isProduction && chance.percent(70)
    if lead == 0 {
      let delay = chance.pick([0, 5_000, 61_000, 600_000, 3 * 3_600_000, 20 * 3_600_000])
      for run in timeline.subscriptions.indices { timeline.subscriptions[run].renewalsLateBy = Int64(delay) }
    }
    guard chance.percent(30) else { return }
    // Some buy nothing else.
    if chance.percent(20) { (timeline.subscriptions, reversals) = ([], [:]) }
    var start = Self.start.adding(days: chance.within(0...300))
    for slot in 6..<(6 + chance.within(1...3)) {
      timeline.oneTimePurchases.append(
        OneTimePurchase(
          slot: slot, product: .proSeason, at: start,
          cancelledAt: chance.percent(25) ? start.adding(days: chance.within(1...50)) : nil))
      start = start.adding(days: chance.within(3...45))
    }
  }

  /// The period that follows a run.
  private struct Successor {
    var start: Timestamp
    var product: Product
    var isContinuation = false
    var chargedAt: Timestamp?
    /// Bought under another original transaction ID.
    var isAnew = false
    /// A single period, which is taken back.
    var isRefunded = false
  }

  private func runs(slot: Int, isFamily: Bool, _ chance: inout SeededRandom) -> [Subscription] {
    var runs: [Subscription] = []
    var (slot, number) = (slot, 0)
    var next: Successor? = Successor(
      start: Self.start.adding(days: chance.within(0...20)),
      product: chance.pick([.proMonthly, .proMonthly, .premiumMonthly, .proYearly]))
    var left = chance.within(1...5)
    while let begin = next {
      let periods = begin.product == .proYearly || begin.isRefunded ? 1 : chance.within(1...4)
      if begin.isAnew, slot == 0 { slot = 2 }
      var run = Subscription(
        slot: slot, firstNumber: number, product: begin.product, isFamilyShared: isFamily, start: begin.start,
        hasTrial: runs.isEmpty && chance.percent(30), periods: periods, isContinuation: begin.isContinuation,
        chargedAt: begin.chargedAt)
      if left > 0 || begin.isRefunded {
        next = finish(&run, isRefunded: begin.isRefunded, &chance)
      } else {
        run.periods = nil
        next = nil
      }
      left -= 1
      number += periods
      runs.append(run)
    }
    return runs
  }

  /// Ends a run in one of the ways there are.
  private func finish(_ run: inout Subscription, isRefunded: Bool, _ chance: inout SeededRandom) -> Successor? {
    let periods = run.periods ?? 1
    let last = run.period(periods - 1)
    let length = Int((last.end.milliseconds - last.start.milliseconds) / Timestamp.day)
    let middle = Timestamp(
      milliseconds: last.start.adding(days: chance.within(1...max(1, length - 2))).milliseconds
        + Int64(chance.within(0...80_000_000)))
    // A period of the past may be refunded while another runs.
    if periods > 1, chance.percent(20) {
      run.cancellations = [.init(period: chance.within(0...(periods - 2)), at: middle, reason: 0)]
    }
    switch isRefunded ? 4 : chance.within(0...6) {
    case 0:
      (run.renewalOffFrom, run.intent) = (middle, 1)
      run.keepsRetryFlag = isAtTheEdges && chance.percent(50)
      guard chance.percent(60) else { return nil }
      return Successor(
        start: last.end.adding(days: chance.within(0...80)), product: chance.pick([.proMonthly, .premiumMonthly]),
        isAnew: chance.percent(30))
    case 1:
      (run.intent, run.retryDays, run.graceDays) = (2, 60, chance.pick([0, 6, 16]))
      run.hidesGrace = isAtTheEdges && chance.percent(50)
      if run.graceDays > 0, chance.percent(50) {
        return Successor(
          start: last.end, product: run.product, isContinuation: true,
          chargedAt: last.end.adding(days: chance.within(1...(run.graceDays - 1))))
      }
      guard chance.percent(50) else { return nil }
      return Successor(
        start: last.end.adding(days: chance.within((run.graceDays + 1)...50)), product: run.product,
        isContinuation: true)
    case 2 where run.product != .premiumMonthly:
      run.upgradedAt = middle
      if isProduction { run.cancellations.append(.init(period: periods - 1, at: middle, reason: 0)) }
      return Successor(
        start: middle, product: .premiumMonthly, isRefunded: isAtTheEdges && chance.percent(70))
    case 3:
      let product: Product = run.product == .premiumMonthly ? .proMonthly : chance.pick([.proYearly, .proMonthly])
      (run.nextProduct, run.nextProductFrom) = (product, middle)
      return Successor(start: last.end, product: product, isContinuation: true)
    case 4:
      run.cancellations.append(.init(period: periods - 1, at: middle, reason: 1))
      (run.renewalOffFrom, run.intent) = (middle, 1)
      guard chance.percent(60) else { return nil }
      return Successor(
        start: chance.percent(50) ? middle.adding(days: chance.within(1...20)) : last.end,
        product: chance.pick([.proMonthly, .premiumMonthly]))
    case 5:
      (run.intent, run.declinesPrice) = (3, true)
      return nil
    default:
      run.renewalOffFrom = last.start.adding(days: 1)
      run.renewalOnAgainFrom = last.start.adding(days: 2)
      return Successor(start: last.end, product: run.product, isContinuation: true)
    }
  }

  /// The store's knowledge, with renewals charged ahead and refunds taken back.
  func state(at now: Timestamp) -> CustomerState {
    var state = timeline.state(at: now)
    let ahead = timeline.state(at: Timestamp(milliseconds: now.milliseconds + lead))
    for index in state.renewals.indices {
      let renewal = state.renewals[index]
      guard renewal.isOn, !renewal.isInRetry,
        let place = state.rows.lastIndex(where: { $0.slot == renewal.slot }),
        state.rows[place].cancelledAt == nil,
        var row = ahead.rows.first(where: {
          $0.slot == renewal.slot && $0.number == state.rows[place].number + 1 && $0.isRenewal && $0.purchasedAt > now
            && $0.purchasedAt == state.rows[place].expiresAt
        })
      else { continue }
      row.cancelledAt = nil
      state.rows.insert(row, at: place + 1)
      let next = ahead.renewals.first { $0.slot == renewal.slot && $0.product == row.product }
      state.renewals[index].product = row.product
      state.renewals[index].nextProduct = next?.nextProduct ?? row.product
    }
    for index in state.rows.indices {
      let refund = Refund(slot: state.rows[index].slot, number: state.rows[index].number)
      if let at = reversals[refund], at <= now { state.rows[index].cancelledAt = nil }
    }
    for index in state.rows.indices where hidesUpgrades && state.rows[index].isUpgraded {
      let row = state.rows[index]
      let upgrade = state.rows.first { $0.slot == row.slot && $0.number == row.number + 1 }
      if upgrade?.cancelledAt != nil { state.rows[index].isUpgraded = false }
    }
    return state
  }

  /// The most milliseconds after the end of a period in which its renewal is not shown yet.
  var longestDelay: Int { Int(timeline.subscriptions.map(\.renewalsLateBy).max() ?? 0) }

  /// One notification, and when it was posted.
  struct Event {
    var at: Timestamp
    var slot: Int
    var number: Int
    var type: String
    var subtype: String?
  }

  /// The events until then.
  func events(through now: Timestamp) -> [Event] {
    let past = Timestamp(milliseconds: 0)
    let ahead = Timestamp(milliseconds: now.milliseconds + lead)
    var events = StoreEvent.events(in: timeline, after: past, through: ahead).map { event in
      let early = Timestamp(milliseconds: event.at.milliseconds - lead)
      let row = event.row
      let isAhead =
        event.type == "DID_RENEW" && row.purchasedAt == event.at
        && state(at: early).rows.contains { $0.slot == row.slot && $0.number == row.number }
      return Event(
        at: isAhead ? early : event.at, slot: row.slot, number: row.number, type: event.type, subtype: event.subtype)
    }
    for (refund, at) in reversals {
      let rows = timeline.state(at: at.before).rows
      guard
        rows.contains(where: { $0.slot == refund.slot && $0.number == refund.number && $0.cancelledAt != nil })
      else { continue }
      events.append(Event(at: at, slot: refund.slot, number: refund.number, type: "REFUND_REVERSED"))
    }
    return events.filter { $0.at <= now }.sorted { ($0.at, $0.slot, $0.number) < ($1.at, $1.slot, $1.number) }
  }
}

extension SeededRandom {
  mutating func percent(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

  mutating func within(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }

  mutating func pick<Value>(_ values: [Value]) -> Value { values[Int.random(in: values.indices, using: &self)] }
}

import Entitlements
import Foundation
import SeededRandom
import Testing

@testable import Access

/// Random users against an oracle that knows the moments of each, and counts them one by one.
@Suite(.computing) struct UsagePropertyTests {
  /// Clocks that change at midnight, at other times, by half an hour, in the other half of the year, or never.
  static let zones = [
    "UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "America/St_Johns",
    "America/Santiago", "America/Havana", "America/Sao_Paulo", "America/Nuuk", "Africa/Cairo", "Africa/Casablanca",
    "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo", "Asia/Beirut", "Asia/Jerusalem", "Australia/Sydney",
    "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Kiritimati", "Etc/GMT+12",
  ]

  static let meters: [KeyValuePairs<Tier, [String]>] = [
    ["free": ["2 per day"], "plus": ["4 per day"], "pro": ["unlimited"]],
    ["free": ["2 per week"], "plus": ["2 per day"], "pro": ["6 per day", "9 per week"]],
    ["free": ["3 per month"], "plus": ["2 per day", "5 per month"], "pro": ["4 per day"]],
    ["free": ["1 per rolling 7d"], "plus": ["3 per rolling 7d", "2 per rolling 24h"], "pro": ["unlimited"]],
    ["free": ["5 in total"], "plus": ["8 in total", "2 per day"], "pro": ["unlimited", "3 per day"]],
    ["free": ["3 days in a row"], "plus": ["5 days in a row", "2 per day"], "pro": ["unlimited"]],
    ["free": ["0 per day"], "plus": ["1 day in a row"], "pro": ["3 per rolling 36h"]],
    [
      "free": ["1 per week", "2 days in a row"], "plus": ["4 per month", "1 per rolling 25h"], "pro": ["30 in total"],
    ],
  ]

  /// 2027-09-01 to 2028-09-01, with its leap day.
  static let year = 1_819_756_800.0..<1_851_379_200.0

  @Test func `users are let through, refused and told as the oracle says`() async throws {
    let midnights = try Self.zones.map(Midnights.init)
    let features = try Self.meters.map(meter)
    let horizons = features.map(\.horizon)
    let count = SeededRandom.cases(100_000)
    let workers = 8
    let (differences, attempts, refusals) = await withTaskGroup(of: ([String], Int, Int).self) { group in
      for worker in 0..<workers {
        group.addTask {
          var found: ([String], Int, Int) = ([], 0, 0)
          for user in stride(from: worker, to: count, by: workers) where found.0.count < 10 {
            var user = RandomUser(number: user, midnights: midnights, features: features, horizons: horizons)
            user.live()
            found.0 += user.differences
            found.1 += user.attempts
            found.2 += user.refusals
          }
          return found
        }
      }
      return await group.reduce(([], 0, 0)) { ($0.0 + $1.0, $0.1 + $1.1, $0.2 + $1.2) }
    }
    #expect(differences.isEmpty, "\(differences.prefix(5).joined(separator: "\n"))")
    #expect(attempts > 3 * count)
    // Neither all nor none, or nothing is proven.
    #expect(refusals > attempts / 10 && refusals < attempts / 2, "\(refusals) of \(attempts)")
  }
}

/// The beginnings of days in a zone, from Foundation's calendar.
struct Midnights {
  let zone: Zone
  let all: [Date]
  /// Of each day, the days of its week and of its month.
  let weeks: [Range<Int>]
  let months: [Range<Int>]

  init(_ name: String) throws {
    zone = try #require(Zone(named: name))
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = try #require(TimeZone(identifier: name))
    var day = Date(timeIntervalSince1970: UsagePropertyTests.year.lowerBound - 40 * 86_400)
    var all: [Date] = []
    while day.timeIntervalSince1970 < UsagePropertyTests.year.upperBound + 60 * 86_400 {
      let interval = try #require(calendar.dateInterval(of: .day, for: day))
      all.append(interval.start)
      day = interval.end
    }
    self.all = all
    weeks = Self.ranges(all.map { calendar.component(.weekday, from: $0) == 2 })
    months = Self.ranges(all.map { calendar.component(.day, from: $0) == 1 })
  }

  /// The days around each, from a beginning to before the next.
  private static func ranges(_ isBeginning: [Bool]) -> [Range<Int>] {
    isBeginning.indices.map { place in
      let begin = (0...place).last { isBeginning[$0] } ?? 0
      return begin..<((place + 1..<isBeginning.count).first { isBeginning[$0] } ?? isBeginning.count)
    }
  }

  /// The place of the day of a moment.
  func place(of moment: Date) -> Int {
    var (low, high) = (0, all.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if all[middle] <= moment { low = middle } else { high = middle }
    }
    return low
  }
}

/// The rules once more, as simply as can be: over the list of everything that was consumed.
struct Oracle {
  var midnights: Midnights
  var now: Date
  var amount: Int
  var consumed: [Consumption]

  func access(_ feature: Feature, _ tier: Tier) -> FeatureAccess {
    var access = access(feature.allowance(of: tier))
    var more = self
    more.amount = 1
    access.isMoreAllowed = more.access(feature.allowance(of: tier)).isAllowed
    if !access.isAllowed {
      let higher = feature.tiers.drop { $0 != tier }.dropFirst()
      access.upgradeTo = higher.first { self.access(feature.allowance(of: $0)).isAllowed }
    }
    return access
  }

  private func access(_ allowance: Allowance) -> FeatureAccess {
    guard case .meter(let rules) = allowance else { return FeatureAccess(isAllowed: false) }
    // Those that refuse speak before those that do not; then who has least left; then who takes longest.
    var first: (access: FeatureAccess, waits: Date)?
    for rule in rules {
      let next: (access: FeatureAccess, waits: Date) = access(rule)
      guard let other = first else {
        first = next
        continue
      }
      let (left, otherLeft) = (next.access.remaining ?? 0, other.access.remaining ?? 0)
      let isFirst =
        next.access.isAllowed != other.access.isAllowed
        ? !next.access.isAllowed
        : next.access.isAllowed && left != otherLeft ? left < otherLeft : next.waits > other.waits
      if isFirst { first = next }
    }
    return first?.access ?? FeatureAccess(isAllowed: true, current: consumed.reduce(0) { $0 + $1.amount })
  }

  /// With when the wait is over, for comparison.
  private func access(_ rule: MeterRule) -> (FeatureAccess, Date) {
    let today = midnights.place(of: now)
    switch rule.window {
    case .day: return counted(rule, in: today..<today + 1)
    case .week: return counted(rule, in: midnights.weeks[today])
    case .month: return counted(rule, in: midnights.months[today])
    case .total:
      let used = consumed.reduce(0) { $0 + $1.amount }
      return (member(rule, used, used + amount <= rule.maximum, nil), .distantFuture)
    case .rolling(let duration):
      // It counts from its moment until the duration is over.
      let leaves = consumed.map { ($0.moment.advanced(by: duration), $0.amount) }.filter { $0.0 > now }
      let used = leaves.reduce(0) { $0 + $1.1 }
      if used + amount <= rule.maximum {
        let oldest = leaves.map(\.0).min()
        return (member(rule, used, true, oldest), oldest ?? .distantPast)
      }
      let free = leaves.map(\.0).sorted().first { moment in
        leaves.filter { $0.0 > moment }.reduce(0) { $0 + $1.1 } + amount <= rule.maximum
      }
      return (member(rule, used, false, free), free ?? .distantFuture)
    case .daysInARow:
      return run(rule, today)
    }
  }

  private func run(_ rule: MeterRule, _ today: Int) -> (FeatureAccess, Date) {
    let used = Set(consumed.map { midnights.place(of: $0.moment) })
    var length = 0
    for day in (used.min() ?? today)..<max(today, used.min() ?? today) { length = used.contains(day) ? length + 1 : 0 }
    // Of a longer run no more is told than that it is longer.
    let before = min(length, rule.maximum)
    let isToday = used.contains(today)
    let over = midnights.all[isToday ? today + 2 : today + 1]
    let current = before + (isToday ? 1 : 0)
    let resets = current == 0 ? nil : over
    return (member(rule, current, before + 1 <= rule.maximum, resets), resets ?? .distantPast)
  }

  private func counted(_ rule: MeterRule, in days: Range<Int>) -> (FeatureAccess, Date) {
    let window = midnights.all[days.lowerBound]..<midnights.all[days.upperBound]
    let used = consumed.filter { window.contains($0.moment) }.reduce(0) { $0 + $1.amount }
    return (member(rule, used, used + amount <= rule.maximum, window.upperBound), window.upperBound)
  }

  private func member(_ rule: MeterRule, _ used: Int, _ isAllowed: Bool, _ resets: Date?) -> FeatureAccess {
    FeatureAccess(
      isAllowed: isAllowed, limit: rule.maximum, current: used, remaining: max(0, rule.maximum - used),
      resetsAt: resets)
  }
}

/// A year of a user who tries now and then, changes the tier, travels, and meets a clock that was set back.
struct RandomUser {
  private var random: SeededRandom
  private let number: Int
  private let allMidnights: [Midnights]
  private let feature: Feature
  private let horizon: Duration
  private(set) var differences: [String] = []
  private(set) var attempts = 0
  private(set) var refusals = 0

  init(number: Int, midnights: [Midnights], features: [Feature], horizons: [Duration]) {
    self.number = number
    random = SeededRandom(seed: UInt64(number) &* 0x9e37_79b9_7f4a_7c15)
    allMidnights = midnights
    feature = features[number % features.count]
    horizon = horizons[number % features.count]
  }

  mutating func live() {
    var midnights = allMidnights[random.below(allMidnights.count)]
    var tier = feature.tiers[random.below(2)]
    var consumed: [Consumption] = []
    let start = UsagePropertyTests.year.lowerBound + Double(random.below(340)) * 86_400
    var now = Date(millisecondsSince1970: Int64(start) * 1000 + Int64(random.below(86_400_000)))
    for _ in 0..<3 + random.below(3) {
      now = next(after: now, midnights, consumed)
      if random.below(12) == 0 { tier = feature.tiers[random.below(feature.tiers.count)] }
      if random.below(25) == 0 { midnights = allMidnights[random.below(allMidnights.count)] }
      let amount = random.below(6) == 0 ? 1 + random.below(3) : 1
      compare(midnights, tier, now, amount, &consumed)
    }
  }

  private mutating func compare(
    _ midnights: Midnights, _ tier: Tier, _ now: Date, _ amount: Int, _ consumed: inout [Consumption]
  ) {
    attempts += 1
    var oracle = Oracle(midnights: midnights, now: now, amount: amount, consumed: consumed)
    let attempt = Attempt(at: now, in: midnights.zone, amount: amount)
    let usage = feature.usage(for: tier, attempt, consumed)
    let access = feature.access(for: tier, attempt, usage: usage)
    expect(access, oracle.access(feature, tier), "attempt", oracle, tier)
    // Consumption older than the horizon may be forgotten, but for the sum.
    let kept = consumed.filter { $0.moment > now.advanced(by: .zero - horizon) }
    if kept.count < consumed.count {
      let few = Usage(total: usage.total, feature.questions(for: tier, attempt)) { UsageAnswer(to: $0, from: kept) }
      expect(feature.access(for: tier, attempt, usage: few), access, "forgetful", oracle, tier)
    }
    guard access.isAllowed else {
      refusals += 1
      return
    }
    consumed.append(Consumption(moment: now, amount: amount))
    oracle.consumed = consumed
    oracle.amount = 0
    expect(feature.access(for: tier, after: attempt, usage: usage), oracle.access(feature, tier), "after", oracle, tier)
  }

  /// An hour, a day, a week or some weeks later; at the very end of a window; or earlier, where the clock was set back.
  private mutating func next(after now: Date, _ midnights: Midnights, _ consumed: [Consumption]) -> Date {
    let hour: Int64 = 3_600_000
    let step: Int64
    switch random.below(16) {
    case 0: step = 0
    case 1...3: step = Int64(random.below(4_000_000))
    case 4...8: step = 20 * hour + Int64(random.below(9 * 3_600_000))
    case 9, 10: step = 24 * hour * Int64(1 + random.below(8))
    case 11: step = 24 * hour * Int64(20 + random.below(15))
    case 12, 13:
      // The first or the last moment of a day.
      let day = midnights.place(of: now) + 1 + random.below(2)
      return midnights.all[min(day, midnights.all.count - 3)].advanced(by: .milliseconds(-random.below(2)))
    case 14:
      // To the millisecond a week after something was consumed.
      guard let last = consumed.first else { return now }
      return max(now, last.moment.advanced(by: .milliseconds(7 * 24 * hour - Int64(random.below(2)))))
    default: step = -Int64(random.below(30 * 3_600_000))
    }
    let latest = Int64(UsagePropertyTests.year.upperBound + 20 * 86_400) * 1000
    return Date(millisecondsSince1970: min(latest, now.millisecondsSince1970 + step))
  }

  private mutating func expect(
    _ ours: FeatureAccess, _ theirs: FeatureAccess, _ what: String, _ oracle: Oracle, _ tier: Tier
  ) {
    guard ours != theirs else { return }
    differences.append(
      """
      user \(number), \(what), \(tier) of \(feature.allowances), \(oracle.midnights.zone.name), now \
      \(oracle.now.rfc3339), amount \(oracle.amount) after \
      \(oracle.consumed.map { "\($0.moment.rfc3339) \($0.amount)" }): \(ours), not \(theirs)
      """)
  }
}

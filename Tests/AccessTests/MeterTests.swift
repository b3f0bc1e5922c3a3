import Entitlements
import Foundation
import Testing

@testable import Access

/// Each rule in words: when something is tried, and whether it is let through.
@Suite struct MeterTests {
  private typealias Story = [(moment: String, isLetThrough: Bool)]

  private func tell(_ rules: [String], zone: String = "UTC", _ story: Story) throws {
    var trial = try Trial(zone: zone)
    trial.feature = try meter(["free": rules])
    for (moment, isLetThrough) in story {
      #expect(try trial.attempt(moment) == isLetThrough, "\(rules) at \(moment)")
    }
  }

  @Test func `a day begins at midnight of the zone, and what is left does not carry over`() throws {
    try tell(
      ["2 per day"],
      [
        ("2026-01-15 00:00", true), ("2026-01-15 23:59", true), ("2026-01-15 23:59", false), ("2026-01-16 00:00", true),
        ("2026-01-18 12:00", true), ("2026-01-18 13:00", true), ("2026-01-18 14:00", false),
      ])
    // The same moments, at home an hour later.
    try tell(
      ["1 per day"], zone: "Europe/Berlin",
      [
        ("2026-01-15 23:59", true), ("2026-01-16 00:00", true), ("2026-01-16 00:59", false),
      ])
  }

  @Test func `a week begins on Monday`() throws {
    try tell(
      ["1 per week"],
      [
        ("2026-01-18 23:59", true), ("2026-01-19 00:00", true), ("2026-01-25 23:59", false), ("2026-01-26 00:00", true),
      ])
  }

  @Test func `a month ends with its last day, also with the leap day`() throws {
    try tell(
      ["1 per month"],
      [
        ("2028-02-01 00:00", true), ("2028-02-29 23:59", false), ("2028-03-01 00:00", true),
        ("2028-03-31 23:59", false),
        ("2028-04-01 00:00", true),
      ])
    try tell(["1 per month"], [("2026-12-31 23:59", true), ("2027-01-01 00:00", true)])
  }

  @Test func `a rolling window counts from the moment consumed, not from midnight or the first use`() throws {
    try tell(
      ["2 per rolling 7d"],
      [
        ("2026-01-01 10:00", true), ("2026-01-05 12:00", true), ("2026-01-08 09:59", false), ("2026-01-08 10:00", true),
        ("2026-01-12 11:59", false), ("2026-01-12 12:00", true),
      ])
  }

  @Test func `rolling days last 24 hours, also where the clocks change`() throws {
    try tell(
      ["1 per rolling 24h"], zone: "Europe/Berlin",
      [
        ("2026-03-28 12:00", true), ("2026-03-29 12:30", false), ("2026-03-29 13:00", true),
      ])
  }

  @Test func `a total is never given back`() throws {
    try tell(["1 in total"], [("2026-01-01", true), ("2026-01-02", false), ("2036-01-02", false)])
  }

  @Test func `days in a row are over on the day after the last, and begin again after a day without`() throws {
    try tell(
      ["3 days in a row"],
      [
        ("2026-01-01 08:00", true), ("2026-01-01 20:00", true), ("2026-01-02 23:59", true), ("2026-01-03 00:00", true),
        // The third day stays free to its end, the fourth is not.
        ("2026-01-03 23:59", true), ("2026-01-04 00:00", false), ("2026-01-04 23:59", false),
        // The fourth was left out.
        ("2026-01-05 00:00", true), ("2026-01-06 12:00", true), ("2026-01-07 12:00", true), ("2026-01-08 12:00", false),
      ])
  }

  @Test func `a day left out begins the days anew`() throws {
    try tell(
      ["3 days in a row"],
      [
        ("2026-01-01", true), ("2026-01-02", true), ("2026-01-04", true), ("2026-01-05", true), ("2026-01-06", true),
        ("2026-01-07", false),
      ])
  }

  @Test func `all of several rules have to hold`() throws {
    try tell(
      ["3 per month", "2 per day"],
      [
        ("2026-01-01 01:00", true), ("2026-01-01 02:00", true), ("2026-01-01 03:00", false), ("2026-01-02 00:00", true),
        ("2026-01-03 00:00", false), ("2026-02-01 00:00", true),
      ])
  }

  @Test func `the clocks go forward over midnight: the day begins at one`() throws {
    // 6 September 2026 in Chile.
    try tell(
      ["1 per day"], zone: "America/Santiago",
      [
        ("2026-09-05 23:59", true), ("2026-09-06 01:00", true), ("2026-09-06 23:59", false), ("2026-09-07 00:00", true),
      ])
  }

  // MARK: - What is told

  @Test func `a window tells its end, whatever is used`() throws {
    var trial = try Trial("2 per day", zone: "Europe/Berlin")
    let midnight = try moment("2026-03-30 00:00", in: "Europe/Berlin")
    #expect(
      try trial.ask("2026-03-29 12:00")
        == FeatureAccess(isAllowed: true, limit: 2, current: 0, remaining: 2, resetsAt: midnight))
    #expect(try trial.attempt("2026-03-29 12:00", amount: 2))
    #expect(
      try trial.ask("2026-03-29 12:00")
        == FeatureAccess(isAllowed: false, limit: 2, current: 2, remaining: 0, resetsAt: midnight, upgradeTo: "pro"))
  }

  @Test func `a rolling window resets when this amount would be let through, else when the oldest leaves`() throws {
    var trial = try Trial("4 per rolling 7d")
    #expect(try trial.ask("2026-01-01") == FeatureAccess(isAllowed: true, limit: 4, current: 0, remaining: 4))
    for day in ["2026-01-01", "2026-01-02", "2026-01-03"] { #expect(try trial.attempt(day)) }
    #expect(try trial.ask("2026-01-04").resetsAt == moment("2026-01-08"))
    #expect(try trial.ask("2026-01-04", amount: 2).resetsAt == moment("2026-01-08"))
    #expect(try trial.ask("2026-01-04", amount: 3).resetsAt == moment("2026-01-09"))
    #expect(try trial.ask("2026-01-04", amount: 4).resetsAt == moment("2026-01-10"))
    let never = try trial.ask("2026-01-04", amount: 5)
    #expect(never == FeatureAccess(isAllowed: false, limit: 4, current: 3, remaining: 1, upgradeTo: "pro"))
  }

  @Test func `a meter in total never resets`() throws {
    var trial = try Trial("1 in total")
    #expect(try trial.attempt("2026-01-01"))
    #expect(
      try trial.ask("2027-01-01")
        == FeatureAccess(isAllowed: false, limit: 1, current: 1, remaining: 0, upgradeTo: "pro"))
  }

  @Test func `days in a row come back at the midnight after the day that has to be left out`() throws {
    var trial = try Trial("3 days in a row")
    #expect(try trial.ask("2026-01-01") == FeatureAccess(isAllowed: true, limit: 3, current: 0, remaining: 3))
    #expect(try trial.attempt("2026-01-01"))
    // Today is used: tomorrow would be left out. Tomorrow, unused yet: the day itself.
    #expect(try trial.ask("2026-01-01 23:00").resetsAt == moment("2026-01-03"))
    #expect(try trial.ask("2026-01-02 01:00").resetsAt == moment("2026-01-03"))
    #expect(try trial.attempt("2026-01-02") && trial.attempt("2026-01-03"))
    #expect(
      try trial.ask("2026-01-03 12:00", amount: 1_000)
        == FeatureAccess(
          isAllowed: true, isMoreAllowed: true, limit: 3, current: 3, remaining: 0, resetsAt: moment("2026-01-05")))
    let refused = FeatureAccess(
      isAllowed: false, limit: 3, current: 3, remaining: 0, resetsAt: try moment("2026-01-05"), upgradeTo: "pro")
    #expect(try trial.ask("2026-01-04 00:00") == refused)
    #expect(try trial.ask("2026-01-04 23:59") == refused)
    #expect(try trial.ask("2026-01-05 00:00") == FeatureAccess(isAllowed: true, limit: 3, current: 0, remaining: 3))
  }

  @Test func `unlimited tells no limit, and what was ever consumed`() throws {
    var trial = try Trial("1 in total")
    trial.tier = "pro"
    for _ in 0..<3 { #expect(try trial.attempt("2026-01-01", amount: 5)) }
    #expect(try trial.ask("2026-01-01") == FeatureAccess(isAllowed: true, current: 15))
  }

  @Test func `the rule that refuses decides, else the one with least left, else the later one`() throws {
    var trial = try Trial("3 per month", "2 per day")
    // Two left of the day, three of the month.
    #expect(try trial.ask("2026-01-01").limit == 2)
    #expect(try trial.attempt("2026-01-01"))
    #expect(try trial.attempt("2026-01-02"))
    // One left of the month and of the day after one more: the month ends later.
    #expect(try trial.ask("2026-01-03").limit == 3)
    #expect(try trial.attempt("2026-01-03"))
    // Both refuse two: the month for longer.
    let refused = try trial.ask("2026-01-03", amount: 2)
    #expect(refused.resetsAt == (try moment("2026-02-01")))
    #expect(refused.current == 3)
    // Of equal remainders the later end.
    let tie = try Trial("2 per day", "2 per week", "2 in total")
    #expect(try tie.ask("2026-01-03").resetsAt == nil)
  }

  @Test func `one more is allowed where every rule allows it`() throws {
    var trial = try Trial("1 day in a row", "2 per day")
    #expect(try trial.attempt("2026-01-01"))
    // None of the days remains, and today is one of them.
    let one = try trial.ask("2026-01-01", amount: 2)
    #expect(!one.isAllowed && one.isMoreAllowed)
    #expect(try trial.attempt("2026-01-01"))
    #expect(try !trial.ask("2026-01-01").isMoreAllowed)
    #expect(try !trial.ask("2026-01-02").isMoreAllowed)
  }

  // MARK: - Tiers

  @Test func `a counter survives a change of tier: only the maximum changes`() throws {
    var trial = try Trial()
    trial.feature = try meter(["free": ["2 per month"], "pro": ["5 per month"]])
    trial.tier = "pro"
    for _ in 0..<4 { #expect(try trial.attempt("2026-01-10")) }
    trial.tier = "free"
    let free = try trial.ask("2026-01-11")
    #expect(!free.isAllowed && free.current == 4 && free.limit == 2 && free.remaining == 0 && free.upgradeTo == "pro")
    trial.tier = "pro"
    #expect(try trial.attempt("2026-01-12"))
    #expect(try trial.ask("2026-01-12").upgradeTo == nil)
  }

  @Test func `after a tier without limit the days in a row are over until one is left out`() throws {
    var trial = try Trial("3 days in a row")
    trial.tier = "pro"
    for day in 1...20 { #expect(try trial.attempt("2026-01-\(day) 12:00")) }
    trial.tier = "free"
    // Longer than three is all that is known.
    let today = try trial.ask("2026-01-20 18:00")
    #expect(!today.isAllowed && today.current == 4 && today.remaining == 0)
    #expect(today.resetsAt == (try moment("2026-01-22")))
    #expect(try trial.ask("2026-01-21 18:00").resetsAt == moment("2026-01-22"))
    #expect(try trial.attempt("2026-01-22"))
  }

  @Test func `the lowest tier above is named that would let this amount through`() throws {
    let feature = try meter([
      "free": ["1 in total"], "plus": ["3 in total"], "pro": ["10 in total"], "max": ["2 in total"],
    ])
    let utc = try #require(Zone(named: "UTC"))
    let now = try moment("2026-01-01")
    let consumed = [Consumption(moment: now, amount: 1)]
    let upgrades = [1, 2, 3, 10].map {
      feature.access(for: "free", at: now, in: utc, amount: $0, after: consumed).upgradeTo
    }
    #expect(upgrades == ["plus", "plus", "pro", nil])
    #expect(feature.access(for: "pro", at: now, in: utc, amount: 10, after: consumed).upgradeTo == nil)
  }

  @Test func `a clock that is set back forgets nothing of its window`() throws {
    var trial = try Trial("1 per day")
    #expect(try trial.attempt("2026-01-01 12:00"))
    #expect(try !trial.attempt("2026-01-01 11:00"))
    var rolling = try Trial("1 per rolling 1h")
    #expect(try rolling.attempt("2026-01-01 12:00"))
    #expect(try rolling.ask("2026-01-01 10:00").resetsAt == moment("2026-01-01 13:00"))
  }

  // MARK: - Questions

  @Test func `few questions are asked, and none about a tier without rules`() throws {
    let feature = try meter([
      "free": ["3 days in a row", "1 per rolling 7d"], "plus": ["1 per rolling 7d", "5 in total"], "pro": ["unlimited"],
    ])
    let attempt = Attempt(at: try moment("2026-01-15"), in: try #require(Zone(named: "UTC")))
    // Four days and a week, for both tiers the same.
    #expect(feature.questions(for: "free", attempt).count == 5)
    #expect(feature.questions(for: "plus", attempt).count == 1)
    #expect(feature.questions(for: "pro", attempt).isEmpty)
    #expect(feature.horizon == .seconds(8 * 86_400))
  }

  @Test func `a question without an answer refuses`() throws {
    let attempt = Attempt(at: try moment("2026-01-15"), in: try #require(Zone(named: "UTC")))
    let nothing = Usage(total: 0, []) { _ in UsageAnswer() }
    for rule in ["5 per day", "5 per rolling 7d", "5 days in a row"] {
      #expect(try !meter(["free": [rule]]).access(for: "free", attempt, usage: nothing).isAllowed)
    }
  }

  @Test(arguments: [(0, 3), (1, 3), (2, 2), (3, 1), (4, 1), (5, 1), (6, nil)] as [(Int, Int?)])
  func `the blocking consumption is the latest from which on too much was consumed`(keeping: Int, day: Int?) throws {
    let consumed = try [(1, 3), (2, 1), (3, 2)].map { Consumption(moment: try moment("2026-01-0\($0)"), amount: $1) }
    var question = UsageQuestion(range: try moment("2026-01-01")..<Date.distantFuture)
    question.keeping = keeping
    for list in [consumed, consumed.reversed()] {
      let answer = UsageAnswer(to: question, from: list)
      #expect(answer.blocking == (try day.map { try moment("2026-01-0\($0)") }))
      #expect(answer.amount == 6 && answer.oldest == consumed[0].moment)
    }
  }

  @Test func `sums do not overflow`() throws {
    let trial = try Trial("1000000000 in total")
    let zone = try #require(Zone(named: "UTC"))
    let attempt = Attempt(at: try moment("2026-01-15"), in: zone, amount: .max)
    let usage = Usage(total: .max, []) { _ in UsageAnswer() }
    #expect(!trial.feature.access(for: "free", attempt, usage: usage).isAllowed)
    #expect(trial.feature.access(for: "pro", after: attempt, usage: usage).current == .max)
  }
}

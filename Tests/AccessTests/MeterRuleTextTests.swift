import Access
import Entitlements
import Testing

@Suite struct MeterRuleTextTests {
  @Test(arguments: [
    ("40 per day", MeterRule(maximum: 40, window: .day)),
    ("5 per week", MeterRule(maximum: 5, window: .week)),
    ("10 per month", MeterRule(maximum: 10, window: .month)),
    ("1 per rolling 7d", MeterRule(maximum: 1, window: .rolling(.seconds(7 * 86_400)))),
    ("1 per rolling 36h", MeterRule(maximum: 1, window: .rolling(.seconds(36 * 3600)))),
    ("1 in total", MeterRule(maximum: 1, window: .total)),
    ("3 days in a row", MeterRule(maximum: 3, window: .daysInARow)),
    ("1 day in a row", MeterRule(maximum: 1, window: .daysInARow)),
    ("0 per day", MeterRule(maximum: 0, window: .day)),
    ("1000000000 in total", MeterRule(maximum: 1_000_000_000, window: .total)),
  ])
  func `a rule is read, and written as it was`(text: String, rule: MeterRule) throws {
    #expect(try MeterRule.rules([text]) == [rule])
    #expect(rule.text == text)
  }

  @Test func `unlimited is no rule, also beside others`() throws {
    #expect(try MeterRule.rules(["unlimited"]) == [])
    #expect(try MeterRule.rules(["unlimited", "10  per day"]) == [MeterRule(maximum: 10, window: .day)])
  }

  @Test(arguments: [
    ("", "must be a rule such as 40 per day, 10 per month, 1 per rolling 7d, 1 in total, 3 days in a row or unlimited"),
    ("unlimitd", "must be a rule such as 40 per day"), ("10", "must be a rule such as 40 per day"),
    ("10 times", "must be a rule such as 40 per day"),
    ("ten per day", "must begin with a whole number up to 1000000000"),
    ("-1 per day", "must begin with a whole number"), ("+1 per day", "must begin with a whole number"),
    ("1.5 per day", "must begin with a whole number"), ("1000000001 per day", "must begin with a whole number"),
    ("99999999999999999999 per day", "must begin with a whole number"), ("١ per day", "must begin with a whole number"),
    ("10 per mounth", "must be per day, week, month or rolling and a duration such as 7d"),
    ("10 per", "must be per day, week"), ("10 per rolling", "must be per day, week"),
    ("10 per rolling 7d 8d", "must be per day, week"), ("10 per day day", "must be per day, week"),
    ("10 per rolling week", "per rolling must be a duration such as"),
    ("10 per rolling 1s", "per rolling must be from 1m to 366d"),
    ("10 per rolling 367d", "per rolling must be from 1m to 366d"), ("1 in all", "must end in total"),
    ("3 days", "must end with days in a row"), ("3 days in row", "must end with days in a row"),
    ("0 days in a row", "must be from 1 to 366 days in a row"),
    ("367 days in a row", "must be from 1 to 366 days in a row"),
  ])
  func `a wrong rule is refused with a sentence`(text: String, sentence: String) throws {
    let error = try #require(throws: MeterRule.TextError.self) { try MeterRule.rules([text]) }
    #expect(error.sentence.hasPrefix(sentence), "\(error.sentence)")
  }

  @Test func `the wrong word is told, with what may stand there`() throws {
    let error = try #require(throws: MeterRule.TextError.self) { try MeterRule.rules(["10 per mounth"]) }
    #expect(error.word == "mounth")
    #expect(error.known.contains("month"))
  }
}

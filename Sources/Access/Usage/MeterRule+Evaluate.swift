import Entitlements
import struct FoundationEssentials.Date

struct MeterState {
  var isAllowed: Bool
  /// Whether one more is allowed, whatever the amount of the attempt.
  var isMoreAllowed: Bool
  var limit: Int
  var current: Int
  /// When the rule allows more; `nil` for never, and while some is left.
  var resetsAt: Date?
  var remaining: Int { max(0, limit - current) }
  /// Whether the rule never allows more.
  var isForEver = false

  /// Whether the rule is stricter than another one: it refuses, has less left, or resets later.
  func precedes(_ other: MeterState) -> Bool {
    if isAllowed != other.isAllowed { return !isAllowed }
    if isAllowed, remaining != other.remaining { return remaining < other.remaining }
    return waitsUntil > other.waitsUntil
  }

  private var waitsUntil: Date { resetsAt ?? (isForEver ? .distantFuture : .distantPast) }
}

extension MeterRule {
  /// The questions about the past that the rule asks.
  ///
  ///     per day, week, month   1 range
  ///     per rolling …          1 range, with its oldest moment and the one that has to leave it
  ///     days in a row          1 range for each day, from today back
  ///     in total               none
  func questions(_ attempt: Attempt) -> [UsageQuestion] {
    switch window {
    case .day, .week, .month: return [UsageQuestion(range: calendarWindow(attempt))]
    case .rolling(let duration):
      // Consumption at the very start of the range leaves it now.
      let start = attempt.now.advanced(by: .milliseconds(1) - duration)
      return [UsageQuestion(range: start..<Date.distantFuture, keeping: maximum - attempt.amount)]
    case .total: return []
    case .daysInARow: return (0...maximum).map { question(aboutDay: attempt.today - $0, attempt) }
    }
  }

  func evaluate(_ attempt: Attempt, _ usage: Usage) -> MeterState {
    switch window {
    case .day, .week, .month:
      let range = calendarWindow(attempt)
      return counted(usage[UsageQuestion(range: range)].amount, attempt, resetsAt: range.upperBound)
    case .rolling(let duration):
      let answer = questions(attempt).first.map { usage[$0] } ?? UsageAnswer()
      var state = counted(answer.amount, attempt)
      // More than the maximum is never allowed.
      state.isForEver = attempt.amount > maximum
      if !state.isForEver {
        state.resetsAt = (state.isAllowed ? answer.oldest : answer.blocking)?.advanced(by: duration)
      }
      return state
    case .total:
      var state = counted(usage.total, attempt)
      state.isForEver = true
      return state
    case .daysInARow: return run(attempt, usage)
    }
  }

  /// A run of days has no window of its own, and a day that was emptied would never end it: there times are counted, over
  /// the last 62 days.
  func returnLimit(_ attempt: Attempt) -> ReturnLimit {
    func last(_ duration: Duration) -> Range<Date> {
      attempt.now.advanced(by: .milliseconds(1) - duration)..<Date.distantFuture
    }
    return switch window {
    case .day, .week, .month: ReturnLimit(range: calendarWindow(attempt), maximum: maximum)
    case .rolling(let duration): ReturnLimit(range: last(duration), maximum: maximum)
    case .total: ReturnLimit(range: Date.distantPast..<Date.distantFuture, maximum: maximum)
    case .daysInARow: ReturnLimit(range: last(.seconds(62 * 86_400)), maximum: maximum, countsTimes: true)
    }
  }

  /// The first moment at which time alone may change the result.
  func nextChange(_ attempt: Attempt, _ usage: Usage) -> Date? {
    switch window {
    case .day, .week, .month: calendarWindow(attempt).upperBound
    case .rolling(let duration): questions(attempt).first.flatMap { usage[$0].oldest }?.advanced(by: duration)
    case .total: nil
    case .daysInARow: attempt.days.start(of: attempt.today + 1)
    }
  }

  private func counted(_ used: Int, _ attempt: Attempt, resetsAt: Date? = nil) -> MeterState {
    MeterState(
      isAllowed: used.adding(attempt.amount) <= maximum, isMoreAllowed: used < maximum, limit: maximum, current: used,
      resetsAt: resetsAt)
  }

  /// The run of days that today is or would be part of. It is not followed further back than it takes to see that it is
  /// too long: after a tier without this rule it may be much longer.
  private func run(_ attempt: Attempt, _ usage: Usage) -> MeterState {
    func isUsed(_ day: Int) -> Bool { usage[question(aboutDay: day, attempt)].amount > 0 }
    let before = (1..<maximum + 1).prefix { isUsed(attempt.today - $0) }.count
    let isToday = isUsed(attempt.today)
    let last: Int? = isToday ? attempt.today : before > 0 ? attempt.today - 1 : nil
    return MeterState(
      isAllowed: before < maximum, isMoreAllowed: before < maximum, limit: maximum,
      current: before + (isToday ? 1 : 0),
      // One whole day has to be left out after the last one.
      resetsAt: last.map { attempt.days.start(of: $0 + 2) })
  }

  private func question(aboutDay day: Int, _ attempt: Attempt) -> UsageQuestion {
    UsageQuestion(range: attempt.days.moments(of: day..<day + 1))
  }

  private func calendarWindow(_ attempt: Attempt) -> Range<Date> {
    let days =
      switch window {
      case .week: attempt.days.week(of: attempt.today)
      case .month: attempt.days.month(of: attempt.today)
      case .day, .rolling, .total, .daysInARow: attempt.today..<attempt.today + 1
      }
    return attempt.days.moments(of: days)
  }
}

package import struct FoundationEssentials.Date

/// An amount of a feature that a user consumes at a moment, or asks about.
package struct Attempt: Sendable {
  /// Read once, so that the checked amount is the counted one.
  package let now: Date
  package private(set) var amount: Int
  let days: LocalDays
  let today: Int

  /// - Parameters:
  ///   - now: our own clock's time.
  ///   - zone: in which calendar windows begin and end.
  ///   - amount: zero asks only about the consumption so far.
  package init(at now: Date, in zone: Zone, amount: Int = 1) {
    self.now = now
    self.amount = amount
    days = LocalDays(zone: zone)
    today = days.day(of: now)
  }

  /// The same moment, when the amount has been consumed.
  var consumed: Attempt {
    var consumed = self
    consumed.amount = 0
    return consumed
  }
}

/// A question of the rules about a user's consumption of a feature.
///
/// Each takes a few rows of an index by user, feature and moment. An unlimited tier asks nothing, however much
/// was consumed.
package struct UsageQuestion: Hashable, Sendable {
  /// The moments that count, also those after now: a clock that was set back forgets nothing.
  package let range: Range<Date>
  /// Where it is not `nil`, `UsageAnswer.oldest` and `UsageAnswer.blocking` are asked for besides the amount.
  package var keeping: Int?

  package init(range: Range<Date>, keeping: Int? = nil) {
    self.range = range
    self.keeping = keeping
  }
}

package struct UsageAnswer: Hashable, Sendable {
  package var amount: Int
  /// The first moment at which something was consumed.
  package var oldest: Date?
  /// The latest moment from which on more was consumed than `UsageQuestion.keeping`, itself included: the last of those
  /// that have to leave the range before only so much is left in it.
  ///
  ///     consumed    3   1   2        keeping 0: the 2; 1: the 2; 2: the 1; 3, 4, 5: the 3; 6: none
  package var blocking: Date?

  package init(amount: Int = 0, oldest: Date? = nil, blocking: Date? = nil) {
    self.amount = amount
    self.oldest = oldest
    self.blocking = blocking
  }
}

/// A user's consumption of a feature: the answers to the rules' questions.
package struct Usage: Hashable, Sendable {
  /// The sum of all time of a meter; how many exist of a limit.
  package private(set) var total: Int
  private var answers: [UsageQuestion: UsageAnswer]

  /// - Parameter answer: answers a question, by reading one range.
  package init<Failure: Error>(
    total: Int, _ questions: Set<UsageQuestion>, answer: (UsageQuestion) throws(Failure) -> UsageAnswer
  ) throws(Failure) {
    self.total = total
    answers = [:]
    for question in questions { answers[question] = try answer(question) }
  }

  /// An unknown question counts as used up: a bug of ours refuses, and never allows.
  package subscript(_ question: UsageQuestion) -> UsageAnswer { answers[question] ?? UsageAnswer(amount: .max) }

  /// The usage after an allowed attempt, for the questions of a further attempt of zero.
  func adding(_ attempt: Attempt) -> Usage {
    var sum = self
    sum.total = total.adding(attempt.amount)
    sum.answers = [:]
    for (question, answer) in answers {
      var (question, answer) = (question, answer)
      if question.range.contains(attempt.now) {
        answer.amount = answer.amount.adding(attempt.amount)
        answer.oldest = min(answer.oldest ?? attempt.now, attempt.now)
      }
      question.keeping = question.keeping.map { $0.adding(attempt.amount) }
      sum.answers[question] = answer
    }
    return sum
  }
}

package struct Consumption: Hashable, Sendable {
  package var moment: Date
  package var amount: Int

  package init(moment: Date, amount: Int) {
    self.moment = moment
    self.amount = amount
  }
}

extension UsageAnswer {
  /// Answers a question from a list, in any order: the meaning of `UsageAnswer`, for a store that keeps lists.
  package init(to question: UsageQuestion, from consumptions: [Consumption]) {
    let counted = consumptions.filter { question.range.contains($0.moment) }
    self.init(amount: counted.reduce(0) { $0.adding($1.amount) })
    guard let keeping = question.keeping else { return }
    oldest = counted.map(\.moment).min()
    var left = 0
    for consumption in counted.sorted(by: { $1.moment < $0.moment }) {
      left = left.adding(consumption.amount)
      guard left <= keeping else {
        blocking = consumption.moment
        return
      }
    }
  }
}

extension Int {
  /// The sum, or the largest number.
  func adding(_ other: Int) -> Int {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? .max : sum
  }
}

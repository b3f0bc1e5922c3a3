import AppStore
import Entitlements
import Foundation
import TestSupport
import Testing

@testable import Validation

@Suite struct RecentAnswersTests {
  private static let date = Date(timeIntervalSince1970: 1_718_452_800)

  private static func receipt(_ number: Int) -> PurchaseReference.Identity {
    .receipt(ReceiptFingerprint(of: Array("receipt \(number)".utf8)))
  }

  private static func answer(_ appleStatus: AppleStatus = .valid, rows: Int = 1) -> AppStoreAnswer {
    let purchases = (0..<rows).map { number in
      Purchase(productID: "p", transactionID: TransactionID("\(number)"), originalTransactionID: "1")
    }
    return AppStoreAnswer(
      history: PurchaseHistory(
        environment: .production, source: .verifyReceipt, evidenceTime: date, evaluatedAt: date, purchases: purchases),
      bundleID: "com.example.app", appleStatus: appleStatus)
  }

  private func answers(_ lifetime: Duration = .seconds(30)) -> (RecentAnswers, SleepingClock) {
    let clock = SleepingClock()
    return (RecentAnswers(lifetime: lifetime, clock: { clock.now }), clock)
  }

  @Test func `an answer is there for its lifetime, and not a moment longer`() {
    let (answers, clock) = answers()
    answers.keep(Self.answer(.expired), of: Self.receipt(1))
    #expect(answers[Self.receipt(2)] == nil)
    clock.pass(.seconds(30) - .nanoseconds(1))
    #expect(answers[Self.receipt(1)]?.appleStatus == .expired)
    clock.pass(.nanoseconds(1))
    #expect(answers[Self.receipt(1)] == nil)
  }

  @Test func `a lifetime of zero keeps nothing`() {
    let (answers, _) = answers(.zero)
    answers.keep(Self.answer(), of: Self.receipt(1))
    #expect(answers[Self.receipt(1)] == nil)
    #expect(answers.count == 0)
  }

  @Test func `a newer answer takes the place of an older, and lives as long as any`() {
    let (answers, clock) = answers()
    answers.keep(Self.answer(.valid), of: Self.receipt(1))
    clock.pass(.seconds(20))
    answers.keep(Self.answer(.expired), of: Self.receipt(1))
    #expect(answers.count == 1)
    // The first one's time is over, and its end does not take the second along.
    clock.pass(.seconds(20))
    answers.keep(Self.answer(), of: Self.receipt(2))
    #expect(answers[Self.receipt(1)]?.appleStatus == .expired)
    #expect(answers.count == 2)
  }

  @Test func `the answers that are kept are bounded, and the oldest go first`() {
    let (answers, clock) = answers()
    for number in 0..<(3 * RecentAnswers.limit) {
      answers.keep(Self.answer(), of: Self.receipt(number))
      clock.pass(.microseconds(1))
      #expect(answers.count <= RecentAnswers.limit)
    }
    #expect(answers.count == RecentAnswers.limit)
    #expect(answers[Self.receipt(2 * RecentAnswers.limit - 1)] == nil)
    #expect(answers[Self.receipt(2 * RecentAnswers.limit)] != nil)
    #expect(answers[Self.receipt(3 * RecentAnswers.limit - 1)] != nil)
  }

  @Test func `one receipt that is answered again and again pushes no other out of its time`() {
    let (answers, clock) = answers()
    answers.keep(Self.answer(), of: Self.receipt(1))
    for _ in 0..<(RecentAnswers.limit - 1) {
      answers.keep(Self.answer(), of: Self.receipt(2))
      clock.pass(.microseconds(1))
    }
    #expect(answers.count == 2)
    #expect(answers[Self.receipt(1)] != nil)
  }

  @Test func `expired answers make room with the next that comes`() {
    let (answers, clock) = answers()
    for number in 0..<100 { answers.keep(Self.answer(), of: Self.receipt(number)) }
    clock.pass(.seconds(31))
    answers.keep(Self.answer(), of: Self.receipt(100))
    #expect(answers.count == 1)
  }

  @Test func `an answer of very many rows is not kept: memory is bounded too`() {
    let (answers, _) = answers()
    answers.keep(Self.answer(rows: RecentAnswers.rowLimit), of: Self.receipt(1))
    answers.keep(Self.answer(rows: RecentAnswers.rowLimit + 1), of: Self.receipt(2))
    #expect(answers[Self.receipt(1)] != nil)
    #expect(answers[Self.receipt(2)] == nil)
  }
}

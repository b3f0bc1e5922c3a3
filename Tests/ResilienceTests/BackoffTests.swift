import Testing

@testable import Resilience

@Suite struct BackoffTests {
  private let backoff = Backoff(base: .seconds(1), cap: .seconds(10))

  @Test func `the ceiling doubles with each failure up to the cap`() {
    #expect((0...5).map(backoff.ceiling) == [1, 2, 4, 8, 10, 10].map { .seconds($0) })
  }

  @Test(arguments: [
    (Int.min, 1), (-1, 1), (40, 10), (62, 10), (63, 10), (64, 10), (Int.max, 10),
  ])
  func `no count of failures overflows`(failures: Int, seconds: Int) {
    #expect(backoff.ceiling(after: failures) == .seconds(seconds))
  }

  @Test func `a short base reaches a long cap, and a long base does not overflow`() {
    #expect(Backoff(base: .microseconds(1), cap: .seconds(86_400)).ceiling(after: 40) == .seconds(86_400))
    #expect(Backoff(base: .seconds(366 * 86_400), cap: .seconds(1)).ceiling(after: .max) == .seconds(1))
    #expect(Backoff(base: .zero, cap: .seconds(1)).ceiling(after: .max) == .zero)
  }

  @Test(arguments: [(Duration.zero, 2000), (.milliseconds(700), 2700), (.seconds(9), 4000), (.seconds(-9), 2000)])
  func `a drawn pause is between half of the ceiling and all of it, whatever chance says`(
    chance: Duration, milliseconds: Int
  ) {
    #expect(backoff.drawn(after: 2) { _ in chance } == .milliseconds(milliseconds))
    #expect(backoff.drawn(after: 9) { $0 } == .seconds(10))
  }
}

import NIOCore
import Testing

@testable import CountersignServer

/// The rule alone, over moments that are written down.
@Suite struct BodyPaceTests {
  private static func at(_ milliseconds: Int64) -> NIODeadline {
    .uptimeNanoseconds(1_000_000_000_000) + .milliseconds(milliseconds)
  }

  private static func waiting() -> BodyPace {
    var pace = BodyPace()
    pace.wait(from: at(0))
    return pace
  }

  @Test func `a client that sends nothing is too slow after five seconds`() {
    let pace = Self.waiting()
    #expect(!pace.isTooSlow(at: Self.at(4_999)))
    #expect(pace.isTooSlow(at: Self.at(5_000)))
    #expect(pace.deadline == Self.at(5_000))
  }

  @Test func `a kilobyte a second is never too slow, and half of it is within ten`() {
    var pace = Self.waiting()
    for second in 1...600 {
      let now = Self.at(Int64(second) * 1_000)
      #expect(!pace.isTooSlow(at: now))
      pace.note(1_024, at: now)
    }
    var drip = Self.waiting()
    var end: Int64 = 0
    for step in 1...200 where end == 0 {
      let now = Self.at(Int64(step) * 100)
      if drip.isTooSlow(at: now) { end = Int64(step) * 100 }
      drip.note(51, at: now)
    }
    #expect((9_900...10_100).contains(end), "\(end)")
  }

  @Test func `bytes that came at once buy no more than the first patience`() {
    var pace = Self.waiting()
    pace.note(4 << 20, at: Self.at(10))
    #expect(pace.deadline == Self.at(5_010))
    #expect(pace.isTooSlow(at: Self.at(5_010)))
    pace.note(.max, at: Self.at(20))
    #expect(pace.deadline == Self.at(5_020))
  }

  @Test func `after a silence a burst counts in full, and a byte for a byte`() {
    var pace = Self.waiting()
    pace.note(1, at: Self.at(4_900))
    #expect(pace.isTooSlow(at: Self.at(5_001)))
    pace.note(1 << 20, at: Self.at(4_950))
    #expect(pace.deadline == Self.at(9_950))
  }

  @Test func `the time in which nothing is asked of the peer does not count`() {
    var pace = Self.waiting()
    pace.pause(at: Self.at(3_000))
    #expect(pace.deadline == nil && !pace.isTooSlow(at: Self.at(60_000)))
    pace.wait(from: Self.at(60_000))
    pace.wait(from: Self.at(61_000))
    #expect(pace.deadline == Self.at(62_000))
  }
}

import TestSupport
import Testing

import struct FoundationEssentials.Date

@testable import Validation

@Suite struct DowngradeBrakeTests {
  private static let start = ContinuousClock.now
  private static let date = Date(timeIntervalSince1970: 1_718_452_800).withNanoseconds

  private static func after(_ duration: Duration) -> DowngradeBrake.Instant { start.advanced(by: duration) }
  private static func hours(_ hours: Double) -> Duration { .milliseconds(Int64(hours * 3_600_000)) }

  /// A brake that saw so many users at the start.
  private func brake(looked: Int = 0, share: Double = 0.20) -> DowngradeBrake {
    var brake = DowngradeBrake(share: share, at: Self.start)
    for _ in 0..<looked { brake.looked(at: Self.start) }
    return brake
  }

  /// How many of so many attempts pass.
  private func passed(
    _ attempts: Int, _ brake: inout DowngradeBrake, at instant: DowngradeBrake.Instant = start, date: Date = date
  ) -> Int {
    var passed = 0
    for _ in 0..<attempts where brake.mayLower(at: instant, date: date) { passed += 1 }
    return passed
  }

  @Test(arguments: [
    (0, 0.20, 10), (1, 0.20, 10), (49, 0.20, 10), (50, 0.20, 10), (51, 0.20, 10), (54, 0.20, 10), (55, 0.20, 11),
    (100, 0.20, 20), (101, 0.20, 20), (104, 0.20, 20), (105, 0.20, 21), (1000, 0.20, 200), (100, 0.29, 29),
    (100, 0.07, 7), (50, 0, 0), (60, 1, 60),
  ])
  func `a share of at least fifty may be lowered, and one more engages`(looked: Int, share: Double, limit: Int) {
    var brake = brake(looked: looked, share: share)
    #expect(passed(limit, &brake) == limit)
    #expect(brake.engagement == nil)
    #expect(passed(1, &brake) == 0)
    #expect(brake.engagement == .init(since: Self.date, lowered: limit, looked: looked, withheld: 1))
  }

  @Test func `engaged, it stays so for as long as nobody releases it, and counts what it withholds`() {
    var brake = brake()
    #expect(passed(11, &brake) == 10)
    for day in 1...400 {
      for _ in 0..<100 { brake.looked(at: Self.after(Self.hours(24 * Double(day)))) }
      #expect(passed(1, &brake, at: Self.after(Self.hours(24 * Double(day)))) == 0)
    }
    #expect(brake.engagement == .init(since: Self.date, lowered: 10, looked: 0, withheld: 401))
  }

  @Test(arguments: [
    (0.0, 0), (12.0, 0), (23.99, 0), (24.99, 0), (25.0, 10), (48.0, 10),
  ])
  func `a lowered user counts for a day, by the hour`(hours: Double, room: Int) {
    var brake = brake()
    #expect(passed(10, &brake) == 10)
    #expect(passed(10, &brake, at: Self.after(Self.hours(hours))) == room)
  }

  @Test func `a user who was looked at counts for as long as one who was lowered`() {
    var brake = brake(looked: 1000)
    #expect(passed(100, &brake) == 100)
    // A day later both are gone: of nobody looked at, ten may be lowered.
    #expect(passed(11, &brake, at: Self.after(Self.hours(25))) == 10)
  }

  @Test func `the window never forgets within a day, at whatever offset within the hour`() {
    for minute in stride(from: 0.0, to: 120, by: 7) {
      let first = Self.hours(minute / 60)
      var brake = brake()
      #expect(passed(10, &brake, at: Self.after(first)) == 10)
      #expect(passed(1, &brake, at: Self.after(first + Self.hours(24))) == 0)
    }
  }

  @Test func `counts are kept by the hour, however many users`() {
    var brake = brake()
    for minute in 0..<10_000 {
      let instant = Self.after(.seconds(60 * minute))
      brake.looked(at: instant)
      if minute.isMultiple(of: 10) { #expect(passed(1, &brake, at: instant) == 1) }
    }
    let snapshot = brake.snapshot(at: Self.after(.seconds(600_000)))
    #expect(snapshot.hours.count <= 25)
    #expect(snapshot.hours.map(\.number) == snapshot.hours.map(\.number).sorted())
    #expect(snapshot.hours.dropFirst().dropLast().allSatisfy { $0.looked == 60 && $0.lowered == 6 })
  }

  // MARK: Release

  @Test func `released, everything passes for an hour, and then it watches anew`() {
    var brake = brake(looked: 50)
    #expect(passed(11, &brake) == 10)
    brake.release(at: Self.start)
    #expect(brake.engagement == nil)
    #expect(passed(500, &brake, at: Self.after(Self.hours(1) - .milliseconds(1))) == 500)
    #expect(brake.engagement == nil)
    // Users who passed in that hour are not held against the next ones.
    #expect(passed(11, &brake, at: Self.after(Self.hours(1))) == 10)
    #expect(brake.engagement?.lowered == 10)
  }

  @Test func `looks of the released hour do not widen the limit after it`() {
    var brake = brake()
    brake.release(at: Self.start)
    for _ in 0..<1000 { brake.looked(at: Self.after(.seconds(60))) }
    #expect(passed(11, &brake, at: Self.after(Self.hours(1))) == 10)
  }

  @Test func `a release before it engages holds for the hour as well`() {
    var brake = brake()
    brake.release(at: Self.start)
    #expect(passed(100, &brake, at: Self.after(.seconds(10))) == 100)
  }

  // MARK: Restart

  private func restarted(
    _ brake: inout DowngradeBrake, at instant: DowngradeBrake.Instant, as later: DowngradeBrake.Instant
  ) -> DowngradeBrake {
    DowngradeBrake(restoring: brake.snapshot(at: instant), at: later)
  }

  @Test func `a restart keeps the engagement and the counts`() {
    var engaged = brake()
    #expect(passed(11, &engaged) == 10)
    var again = restarted(&engaged, at: Self.start, as: Self.after(Self.hours(900)))
    #expect(again.engagement == engaged.engagement)
    #expect(passed(1, &again, at: Self.after(Self.hours(900))) == 0)

    var counting = brake(looked: 100)
    #expect(passed(15, &counting) == 15)
    var resumed = restarted(&counting, at: Self.start, as: Self.start)
    #expect(passed(10, &resumed) == 5)
  }

  @Test(arguments: [-10_000_000.0, -1, 0, 30, 10_000_000])
  func `the time it was down does not count, whatever the new clock starts from`(hours: Double) {
    var brake = brake()
    #expect(passed(10, &brake) == 10)
    let later = Self.after(Self.hours(hours))
    var again = restarted(&brake, at: Self.after(Self.hours(20)), as: later)
    #expect(passed(1, &again, at: later.advanced(by: Self.hours(4.9))) == 0)
    var patient = restarted(&brake, at: Self.after(Self.hours(20)), as: later)
    #expect(passed(1, &patient, at: later.advanced(by: Self.hours(5))) == 1)
  }

  @Test func `the rest of a released hour outlives a restart`() {
    var brake = brake()
    brake.release(at: Self.start)
    var again = restarted(&brake, at: Self.after(Self.hours(0.5)), as: Self.after(Self.hours(70)))
    #expect(passed(50, &again, at: Self.after(Self.hours(70.49))) == 50)
    #expect(passed(50, &again, at: Self.after(Self.hours(70.5))) == 10)
  }

  // MARK: Clocks

  @Test func `an instant of the past adds no time, and takes none away`() {
    var brake = brake()
    #expect(passed(5, &brake, at: Self.after(Self.hours(10))) == 5)
    brake.looked(at: Self.after(Self.hours(-8000)))
    #expect(passed(5, &brake, at: Self.after(Self.hours(-8000))) == 5)
    #expect(passed(1, &brake, at: Self.after(Self.hours(10))) == 0)
    #expect(brake.engagement?.looked == 1)
  }

  @Test func `a wall clock that jumps releases nothing and empties nothing`() {
    var brake = brake()
    let jumps = [0.0, 31_536_000, -31_536_000, 0].map { Self.date.addingTimeInterval($0) }
    for index in 0..<10 {
      let instant = Self.after(.seconds(index))
      #expect(passed(1, &brake, at: instant, date: jumps[index % jumps.count]) == 1)
    }
    #expect(passed(1, &brake, at: Self.after(.seconds(11)), date: jumps[1]) == 0)
    for date in jumps { #expect(passed(1, &brake, at: Self.after(.seconds(12)), date: date) == 0) }
    #expect(brake.engagement?.since == jumps[1])
  }

  @Test func `fractions of a millisecond add up`() {
    var brake = brake()
    #expect(passed(10, &brake) == 10)
    // 3000 steps of half a minute and half a microsecond: 25 hours.
    for step in 1...3000 { brake.looked(at: Self.after(.nanoseconds(30_000_000_500 * Int64(step)))) }
    #expect(passed(1, &brake, at: Self.after(.nanoseconds(30_000_000_500 * 3000))) == 1)
  }

  // MARK: Replicas

  /// A brake that has engaged, and what it writes down.
  private func engaged() -> DowngradeBrake {
    var brake = brake()
    #expect(passed(11, &brake) == 10)
    return brake
  }

  private func adopt(
    _ brake: inout DowngradeBrake, _ snapshot: DowngradeBrake.Snapshot, at instant: DowngradeBrake.Instant
  ) -> Bool {
    brake.adopt(snapshot, at: instant)
  }

  @Test func `an engagement of another replica is taken over, and so is its release, with what is left of it`() {
    var (one, other) = (engaged(), brake())
    var written = one.snapshot(at: Self.start)
    #expect(adopt(&other, written, at: Self.start))
    #expect(other.engagement == one.engagement)
    one.release(at: Self.start)
    let later = Self.after(.seconds(60))
    written = one.snapshot(at: later)
    #expect(adopt(&other, written, at: later))
    #expect(other.engagement == nil)
    let end = Self.after(.seconds(3_600))
    #expect(passed(100, &other, at: Self.after(.seconds(3_599))) == 100)
    #expect(passed(100, &other, at: end) == 10)
    #expect(other.engagement != nil)
  }

  @Test func `a release that is over releases nobody again`() {
    var (one, other) = (engaged(), brake())
    one.release(at: Self.start)
    // Written while it was released, by itself and by another.
    let written = one.snapshot(at: Self.after(.seconds(3_599)))
    #expect(adopt(&other, written, at: Self.after(.seconds(3_599))))
    let end = Self.after(.seconds(3_605))
    for brake in [one, other] {
      var brake = brake
      #expect(passed(11, &brake, at: end) == 10)
      #expect(!adopt(&brake, written, at: end))
      #expect(brake.engagement != nil)
    }
  }

  @Test func `an engagement from before a release is not taken over`() {
    var (one, other) = (engaged(), brake())
    let before = one.snapshot(at: Self.start)
    #expect(adopt(&other, before, at: Self.start))
    one.release(at: Self.start)
    #expect(!adopt(&one, before, at: Self.start))
    #expect(one.engagement == nil)
    // Long after, when nobody is released any more.
    let later = Self.after(Self.hours(5))
    #expect(!adopt(&one, before, at: later))
    let released = one.snapshot(at: later)
    #expect(adopt(&other, released, at: later))
    #expect(other.engagement == nil)
    #expect(passed(100, &other, at: later) == 10)
  }
}

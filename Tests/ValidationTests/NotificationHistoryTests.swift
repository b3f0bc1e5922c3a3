import Entitlements
import Foundation
import Testing

@testable import Validation

/// The questions to Apple's history of notifications, and their times.
@Suite struct NotificationHistoryTests {
  private typealias Progress = NotificationHistory.Progress
  private static let now = Date(timeIntervalSince1970: 1_768_478_400.123456789)

  private static func ago(days: Double = 0, hours: Double = 0) -> Date {
    now.advanced(by: .seconds(-days * 86_400 - hours * 3_600))
  }

  @Test func `the first time everything that failed is asked for, as far back as Apple goes`() {
    var progress = Progress()
    progress.planDue(after: nil, at: Self.now, in: .production)
    let hour = Self.ago(days: 180).advanced(by: .seconds(3_600))
    #expect(progress.windows == [.init(from: hour, to: Self.now, onlyFailures: true)])
    #expect(progress.gap == nil)
    progress = Progress()
    progress.planDue(after: nil, at: Self.now, in: .sandbox)
    #expect(progress.windows.map(\.from) == [Self.ago(days: 30).advanced(by: .seconds(3_600))])
  }

  @Test func `the age counts from the first plan until it was asked, and not from what a clock ahead has planned`() {
    var progress = Progress()
    #expect(progress.reach == nil)
    for start in [Self.ago(days: 3), Self.now] {
      progress.planDue(after: nil, at: start, in: .production)
      #expect(progress.reach == Self.ago(days: 3))
    }
    progress.through = Self.ago(days: 1)
    #expect(progress.reach == Self.ago(days: 1))
    progress = Progress()
    progress.planDue(after: nil, at: Self.ago(days: -9), in: .production)
    progress.planDue(after: nil, at: Self.now, in: .production)
    #expect(progress.reach == Self.now)
  }

  @Test func `every day what failed since the last time is asked for, with an overlap`() {
    var progress = Progress(through: Self.ago(days: 1))
    progress.planDue(after: nil, at: Self.now, in: .production)
    let seam = Self.ago(hours: 1)
    #expect(progress.windows.map(\.from) == [Self.ago(days: 1, hours: 1), seam])
    #expect(progress.windows.map(\.to) == [seam, Self.now] && progress.windows.allSatisfy(\.onlyFailures))
  }

  @Test func `at a start also what Apple knows to be delivered is asked for, since the newest that came`() {
    var progress = Progress(through: Self.ago(hours: 20))
    progress.planDue(after: Self.ago(hours: 4), at: Self.now, in: .production)
    #expect(progress.windows.map(\.onlyFailures) == [true, false])
    #expect(progress.windows.map(\.from) == [Self.ago(hours: 21), Self.ago(hours: 5)])
    #expect(progress.windows.map(\.to) == [Self.ago(hours: 5), Self.now])
    // After a long time without any, what failed is among them.
    progress = Progress(through: Self.ago(hours: 2))
    progress.planDue(after: Self.ago(hours: 20), at: Self.now, in: .production)
    #expect(progress.windows == [.init(from: Self.ago(hours: 21), to: Self.now, onlyFailures: false)])
  }

  @Test func `a long stretch is asked about in parts, the oldest first`() {
    var progress = Progress(through: Self.ago(days: 10))
    progress.planDue(after: nil, at: Self.now, in: .production)
    #expect(progress.windows.count == 11)
    progress = Progress(through: Self.ago(days: 90))
    progress.planDue(after: nil, at: Self.now, in: .production)
    #expect((30...31).contains(progress.windows.count))
    for (one, next) in zip(progress.windows, progress.windows.dropFirst()) { #expect(one.to == next.from) }
    #expect(progress.windows.last?.to == Self.now)
  }

  @Test func `a span further back than Apple keeps is a gap`() {
    var progress = Progress(through: Self.ago(days: 200))
    progress.planDue(after: nil, at: Self.now, in: .production)
    let kept = Self.ago(days: 180).advanced(by: .seconds(3_600))
    #expect(progress.gap == .init(from: Self.ago(days: 200, hours: 1), to: kept, foundAt: Self.now))
    #expect(progress.windows.first?.from == kept)
    // It is told once, and not planned again.
    while let window = progress.windows.first { progress.advance(window, next: nil, seen: 0, taken: 0) }
    #expect(progress.through == Self.now)
  }

  @Test func `a window that waited for too long loses what Apple does not keep`() throws {
    var progress = Progress(through: Self.ago(days: 200))
    progress.windows = [.init(from: Self.ago(days: 185), to: Self.ago(days: 175), onlyFailures: true, token: "two")]
    progress.loseWindow(at: Self.now, in: .production)
    let kept = Self.ago(days: 180).advanced(by: .seconds(3_600))
    #expect(progress.windows == [.init(from: kept, to: Self.ago(days: 175), onlyFailures: true)])
    #expect(progress.gap == .init(from: Self.ago(days: 185), to: kept, foundAt: Self.now))
    // Apple says that even this is too old.
    progress.loseWindow(at: Self.now, in: .production)
    #expect(progress.windows.isEmpty && progress.through == Self.ago(days: 175))
    #expect(progress.gap?.to == Self.ago(days: 175))
  }

  @Test func `each page is taken down, and the end of a window moves what is done`() throws {
    var progress = Progress(through: Self.ago(days: 2))
    progress.planDue(after: nil, at: Self.now, in: .production)
    while let window = progress.windows.first {
      progress.advance(window, next: window.token == nil ? "two" : nil, seen: 20, taken: 3)
      if let next = progress.windows.first, next.from == window.from { #expect(next.token == "two") }
    }
    #expect(progress.through == Self.now && progress.seen == 120 && progress.taken == 18)
    // A page of a window that was planned anew changes nothing but the counts.
    progress.plan(from: Self.ago(hours: 1), to: Self.now, in: .production, onlyFailures: false)
    let planned = progress.windows
    progress.advance(.init(from: Self.now, to: Self.now, onlyFailures: true), next: nil, seen: 1, taken: 1)
    #expect(progress.windows == planned)
  }

  @Test func `a span that a person asks for without a seam leaves the rest to be asked`() throws {
    var progress = Progress(through: Self.ago(days: 5))
    progress.plan(from: Self.ago(hours: 3), to: Self.now, in: .production, onlyFailures: false)
    progress.advance(try #require(progress.windows.first), next: nil, seen: 0, taken: 0)
    #expect(progress.through == Self.ago(days: 5))
  }

  @Test func `a span that a clock ahead has planned or asked is asked anew`() {
    for (asked, planned) in [(Self.ago(hours: -2), nil), (Self.ago(days: 1), Self.ago(hours: -2))] as [(Date, Date?)] {
      var progress = Progress(through: asked)
      if let planned { progress.windows = [.init(from: Self.ago(hours: -1), to: planned, onlyFailures: true)] }
      #expect(progress.isAhead(of: Self.now))
      progress.planDue(after: nil, at: Self.now, in: .production)
      #expect(!progress.isAhead(of: Self.now))
      let oldest = Self.ago(days: 180).advanced(by: .seconds(3_600))
      #expect(progress.windows == [.init(from: oldest, to: Self.now, onlyFailures: true)])
    }
    #expect(!Progress(through: Self.now.advanced(by: .seconds(300))).isAhead(of: Self.now))
  }

  @Test func `starts in a loop ask for the stretch since the newest notification once`() {
    var progress = Progress(through: Self.ago(days: 20))
    for start in 0..<100 {
      let now = Self.now.advanced(by: .seconds(start))
      progress.planDue(after: Self.ago(days: 10), at: now, in: .production)
      let whole = progress.windows.filter { !$0.onlyFailures }
      #expect(whole.first?.from == Self.ago(days: 10, hours: 1) && whole.last?.to == now)
      for (one, next) in zip(whole, whole.dropFirst()) { #expect(one.to == next.from) }
      #expect(progress.windows.count <= 22, "\(progress.windows.count)")
    }
  }

  @Test func `a start goes on with what the process before did not finish`() throws {
    var progress = Progress(through: Self.ago(days: 3))
    progress.planDue(after: nil, at: Self.ago(hours: 2), in: .production)
    let unfinished = progress.windows
    progress.planDue(after: nil, at: Self.now, in: .production)
    #expect(Array(progress.windows.prefix(unfinished.count)) == unfinished)
    #expect(progress.windows.dropFirst(unfinished.count).map(\.from) == [Self.ago(hours: 3)])
  }
}

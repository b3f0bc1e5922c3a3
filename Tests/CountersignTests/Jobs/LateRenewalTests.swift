import Entitlements
import Foundation
import HTTPTransport
import Ledger
import SeededRandom
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Renewals that Apple shows minutes after the end of the period, from the purchase to the events.
@Suite struct LateRenewalTests {
  /// Who tells what became of a subscription.
  enum Source: String, CaseIterable, Sendable {
    case verifyReceipt, serverAPI
    /// The signature counts: without a key of the Server API nobody can be asked about it.
    case notifications
  }

  static let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)
  static let day: TimeInterval = 86_400
  /// Checks of one moment are spread over a minute.
  static let spread: TimeInterval = 60
  /// `policy.late_renewal`.
  static let patience: TimeInterval = 3_600

  /// `make cases` has two hundred late and two hundred who end, and looks each second.
  private static let isFull = SeededRandom.cases(200) == 200
  /// By how many seconds each renewal is late: about the moments of the checks, and in `make cases` anything between.
  private static let delays =
    [5, 61, 120, 299, 301, 600] + (isFull ? (0..<194).map { 5 + 595 * $0 / 193 } : [])
  /// From a minute before the end until a quarter of an hour after.
  private static let steps: [TimeInterval] =
    isFull
    ? Array(repeating: 1, count: 960) : Array(repeating: 15, count: 12) + Array(repeating: 30, count: 26)

  private static func run(by source: Source, _ body: @Sendable (World) async throws -> Void) async throws {
    let settings = Settings(
      server: ["address_rate_limit": "0", "user_rate_limit": "0"], policy: ["late_renewal": "1h"],
      // That all of them end at once is no mistake here.
      revalidation: ["rate": "1000", "max_downgrades": "100"])
    try await World.run(
      at: start, withServerAPI: source == .serverAPI, withSecret: source != .serverAPI, settings: settings, body: body)
  }

  @Test(arguments: Source.allCases)
  func `a renewal that is shown up to ten minutes late costs nobody access, and is told as a renewal alone`(
    source: Source
  ) async throws {
    try await Self.run(by: source) { world in
      var users: [String] = []
      for (index, delay) in Self.delays.enumerated() {
        users.append(try await world.buy(.subscriber, index + 1, by: source, lateBy: .seconds(delay)))
      }
      try world.listen(to: source)
      try await world.move(by: 30 * Self.day - 60)

      var seen: Set<String> = []
      var reads: [String: UInt64] = [:]
      for (number, step) in Self.steps.enumerated() {
        try await world.move(by: step)
        // A read follows from the user's record and the clock, and the clock alone changes it at the end of the period
        // only. So in `make cases` everybody is read each minute, at the end too, and at once whose record has changed
        // since; in between a read is the one before, and the service answers it from memory by the same number.
        let isMinute = !Self.isFull || (number + 1).isMultiple(of: 60)
        for user in users {
          let record = world.service.ledger.generation(of: UserID(user))
          guard isMinute || reads[user] != record else { continue }
          reads[user] = record
          seen.insert(try await world.service.profile(user).verdict)
        }
        #expect(!seen.contains { $0.hasPrefix("free") }, "\(world.clock.date)")
        #expect(try await !world.hasTold("subscription.expired"), "\(world.clock.date)")
      }
      // Where nobody can be asked, nobody has said that the renewal is due: what was paid is held.
      #expect(seen == (source == .notifications ? [Self.renewing] : [Self.renewing, Self.due]))
      try await eventually { try await world.told("subscription.renewed") == users.sorted() }
      for user in users {
        #expect(try await world.service.state(of: user) == "\(Self.renewing) until 2024-08-15T12:00:00Z")
        #expect(try await world.service.profile(user)["stale"] == "false")
      }
      #expect(try await !world.hasTold("subscription.expired"))
      if source == .notifications { #expect(world.simulator.callsInAll == 0) }
    }
  }

  @Test(arguments: Source.allCases)
  func `what Apple names as ended is over at once, and what it never shows renewed after policy.late_renewal`(
    source: Source
  ) async throws {
    try await Self.run(by: source) { world in
      var (silent, ending) = ([String](), [String]())
      let count = Self.isFull ? 100 : 4
      for number in 1...count {
        silent.append(try await world.buy(.subscriber, number, by: source, lateBy: .seconds(6 * Self.day)))
      }
      // The others are paid for fifteen more days: all end at the same moment.
      try await world.move(by: 15 * Self.day)
      for number in count + 1...2 * count { ending.append(try await world.buy(.renewalOff, number, by: source)) }
      try world.listen(to: source)
      try await world.move(by: 15 * Self.day - 1)
      #expect(try await world.free(among: silent + ending).isEmpty)

      try await world.move(by: 1 + Self.spread)
      try await eventually { try await world.told("subscription.expired") == ending }
      #expect(try await world.free(among: silent + ending) == ending)
      for user in ending { #expect(try await world.service.profile(user).verdict == "free expired voluntary") }

      // Steps below the five minutes by which Apple's clock may be ahead of ours.
      for _ in 0..<14 { try await world.move(by: (Self.patience - Self.spread - 10) / 14) }
      #expect(try await world.free(among: silent + ending) == ending)
      #expect(try await world.told("subscription.expired") == ending)

      try await world.move(by: 10 + Self.spread)
      guard source != .notifications else {
        // Nobody has said that they are due: they are held as in an outage.
        #expect(try await world.free(among: silent).isEmpty)
        #expect(try await world.told("subscription.expired") == ending)
        return
      }
      try await eventually { try await world.told("subscription.expired") == silent + ending }
      #expect(try await world.free(among: silent) == silent)
    }
  }

  private static let renewing = "pro active renewing"
  private static let due = "pro active renewal_due"
}

extension World {
  /// Has a new user of that number buy and post it.
  fileprivate func buy(
    _ scenario: Scenario, _ number: Int, by source: LateRenewalTests.Source, lateBy delay: Duration? = nil
  ) async throws -> String {
    let (user, subscriber) = ("user-\(1_000 + number)", Int64(number))
    let proof =
      source == .verifyReceipt
      ? try simulator.issueReceipt(scenario, subscriber: subscriber, renewalsLateBy: delay).receiptData
      : try simulator.issueTransaction(scenario, subscriber: subscriber, renewalsLateBy: delay).signedTransaction
    #expect(try await service.validate(proof, user: user).status == 200)
    return user
  }

  /// Has Apple post what happens from now on, where nobody asks.
  fileprivate func listen(to source: LateRenewalTests.Source) throws {
    guard source == .notifications else { return }
    try simulator.deliverNotifications(to: "\(service.origin)/v1/notifications/app-store")
  }

  /// Moves both clocks, Apple's first, so that no check which is due by ours finds Apple's behind; returns when Apple has
  /// posted what happened, and no check is left to begin.
  func move(by seconds: TimeInterval) async throws {
    simulator.setClock(clock.date.addingTimeInterval(seconds))
    clock.advance(by: seconds)
    #expect(await simulator.deliveries().allSatisfy { $0.status == 200 })
    try await eventually(looks: 10_000) { try await service.ledger.backlog(at: clock.date).rechecksDue == 0 }
  }

  /// The users of all events of a type.
  fileprivate func told(_ type: String) async throws -> [String] {
    var (place, users) = ("0", [String]())
    while true {
      let page = try EventsTests.Page(try await service.send(.get, "/v1/events?limit=500&after=\(place)"))
      guard !page.events.isEmpty else { return users.sorted() }
      users += page.events.filter { $0.type == type }.map(\.user)
      place = page.next
    }
  }

  fileprivate func hasTold(_ type: String) async throws -> Bool {
    try await !service.send(.get, "/v1/events/newest?types=\(type)&limit=1").array("events").isEmpty
  }

  fileprivate func free(among users: [String]) async throws -> [String] {
    var free: [String] = []
    for user in users where try await service.profile(user)["tier"] == "free" { free.append(user) }
    return free
  }
}

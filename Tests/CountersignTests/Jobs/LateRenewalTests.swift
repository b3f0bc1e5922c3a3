import Foundation
import HTTPTransport
import Ledger
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

  /// By how many seconds each renewal is late.
  private static let delays = [5, 61, 120, 299, 301, 600]
  /// From a minute before the end until a quarter of an hour after.
  private static let steps = Array(repeating: 15 as TimeInterval, count: 12) + Array(repeating: 30, count: 26)

  private static func run(by source: Source, _ body: @Sendable (World) async throws -> Void) async throws {
    let settings = Settings(
      server: ["address_rate_limit": "0", "user_rate_limit": "0"], policy: ["late_renewal": "1h"],
      revalidation: ["rate": "1000"])
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
      for step in Self.steps {
        try await world.move(by: step)
        for user in users { seen.insert(try await world.service.profile(user).verdict) }
        #expect(!seen.contains { $0.hasPrefix("free") }, "\(world.clock.date)")
        #expect(try await world.told("subscription.expired").isEmpty, "\(world.clock.date)")
      }
      // Where nobody can be asked, nobody has said that the renewal is due: what was paid is held.
      #expect(seen == (source == .notifications ? [Self.renewing] : [Self.renewing, Self.due]))
      try await eventually { try await world.told("subscription.renewed") == users.sorted() }
      for user in users {
        #expect(try await world.service.state(of: user) == "\(Self.renewing) until 2024-08-15T12:00:00Z")
        #expect(try await world.service.profile(user)["stale"] == "false")
      }
      #expect(try await world.told("subscription.expired").isEmpty)
      if source == .notifications { #expect(world.simulator.callsInAll == 0) }
    }
  }

  @Test(arguments: Source.allCases)
  func `what Apple names as ended is over at once, and what it never shows renewed after policy.late_renewal`(
    source: Source
  ) async throws {
    try await Self.run(by: source) { world in
      var (silent, ending) = ([String](), [String]())
      for number in 1...4 {
        silent.append(try await world.buy(.subscriber, number, by: source, lateBy: .seconds(6 * Self.day)))
      }
      // The others are paid for fifteen more days: all end at the same moment.
      try await world.move(by: 15 * Self.day)
      for number in 5...8 { ending.append(try await world.buy(.renewalOff, number, by: source)) }
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
    let (user, subscriber) = ("user-\(number < 10 ? "0" : "")\(number)", Int64(number))
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
  fileprivate func move(by seconds: TimeInterval) async throws {
    simulator.setClock(clock.date.addingTimeInterval(seconds))
    clock.advance(by: seconds)
    #expect(await simulator.deliveries().allSatisfy { $0.status == 200 })
    try await eventually { try await service.ledger.backlog(at: clock.date).rechecksDue == 0 }
  }

  /// The users of all events of a type.
  fileprivate func told(_ type: String) async throws -> [String] {
    let page = try EventsTests.Page(try await service.send(.get, "/v1/events?limit=500"))
    return page.events.filter { $0.type == type }.map(\.user).sorted()
  }

  fileprivate func free(among users: [String]) async throws -> [String] {
    var free: [String] = []
    for user in users where try await service.profile(user)["tier"] == "free" { free.append(user) }
    return free
  }
}

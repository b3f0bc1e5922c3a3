import Foundation
import NIOCore
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import CountersignServer
@testable import Validation

extension RunningService {
  /// Runs a service beside a simulated App Store, during `body`.
  ///
  /// - Parameters:
  ///   - start: the store's clock, and the service's unless `now` is another.
  ///   - withServerAPI: whether the service has a key of the App Store Server API.
  ///   - withSecret: whether it has the shared secret.
  static func besideStore<Result: Sendable>(
    at start: Date = noon, withServerAPI: Bool = false, withSecret: Bool = true, settings: Settings = Settings(),
    directory: URL? = nil, jobPause: Duration = .milliseconds(20), now: (@Sendable () -> Date)? = nil,
    clock: ServiceClock? = nil, bodyPatience: TimeAmount = BodyPace.usualPatience, asksForMissed: Bool = false,
    body: @Sendable (RunningService, SimulatedStore) async throws -> Result
  ) async throws -> Result {
    try await SimulatedStore.run(at: start) { store in
      try await run(
        apple: withServerAPI ? store.apple(withSecret: withSecret) : store.apple, settings: settings,
        directory: directory, jobPause: jobPause, now: now ?? { start }, clock: clock, bodyPatience: bodyPatience,
        asksForMissed: asksForMissed
      ) { service in try await body(service, store) }
    }
  }

  /// Runs a service by a clock that a test moves, beside a simulated App Store and the app's own rows, during `body`.
  ///
  /// - Parameter deadline: of a write to a row.
  static func besideStores(
    at start: Date = noon, withServerAPI: Bool = false, settings: Settings = Settings(), deadline: String,
    jobPause: Duration = .milliseconds(20),
    body: @Sendable (RunningService, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    let clock = MovingClock(start)
    try await ProfileStoreDouble.running { profiles in
      var settings = settings
      settings.profileStore = .store(profiles.url, deadline: deadline)
      try await besideStore(
        at: start, withServerAPI: withServerAPI, settings: settings, jobPause: jobPause, now: { clock.date }
      ) { service, store in try await body(service, store, profiles, clock) }
    }
  }
}

/// A service beside a simulated App Store, whose clocks a test moves together.
struct World: Sendable {
  var service: RunningService
  var store: SimulatedStore
  var clock: MovingClock
  var simulator: RunningSimulator { store.simulator }

  func pass(_ seconds: TimeInterval) {
    clock.advance(by: seconds)
    simulator.setClock(clock.date)
  }

  func advance(days: Double) { pass(days * 86_400) }

  /// Has Anna present a receipt; returns its original transaction ID.
  @discardableResult func subscribe() async throws -> String {
    let receipt = try simulator.issueReceipt(.renewing, subscriber: 1)
    _ = try await service.validate(receipt.receiptData, user: "anna")
    return try #require(receipt.originalTransactionIDs.first)
  }

  /// Runs both during `body`. The parameters are those of `besideStore`.
  static func run(
    at start: Date = noon, withServerAPI: Bool = false, withSecret: Bool = true, settings: Settings = Settings(),
    directory: URL? = nil, jobPause: Duration = .milliseconds(20), body: @Sendable (World) async throws -> Void
  ) async throws {
    let clock = MovingClock(start)
    try await RunningService.besideStore(
      at: start, withServerAPI: withServerAPI, withSecret: withSecret, settings: settings, directory: directory,
      jobPause: jobPause, now: { clock.date }
    ) { service, store in try await body(World(service: service, store: store, clock: clock)) }
  }
}

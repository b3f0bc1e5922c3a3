import Foundation

@testable import AppStoreSimulator
@testable import Countersign

extension RunningService {
  /// Runs a service beside a simulated App Store, during `body`.
  ///
  /// - Parameters:
  ///   - start: the store's clock, and the service's unless `now` is another.
  ///   - withServerAPI: whether the service has a key of the App Store Server API.
  static func besideStore<Result: Sendable>(
    at start: Date, withServerAPI: Bool = false, settings: Settings = Settings(), directory: URL? = nil,
    jobPause: Duration = .milliseconds(20), now: (@Sendable () -> Date)? = nil,
    body: @Sendable (RunningService, SimulatedStore) async throws -> Result
  ) async throws -> Result {
    try await SimulatedStore.run(at: start) { store in
      try await run(
        apple: withServerAPI ? store.apple() : store.apple, settings: settings, directory: directory,
        jobPause: jobPause, now: now ?? { start }
      ) { service in try await body(service, store) }
    }
  }
}

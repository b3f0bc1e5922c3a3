import CountersignAPI
import Foundation

extension CountersignClient {
  /// Begins a trial of the app's own, without the App Store. A user who has one gets it again, and the trial that the device
  /// had before the sign-in becomes the user's.
  ///
  /// - Parameters:
  ///   - trial: its name; needed where the service has several.
  ///   - device: what else is to be said of this device. Its ID is made by this client, and kept in the storage;
  ///     `options.deviceToken` adds the tokens of DeviceCheck.
  @discardableResult
  public func startTrial(_ trial: String? = nil, device: DeviceRequest = DeviceRequest()) async throws -> TrialResponse
  {
    try checkSignedIn()
    let begun = try await trials.start(trial, device: device)
    await quietly { _ = try await refreshAnew() }
    return begun
  }

  /// The user's trial now, with the sessions that wait; `nil` where none has begun. While the service is away it is what is
  /// known without it.
  public func trial() async throws -> TrialResponse? {
    try checkSignedIn()
    return try await trials.trial()
  }

  /// Uses a session of the trial. The last one ends it.
  ///
  ///     do { try await client.useTrialSession() } catch CountersignError.refused(code: "trial_over", detail: _) {
  ///       showPaywall()
  ///     }
  ///
  /// While the service is away a running trial goes on: the session is kept, and counted once when the service is back.
  @discardableResult
  public func useTrialSession() async throws -> TrialResponse {
    try checkSignedIn()
    do {
      let trial = try await trials.useSession()
      if await trials.waitingCount > 0 { retryLater(CountersignError.later(retryAfter: nil)) }
      if trial.state != .running { await quietly { _ = try await refreshAnew() } }
      return trial
    } catch let error as CountersignError where error.endsTrial {
      await quietly { _ = try await refreshAnew() }
      throw error
    }
  }

  /// Tells the service of this device and its push token, so that it shares the user's trial.
  @discardableResult
  public func registerDevice(_ device: DeviceRequest) async throws -> TrialResponse? {
    try checkSignedIn()
    return try await trials.register(device)
  }
}

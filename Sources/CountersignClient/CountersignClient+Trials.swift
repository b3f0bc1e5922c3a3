import CountersignAPI
import Foundation

extension CountersignClient {
  /// Begins a trial of the app's own, without the App Store. A user who has one gets it again.
  ///
  /// - Parameters:
  ///   - trial: its name; needed where the service has several.
  ///   - device: what else is to be said of this device, such as a token of DeviceCheck's. Its ID is made by this client,
  ///     and kept in the storage.
  @discardableResult
  public func startTrial(_ trial: String? = nil, device: DeviceRequest = DeviceRequest()) async throws -> TrialResponse
  {
    try checkSignedIn()
    let request = TrialRequest(
      trial: trial, deviceID: try deviceID(), device: device.device, pushToken: device.pushToken,
      deviceToken: device.deviceToken, secondDeviceToken: device.secondDeviceToken, isDevelopment: device.isDevelopment)
    let response = try await service.send("POST", "/v1/trials", body: request)
    let answer = try response.decoded(TrialResponse.self, from: [200, 201], now: options.now())
    await quietly { _ = try await refreshAnew() }
    return answer
  }

  /// The ID of the device, whoever uses it. The keychain keeps it when the app is deleted.
  private func deviceID() throws -> String {
    do {
      if let kept = try options.storage.read("device"), let id = UUID(uuidString: String(decoding: kept, as: UTF8.self))
      {
        return id.uuidString
      }
      let id = UUID().uuidString
      try options.storage.write(Data(id.utf8), to: "device")
      return id
    } catch {
      throw CountersignError.storage
    }
  }
}

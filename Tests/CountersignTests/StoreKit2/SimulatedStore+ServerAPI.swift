import HTTPTransport

@testable import AppStoreSimulator
@testable import Countersign

extension SimulatedStore {
  /// With the key of the Server API, beside the shared secret or alone.
  func apple(withSecret: Bool = true) -> Apple {
    var apple = apple
    if !withSecret { apple.sharedSecret = nil }
    apple.serverAPI = Apple.ServerAPI(
      productionURL: simulator.serverAPIURL, sandboxURL: simulator.serverAPISandboxURL, key: simulator.serverAPIKeyPEM,
      keyID: simulator.serverAPIKeyID, issuerID: simulator.serverAPIIssuerID)
    return apple
  }

  /// `app_store.offers`, on one line.
  var offerKey: String {
    let key = simulator.serverAPIKeyPEM.replacing("\n", with: "\\n")
    return #"{ key: "\#(key)", key_id: \#(simulator.serverAPIKeyID), issuer_id: \#(simulator.serverAPIIssuerID) }"#
  }
}

extension RunningService {
  /// Posts what Apple would post.
  func notify(_ body: String) async throws -> Answer {
    try await send(.post, "/v1/notifications/app-store", key: nil, body: body)
  }

  func notify(_ notification: SimulatedNotification) async throws -> Answer { try await notify(notification.body) }

  /// tier, status, reason and end, as a read has them.
  func state(of user: String = "user-1") async throws -> String {
    let answer = try await profile(user)
    return "\(answer.verdict) until \(answer["access_until"] ?? "-")"
  }
}

extension RunningSimulator {
  /// To verifyReceipt and to the Server API.
  var callsInAll: Int { calls.total + calls.serverAPI.total }
}

import Hummingbird
import Ledger

/// `/livez` and `/readyz`, for whoever keeps the service running. They name no user and no secret, and are open.
struct HealthController: Sendable {
  var ledger: any Ledger
  var appStore: AppStoreHealth

  private struct Liveness: Encodable {
    var status = "ok"
  }

  private struct Readiness: Encodable {
    var status: String
    var ledger: String
    var appStore: String

    enum CodingKeys: String, CodingKey {
      case status, ledger
      case appStore = "app_store"
    }
  }

  /// The process answers. It says nothing about what the process depends on: a restart would not mend that.
  func live(_ request: Request, _ context: ServiceRequestContext) -> Response {
    JSONBody.response(Liveness())
  }

  /// Whether requests can be served: the ledger takes records, and Apple takes our shared secret. Apple being away does
  /// not make the service unready: what is proven can still be read.
  func ready(_ request: Request, _ context: ServiceRequestContext) async -> Response {
    var ledgerState = "ok"
    do { try await ledger.check() } catch {
      ledgerState =
        switch error {
        case .unavailable: "unavailable"
        case .failed: "failed"
        case .closed: "closed"
        }
    }
    let appStoreState = appStore.state
    let isReady = ledgerState == "ok" && appStoreState != .sharedSecretRejected
    return JSONBody.response(
      Readiness(status: isReady ? "ok" : "unready", ledger: ledgerState, appStore: appStoreState.rawValue),
      status: isReady ? .ok : .serviceUnavailable)
  }
}

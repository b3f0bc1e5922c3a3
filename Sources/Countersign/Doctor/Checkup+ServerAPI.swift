import AppStore
import Entitlements
import FoundationEssentials
import HTTPTransport
import Synchronization

/// Tests the key of the App Store Server API with a request whose result is irrelevant.
///
/// Apple checks the token first: 401 means that the key is wrong, any other status that it is accepted.
///
/// https://developer.apple.com/documentation/appstoreserverapi/generating-json-web-tokens-for-api-requests
extension Checkup {
  /// A transaction ID that does not exist.
  private static let noTransaction = TransactionID("1")

  func serverAPIFindings() async -> [Finding] {
    let subject = "app_store.server_api"
    let attempts = Mutex<[ServerAPIAttempt]>([])
    let client: ServerAPIClient
    let transport: CurlTransport
    do {
      guard let made = try serverAPIClient(observe: { attempt in attempts.withLock { $0.append(attempt) } }) else {
        return []
      }
      (client, transport) = made
    } catch { return [Finding(subject, .fail, "the HTTP client cannot start: \(error)")] }
    defer { transport.shutdown() }
    // The client's result is irrelevant here; only each store's response counts.
    _ = try? await client.transaction(
      Self.noTransaction, bundleIDs: configuration.appStore.orderedBundleIDs, stores: [.production, .sandbox],
      deadline: .now.advanced(by: Self.callLimit))
    let seen = attempts.withLock { $0 }
    // The last attempt: a refused token is renewed once. One accepted app proves the key.
    func lastWord(of store: StoreEnvironment) -> ServerAPIAttempt? {
      let said = seen.filter { $0.environment == store }
      return said.last { $0.outcome != .http(401) } ?? said.last
    }
    let isTakenInSandbox = lastWord(of: .sandbox).map { Self.finding($0, subject: subject).verdict == .ok } ?? false
    return [StoreEnvironment.production, .sandbox].compactMap { store in
      guard let last = lastWord(of: store) else { return nil }
      let name = "\(subject).\(store.rawValue)_url"
      if store == .production, last.outcome == .http(401), isTakenInSandbox {
        return Finding(
          name, .warning,
          "refuses the key (401), which the sandbox takes: so it does until the app is released for the first time; if it "
            + "is released, check app_store.bundle_ids")
      }
      return Self.finding(last, subject: name)
    }
  }

  /// A client that tries each call once, and its transport, which the caller shuts down; `nil` without a key.
  func serverAPIClient(
    observe: @escaping @Sendable (ServerAPIAttempt) -> Void = { _ in }
  ) throws -> (ServerAPIClient, CurlTransport)? {
    let appStore = configuration.appStore
    guard let serverAPI = appStore.serverAPI, let key = try? serverAPI.checkedKey() else { return nil }
    let transport = try CurlTransport(configuration: CurlTransport.Configuration(caFile: appStore.caFile))
    var timing = CallTiming.live
    timing.date = now
    let client = ServerAPIClient(
      transport: transport,
      configuration: ServerAPIClient.Configuration(
        productionURL: serverAPI.productionURL, sandboxURL: serverAPI.sandboxURL, key: key,
        retry: RetryPolicy(attempts: 1)),
      verifier: SignedDataVerifier(), timing: timing, observe: observe)
    return (client, transport)
  }

  static func finding(_ attempt: ServerAPIAttempt, subject: String) -> Finding {
    let time = "in \(Int((attempt.duration / .milliseconds(1)).rounded())) ms"
    switch attempt.outcome {
    case .answered: return Finding(subject, .ok, "answers \(time), and takes the key")
    case .error(let status, _) where status < 429: return Finding(subject, .ok, "answers \(time), and takes the key")
    case .http(401):
      return Finding(
        subject, .fail,
        "refuses the key (401): check app_store.server_api.key, key_id and issuer_id, and that the key is an In-App "
          + "Purchase key of the team of app_store.bundle_ids (\(AppStoreConnect.serverAPIKey))")
    case .error(let status, let code):
      return Finding(subject, .warning, "answers HTTP \(status), error \(code); it passes by itself")
    case .http(let status): return Finding(subject, .fail, "answers HTTP \(status); is the URL right?")
    case .malformed, .refused:
      return Finding(
        subject, .fail, "what answers is not the App Store Server API; is the URL right, or is a proxy in between?")
    case .transport(let error): return Finding(subject, .fail, sentence(for: error))
    }
  }
}

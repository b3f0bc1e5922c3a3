import AppStore
import Entitlements
import FoundationEssentials
import HTTPTransport
import Ledger
import Resilience
import Synchronization
import Validation

/// Sends one request to each of Apple's two endpoints.
///
/// The shared secret cannot be checked without a receipt: Apple reads the receipt first, answers 21002 to anything
/// else, and checks the secret (21004) only for an authentic receipt with a subscription. A real receipt is therefore
/// sent if possible: the given one, else the newest production receipt in the ledger. Otherwise four bytes that are not
/// a receipt are sent, which shows that Apple can be reached, and its clock.
///
/// https://developer.apple.com/documentation/appstorereceipts/status
extension Checkup {
  /// The receipt sent to Apple.
  enum Question: Hashable, Sendable {
    case given
    case kept
    case noReceipt
  }

  /// The response of one endpoint.
  struct Reply: Sendable {
    var environment: StoreEnvironment
    var outcome: VerifyReceiptAttempt.Outcome
    var duration: Duration
    var answeredAt: Date?
    /// The response concerns a subscription, so the secret was checked.
    var hasSubscription = false
  }

  private static let noReceipt = "AAAA"

  func appStoreFindings() async -> [Finding] {
    let appStore = configuration.appStore
    guard let secret = appStore.sharedSecret else {
      return [Finding("app_store.shared_secret", .ok, "is not set: verifyReceipt is not asked")]
    }
    let newest = receipt == nil ? await LedgerInspection.newestReceipt(at: configuration.ledger.place) : nil
    // A stored signed transaction is not for verifyReceipt; base64 has no dots.
    let kept = newest.flatMap { $0.contains(".") ? nil : $0 }
    let question: Question = receipt != nil ? .given : kept != nil ? .kept : .noReceipt
    let text = receipt ?? kept ?? Self.noReceipt

    let transport: CurlTransport
    do {
      transport = try CurlTransport(configuration: CurlTransport.Configuration(caFile: appStore.caFile))
    } catch {
      return [Finding("app_store", .fail, "the HTTP client cannot start: \(error)")]
    }
    defer { transport.shutdown() }
    let asked = now()
    let stores = [(StoreEnvironment.production, text), (.sandbox, Self.noReceipt)]
    let replies = await mapConcurrently(stores, width: stores.count) { store, receipt in
      await reply(of: store, to: receipt, secret, transport)
    }
    let isApple = appStore.productionURL == AppleEndpoint.production
    let clock =
      appStore.clock == .store
      ? Finding("clock", .ok, "is that of the simulated store")
      : Self.clockFinding(replies, isApple: isApple, now: { max(asked, now()) })
    return replies.map { Self.finding($0) } + replies.prefix(1).map { secretFinding($0, question, secret) } + [clock]
  }

  private func reply(
    of environment: StoreEnvironment, to receipt: String, _ secret: Secret, _ transport: CurlTransport
  ) async -> Reply {
    let appStore = configuration.appStore
    let first = Mutex<VerifyReceiptAttempt?>(nil)
    let client = VerifyReceiptClient(
      transport: transport,
      configuration: VerifyReceiptClient.Configuration(
        productionURL: appStore.productionURL, sandboxURL: appStore.sandboxURL, sharedSecret: secret,
        retry: RetryPolicy(attempts: 1)),
      observe: { attempt in first.withLock { $0 = $0 ?? attempt } })
    // The client's result is irrelevant here; only each endpoint's first response counts.
    let answer = try? await client.verify(
      receipt, startingWith: environment, deadline: .now.advanced(by: Self.callLimit))
    guard let attempt = first.withLock({ $0 }) else {
      return Reply(environment: environment, outcome: .transport(.timedOut), duration: Self.callLimit)
    }
    return Reply(
      environment: environment, outcome: attempt.outcome, duration: attempt.duration, answeredAt: attempt.answeredAt,
      hasSubscription: answer?.history.purchases.contains { $0.expiresDate != nil } ?? false)
  }

  // MARK: - Findings

  static func finding(_ reply: Reply) -> Finding {
    let subject = "app_store.\(reply.environment.rawValue)_url"
    let time = "in \(Int((reply.duration / .milliseconds(1)).rounded())) ms"
    switch reply.outcome {
    case .status(let status):
      switch status {
      case 21005, 21009, 21100...21199:
        return Finding(subject, .warning, "answers \(time), but is in trouble (\(status)); it passes by itself")
      case 21000, 21001:
        return Finding(subject, .fail, "answers \(status), which says that our request was wrong; is the URL right?")
      default:
        return Finding(subject, .ok, "answers \(time), with status \(status)")
      }
    case .http(let status):
      return Finding(
        subject, .fail,
        "answers HTTP \(status); is the URL right, and is Apple well (https://developer.apple.com/system-status/)?")
    case .malformed:
      return Finding(
        subject, .fail, "what answers is not verifyReceipt; is the URL right, or is a proxy in between?")
    case .transport(let error):
      return Finding(subject, .fail, sentence(for: error))
    }
  }

  static func sentence(for error: TransportError) -> String {
    switch error {
    case .resolve: "its name does not resolve; check the URL and this machine's DNS"
    case .connect: "no connection; check the firewall for outgoing connections to port 443"
    case .tls(let reason):
      "TLS fails (\(reason)); check app_store.ca_file, ca-certificates, the clock, and for a proxy that reads TLS"
    case .timedOut: "no answer within \(callLimit.configurationText); check the firewall and the network"
    case .reset, .protocolViolation, .tooLarge: "what answers breaks off or is not HTTP; is a proxy in between?"
    case .invalidRequest, .overloaded, .cancelled, .shutDown, .other: "cannot be asked: \(error)"
    }
  }

  func secretFinding(_ reply: Reply, _ question: Question, _ secret: Secret) -> Finding {
    let subject = "app_store.shared_secret"
    if case .status(21004) = reply.outcome {
      return Finding(
        subject, .fail,
        "Apple refuses it (21004): copy that of the app of app_store.bundle_ids from App Store Connect "
          + "(\(AppStoreConnect.sharedSecret)); nobody is downgraded meanwhile")
    }
    if case .status(let status) = reply.outcome, [0, 21006].contains(status), reply.hasSubscription {
      return Finding(subject, .ok, "Apple takes it")
    }
    let hint =
      switch question {
      case .given: "Apple looks at it only with a production receipt that has a subscription; give such a one"
      case .kept: "the ledger's newest receipt did not show it; give one of a subscription with --receipt FILE"
      case .noReceipt: "Apple looks at it only with a receipt that has a subscription; give one with --receipt FILE"
      }
    // App Store Connect generates secrets of 32 hexadecimal digits.
    let isUsual = secret.exposed.wholeMatch(of: /[0-9a-fA-F]{32}/) != nil
    guard isUsual || configuration.appStore.productionURL != AppleEndpoint.production else {
      return Finding(
        subject, .warning,
        "is not of 32 hexadecimal digits, as App Store Connect's are; is it the right text? It is not proven: \(hint)")
    }
    return Finding(subject, .warning, "is not proven: \(hint)")
  }

  /// - Parameter isApple: whether the store is Apple's own; the simulator's clock may be stopped.
  static func clockFinding(_ replies: [Reply], isApple: Bool = true, now: () -> Date) -> Finding {
    guard let apple = replies.compactMap(\.answeredAt).max() else {
      return Finding("clock", .warning, "is not compared: Apple sent no time")
    }
    let ahead = now().timeIntervalSince(apple)
    guard abs(ahead) <= ServiceClock.tolerance else {
      let text = ClockCorrection(ahead: ahead, byApple: isApple).text
      return isApple
        ? Finding("clock", .fail, "the machine's clock, compared with Apple's, is \(text); set it, and keep it by NTP")
        : Finding("clock", .warning, "the machine's clock, compared with that of the store, is \(text)")
    }
    return Finding("clock", .ok, "agrees with Apple's to \(max(1, Int(abs(ahead).rounded()))) s")
  }
}

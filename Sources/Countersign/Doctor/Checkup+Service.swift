import CountersignAPI
import CountersignServer
import Entitlements
import FoundationEssentials
import HTTPTransport

/// Asks the service that runs on this machine for its state. It knows what only requests show, such as a shared secret that
/// Apple refuses.
extension Checkup {
  private static let answerLimit = 64 * 1024

  /// - Returns: nothing where no service listens.
  func serviceFindings() async -> [Finding] {
    var settings = CurlTransport.Configuration()
    settings.allowedSchemes = [.http]
    // Not by TLS: the certificate names another address.
    guard let origin = configuration.server.localURL, origin.hasPrefix("http:"),
      let transport = try? CurlTransport(configuration: settings)
    else { return [] }
    let url = origin + "/readyz"
    defer { transport.shutdown() }
    let response: TransportResponse
    do throws(TransportError) {
      response = try await transport.send(
        TransportRequest(method: .get, url: url, headers: [], body: [], responseBodyLimit: Self.answerLimit),
        deadline: .now.advanced(by: Self.callLimit))
    } catch {
      guard case .timedOut = error else { return [] }
      return [Finding("service", .fail, "gives no answer at \(url) within \(Self.callLimit.configurationText)")]
    }
    guard let found = try? JSONDecoder().decode(Readiness.self, from: Data(response.body)) else {
      return [
        Finding("service", .warning, "what answers at \(url), with HTTP \(response.status), does not say how it fares")
      ]
    }
    let status =
      found.status == "ok"
      ? Finding("service", .ok, "answers at \(url), and is ready")
      : Finding("service", .fail, "answers at \(url), and is not ready")
    return [status] + Self.findings(of: found)
  }

  static func findings(of found: Readiness) -> [Finding] {
    func said(_ text: String) -> String { ServiceClient.printable(String(text.prefix(100))) }
    var findings: [Finding] = []
    func add(_ subject: String, _ verdict: Finding.Verdict, _ sentence: String) {
      findings.append(Finding(subject, verdict, "the running service says: \(sentence)"))
    }
    if found.ledger != "ok" { add("ledger", .fail, "\(said(found.ledger)); its log has the cause") }
    switch found.appStore {
    case "shared_secret_rejected":
      add(
        "app_store.shared_secret", .fail,
        "Apple refuses it (21004): copy it from App Store Connect (\(AppStoreConnect.sharedSecret)); nobody is "
          + "downgraded meanwhile")
    case "server_api_key_rejected":
      add(
        "app_store.server_api", .fail,
        "Apple refuses the key (401): check app_store.server_api.key, key_id and issuer_id in App Store Connect "
          + "(\(AppStoreConnect.serverAPIKey)); nobody is downgraded meanwhile"
      )
    case "unavailable": add("app_store", .warning, "Apple does not answer; what is proven stands")
    default: break
    }
    if found.profileStore.hasPrefix("misconfigured") {
      add("profile_store", .fail, "\(said(found.profileStore)); verdicts are kept, and delivered when that is right")
    } else if found.profileStore.hasPrefix("unavailable") {
      add("profile_store", .warning, "\(said(found.profileStore)); verdicts are kept, and delivered when it is back")
    } else if let outbox = found.outbox, let problem = outbox.lastError {
      add("profile_store", .warning, "rows that wait: \(outbox.depth), the last problem: \(said(problem))")
    }
    if found.downgradeBrake == "engaged" {
      add("revalidation", .warning, "the downgrade brake is engaged; 'countersign brake' says why")
    }
    if found.withheldByRules > 0 {
      add(
        "catalog", .warning,
        "users who keep a tier that a changed catalog or policy would lower: \(found.withheldByRules); 'countersign brake' "
          + "says more")
    }
    if found.clock != "ok" {
      add("clock", .fail, "the machine's clock differs from Apple's, or has jumped; set it, and keep it by NTP")
    }
    if let keys = found.userKeys, keys.hasPrefix("stale") || keys.hasPrefix("unavailable") {
      add("auth.jwt", keys.hasPrefix("stale") ? .warning : .fail, "keys that sign users' tokens: \(said(keys))")
    }
    return findings
  }
}

import Access
import CountersignServer
import HTTPTransport
import Ledger
import Logging
import Prometheus
import Validation
import Webhooks

/// The job that delivers events to receivers, and their secrets.
struct WebhookServices: Sendable {
  var deliverer: WebhookDeliverer
  var keyring: WebhookKeyring
}

extension ServiceConfiguration {
  /// - Returns: `nil` without receivers.
  func webhookServices(
    ledger: Ledger, environment: ServiceEnvironment, _ closers: inout Closers
  ) async throws(StartError) -> WebhookServices? {
    do throws(LedgerError) {
      let urls = Dictionary(webhooks.map { ($0.name, $0.url) }, uniquingKeysWith: { $1 })
      for (name, status) in try await ledger.keepWebhooks(urls).sorted(by: { $0.key < $1.key }) {
        environment.logger.warning(
          "a webhook's receiver is named no more, and forgotten with the events that waited for it",
          metadata: [
            "webhook": "\(name)", "waiting": .stringConvertible(status.waiting),
            "dead": .stringConvertible(status.dead),
          ])
      }
    } catch { throw StartError(description: "The ledger cannot keep the receivers of webhooks: \(error)") }
    guard !webhooks.isEmpty else { return nil }
    let transport = try Self.transport(isPrivate: false, environment, &closers)
    let privateTransport = try Self.transport(isPrivate: true, environment, &closers)
    let keyring = WebhookKeyring(webhooks)
    let metrics = WebhookMetrics(environment.metrics)
    return WebhookServices(
      deliverer: WebhookDeliverer(
        endpoints: webhooks,
        sender: HTTPWebhookSender(transport: transport, privateTransport: privateTransport, keyring: keyring),
        ledger: ledger, logger: environment.logger, now: { environment.clock.now }, jitter: environment.jitter,
        pause: environment.jobPause, catalog: catalog, entitlements: plans.entitlements, onAttempt: metrics.note),
      keyring: keyring)
  }

  private static func transport(
    isPrivate: Bool, _ environment: ServiceEnvironment, _ closers: inout Closers
  ) throws(StartError) -> CurlTransport {
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = isPrivate ? [.https, .http] : [.https]
    configuration.refusesPrivateAddresses = !isPrivate
    configuration.http2 = false
    configuration.threadName = isPrivate ? "webhooks-priv" : "webhooks"
    let transport = try environment.transport(configuration, for: "webhooks")
    closers.add(transport.shutdown)
    return transport
  }
}

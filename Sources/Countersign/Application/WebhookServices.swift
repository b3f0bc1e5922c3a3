import CountersignServer
import HTTPTransport
import Ledger
import Logging
import Prometheus
import Validation
import Webhooks

/// The job that delivers events to receivers, with its clients, which have to be shut down.
struct WebhookServices: Sendable {
  var deliverer: WebhookDeliverer
  var keyring: WebhookKeyring
  var transports: [CurlTransport]

  func shutdown() { for transport in transports { transport.shutdown() } }
}

extension ServiceConfiguration {
  /// - Returns: `nil` without receivers.
  func webhookServices(
    ledger: Ledger, environment: ServiceEnvironment
  ) async throws(StartError) -> WebhookServices? {
    do throws(LedgerError) {
      try await ledger.keepWebhooks(Dictionary(webhooks.map { ($0.name, $0.url) }, uniquingKeysWith: { $1 }))
    } catch { throw StartError(description: "The ledger cannot keep the receivers of webhooks: \(error)") }
    guard !webhooks.isEmpty else { return nil }
    let transport = try Self.transport(isPrivate: false)
    let privateTransport: CurlTransport
    do throws(StartError) { privateTransport = try Self.transport(isPrivate: true) } catch {
      transport.shutdown()
      throw error
    }
    let keyring = WebhookKeyring(webhooks)
    let metrics = WebhookMetrics(environment.metrics)
    return WebhookServices(
      deliverer: WebhookDeliverer(
        endpoints: webhooks,
        sender: HTTPWebhookSender(transport: transport, privateTransport: privateTransport, keyring: keyring),
        ledger: ledger, logger: environment.logger, now: { environment.clock.now }, jitter: environment.jitter,
        pause: environment.jobPause, onAttempt: metrics.note),
      keyring: keyring, transports: [transport, privateTransport])
  }

  private static func transport(isPrivate: Bool) throws(StartError) -> CurlTransport {
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = isPrivate ? [.https, .http] : [.https]
    configuration.refusesPrivateAddresses = !isPrivate
    configuration.http2 = false
    configuration.threadName = isPrivate ? "webhooks-priv" : "webhooks"
    do { return try CurlTransport(configuration: configuration) } catch {
      throw StartError(description: "The HTTP client for webhooks cannot start: \(error)")
    }
  }
}

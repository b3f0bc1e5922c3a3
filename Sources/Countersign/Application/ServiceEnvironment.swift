import CountersignServer
import HTTPTransport
import Logging
import NIOCore
import Prometheus
import Validation

/// The service's dependencies on its surroundings: clock, randomness, logger, metrics. Tests pass their own.
struct ServiceEnvironment: Sendable {
  var logger: Logger
  var clock = ServiceClock.system()
  /// The ledger's disk failed: the process has to stop, and to recover at its next start.
  var ledgerFailed: @Sendable (String) -> Void
  /// How long the jobs rest between two looks at what is due.
  var jobPause: Duration = .seconds(1)
  /// Chance, for pauses: a duration between zero and its argument.
  var jitter: @Sendable (Duration) -> Duration = { $0 * Double.random(in: 0...1) }
  /// Makes each client for outgoing HTTP.
  var makeTransport: @Sendable (CurlTransport.Configuration) throws(CurlTransport.SetupError) -> CurlTransport = {
    configuration throws(CurlTransport.SetupError) in try CurlTransport(configuration: configuration)
  }
  /// The address the service listens on.
  var onListening: @Sendable (SocketAddress) async -> Void = { _ in }
  /// The operators' own address, where there is one.
  var onAdminListening: @Sendable (SocketAddress) async -> Void = { _ in }
  /// The metrics of this service; swift-metrics' global system gets none.
  var metrics: PrometheusRegistry = ServiceMetric.registry()
  /// How long nothing of a request's body may come.
  var bodyPatience = BodyPace.usualPatience
  /// How long what readiness found out stands.
  var readinessLifetime: Duration = .seconds(1)
  /// How long between two looks whether the server's certificate was renewed.
  var certificatePause: Duration = .seconds(30)
  /// Tells when to read the configuration again; `nil`: never.
  var reload: ConfigurationReload.Source?
}

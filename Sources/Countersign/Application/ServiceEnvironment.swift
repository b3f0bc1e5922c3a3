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
  /// The pause of the jobs between two polls.
  var jobPause: Duration = .seconds(1)
  /// Chance, for pauses: a duration between zero and its argument.
  var jitter: @Sendable (Duration) -> Duration = { $0 * Double.random(in: 0...1) }
  /// Makes each client for outgoing HTTP.
  var makeTransport: @Sendable (CurlTransport.Configuration) throws(CurlTransport.SetupError) -> CurlTransport = {
    configuration throws(CurlTransport.SetupError) in try CurlTransport(configuration: configuration)
  }
  var onListening: @Sendable (SocketAddress) async -> Void = { _ in }
  /// The operators' own address, where there is one.
  var onAdminListening: @Sendable (SocketAddress) async -> Void = { _ in }
  /// The metrics of this service; swift-metrics' global system gets none.
  var metrics: PrometheusRegistry = ServiceMetric.registry()
  /// The longest pause within a request's body.
  var bodyPatience = BodyPace.usualPatience
  /// Whether Apple is asked for missed notifications at the start and every day; a test that counts calls does without.
  var asksForMissed = true
  /// The lifetime of a check of readiness.
  var readinessLifetime: Duration = .seconds(1)
  /// The pause between two checks for a renewed certificate.
  var certificatePause: Duration = .seconds(30)
  /// The signals to read the configuration again, if any.
  var reload: ConfigurationReload.Source?
}

extension ServiceEnvironment {
  /// A client for outgoing HTTP, or the reason why it cannot start.
  func transport(
    _ configuration: CurlTransport.Configuration, for part: String? = nil
  ) throws(StartError) -> CurlTransport {
    do { return try makeTransport(configuration) } catch {
      throw StartError(description: "The HTTP client\(part.map { " for \($0)" } ?? "") cannot start: \(error)")
    }
  }
}

/// The reason why the service cannot start: one sentence for an operator.
struct StartError: Error, CustomStringConvertible {
  var description: String
  /// Whether the configuration has to be mended before another start.
  var isConfiguration = false
}

extension ServerSettings {
  /// The certificate that the server shows; `nil` for plain HTTP.
  func identities() throws(StartError) -> ServerIdentities? {
    guard let tls else { return nil }
    do throws(ServerIdentity.Unusable) {
      return try ServerIdentities(tls)
    } catch {
      throw StartError(
        description: "server.tls.\(error.isAboutKey ? "key_file" : "certificate_file"): \(error.sentence).")
    }
  }
}

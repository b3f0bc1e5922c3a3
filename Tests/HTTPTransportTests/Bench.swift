import HTTPTransport
import Synchronization
import Testing
import TestSupport

/// All tests of the module. Each has a server and a transport of its own, of which it counts connections, threads and turns of
/// the loop.
@Suite(.timeLimit(.minutes(10)))
struct HTTPTransportTests {}

/// An authority and a server certificate of its own for a test, and transports that trust it.
struct Bench {
  let authority: TestCertificateAuthority
  let identity: TestCertificateAuthority.Identity

  init() throws {
    authority = try TestCertificateAuthority()
    identity = try authority.serverIdentity()
  }

  /// Runs `body` with a transport, which is shut down whatever happens.
  func withTransport<Result: Sendable>(
    _ configure: (inout CurlTransport.Configuration) -> Void = { _ in },
    _ body: (CurlTransport) async throws -> Result
  ) async throws -> Result {
    var configuration = CurlTransport.Configuration(caFile: authority.caFile)
    configure(&configuration)
    let transport = try CurlTransport(configuration: configuration)
    defer { transport.shutdown() }
    return try await body(transport)
  }

  /// Runs `body` with a transport and a server that never answers.
  static func withSilentServer(
    _ configure: (inout CurlTransport.Configuration) -> Void = { _ in },
    _ body: (CurlTransport, RawTLSServer) async throws -> Void
  ) async throws {
    let bench = try Bench()
    try await RawTLSServer.running(identity: bench.identity) {
      await $0.waitForClose()
    } during: { server in
      try await bench.withTransport(configure) { try await body($0, server) }
    }
  }
}

extension Transport {
  /// Sends with a deadline that no test reaches unless something hangs.
  func send(_ request: TransportRequest) async throws -> TransportResponse {
    try await send(request, deadline: .now + .seconds(60))
  }

  /// How the request ended, as a value.
  func outcome(
    _ request: TransportRequest, within time: Duration = .seconds(60)
  ) async -> Result<TransportResponse, TransportError> {
    await outcome(request, by: .now + time)
  }

  func outcome(
    _ request: TransportRequest, by deadline: ContinuousClock.Instant
  ) async -> Result<TransportResponse, TransportError> {
    do throws(TransportError) {
      return .success(try await send(request, deadline: deadline))
    } catch {
      return .failure(error)
    }
  }
}

extension Result where Success == TransportResponse, Failure == TransportError {
  var error: TransportError? {
    if case .failure(let error) = self { error } else { nil }
  }
  var status: Int? {
    if case .success(let response) = self { response.status } else { nil }
  }
  var text: String? {
    if case .success(let response) = self { response.text } else { nil }
  }
}

extension TransportRequest {
  static func get(_ url: String, limit: Int = 1 << 16) -> TransportRequest {
    TransportRequest(method: .get, url: url, responseBodyLimit: limit)
  }

  static func post(_ url: String, _ text: String, limit: Int = 1 << 16) -> TransportRequest {
    TransportRequest(method: .post, url: url, body: Array(text.utf8), responseBodyLimit: limit)
  }
}

extension TransportResponse {
  var text: String { String(decoding: body, as: UTF8.self) }
}

/// Fires when it was passed a number of times.
final class Turnstile: Sendable {
  let open = Event()
  private let needed: Int
  private let count = Mutex(0)

  init(_ needed: Int) { self.needed = needed }

  var passed: Int { count.withLock { $0 } }
  var isOpen: Bool { passed >= needed }

  func pass() {
    let now = count.withLock { count in
      count += 1
      return count
    }
    if now == needed { open.fire() }
  }
}

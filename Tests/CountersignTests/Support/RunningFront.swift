import HTTPTypes
import Logging
import NIOCore
import Prometheus
import ServiceLifecycle

import struct HummingbirdCore.Request
import struct HummingbirdCore.RequestBody

@testable import CountersignServer

/// A listener, as the service's own, of a few routes without credential.
enum RunningFront {
  static func front(
    _ routes: [String: [HTTPRequest.Method: Handler]], prompt: [String: PromptHandler] = [:]
  ) -> RequestFront {
    let list = Routes()
    for (path, handler) in prompt { list.serve(path, prompt: [.get: handler]) }
    for (path, handlers) in routes { list.serve(path, handlers) }
    return RequestFront(
      table: RouteTable(list.list), headers: CommonHeaders(speaksTLS: false),
      metrics: HTTPMetrics(PrometheusRegistry()))
  }

  static let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

  static func run(
    _ routes: [String: [HTTPRequest.Method: Handler]], _ settings: ServerSettings? = nil,
    body: (_ port: Int, _ server: Task<Void, any Error>) async throws -> Void
  ) async throws {
    let ports = AsyncStream.makeStream(of: Int.self)
    var server = settings ?? ServerSettings()
    server.port = 0
    let listener = try ServiceListener(
      front(routes), server,
      onListening: { ports.continuation.yield($0.port ?? 0) }, logger: logger)
    let running = Task { try await listener.run() }
    defer { running.cancel() }
    var iterator = ports.stream.makeAsyncIterator()
    try await body(await iterator.next() ?? 0, running)
  }
}

extension ServiceRequestContext {
  static func test(_ method: HTTPRequest.Method = .get) -> ServiceRequestContext {
    ServiceRequestContext(
      Request(
        head: HTTPRequest(method: method, scheme: "http", authority: "a", path: "/"),
        body: RequestBody(buffer: ByteBuffer())), peer: nil, logger: RunningFront.logger)
  }
}

import Foundation
import Hummingbird
import Logging
import Synchronization
import Testing

@testable import AppStoreSimulator

/// An app's server that takes notifications and answers each with a status.
final class Inbox: Sendable {
  private final class Contents: Sendable {
    let payloads = Mutex<[String]>([])
    let status = Mutex(200)
  }

  private struct Body: Decodable {
    var signedPayload: String
  }

  let url: String
  private let contents: Contents
  private let listener: Listener
  private let connections = ConnectionRegistry()

  private init(url: String, contents: Contents, listener: Listener) {
    self.url = url
    self.contents = contents
    self.listener = listener
  }

  static func open() async throws -> Inbox {
    let contents = Contents()
    let listener = try await Listener.open(
      host: "127.0.0.1", port: 0, tls: nil, clock: SimulatedClock(), logger: Logger(label: "inbox")
    ) { request, _ in
      let body = try await request.body.collect(upTo: 1 << 20)
      guard request.method == .post, request.uri.path == "/v1/notifications/app-store",
        let decoded = try? JSONDecoder().decode(Body.self, from: Data(Array(buffer: body)))
      else { return Response(status: .badRequest) }
      contents.payloads.withLock { $0.append(decoded.signedPayload) }
      return Response(status: .init(code: contents.status.withLock { $0 }))
    }
    return Inbox(
      url: "http://127.0.0.1:\(listener.port)/v1/notifications/app-store", contents: contents, listener: listener)
  }

  func answer(with status: Int) { contents.status.withLock { $0 = status } }

  var payloads: [String] { contents.payloads.withLock { $0 } }

  /// The notifications that have come, as `TYPE SUBTYPE`.
  func types() throws -> [String] {
    try payloads.map { text in
      let payload = try CheckedJWS.payload(text)
      return [payload.text("notificationType"), payload.text("subtype")].compactMap(\.self).joined(separator: " ")
    }
  }

  func close() async { await listener.close(connections) }
}

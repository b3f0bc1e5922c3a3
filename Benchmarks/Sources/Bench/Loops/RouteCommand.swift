import ArgumentParser
import Foundation
import Hummingbird
import Logging
import NIOCore

/// `bench route`: what Hummingbird alone costs. A GET of a small JSON text, and a POST whose body is read to its end.
struct RouteCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "route", abstract: "Serve a bare Hummingbird route.")

  /// As long as an answer of the service.
  static let answer = """
    {"user_id":"user-1","tier":"pro","status":"active","reason":"renewal_expected","expires_at":"2026-12-01T12:00:00Z",\
    "access_until":"2026-12-01T12:00:00Z","will_renew":true,"product_id":"com.example.app.pro.monthly",\
    "original_transaction_id":"900000000000000","environment":"production","in_trial":false,"source":"verify_receipt",\
    "verified_at":"2026-11-21T12:00:00Z","explanation":"The subscription is active and will renew.","write":"committed"}
    """

  func run() async throws {
    let router = Router()
    router.get("/") { _, _ in Self.response() }
    router.post("/") { request, _ in
      var bytes = 0
      for try await part in request.body { bytes += part.readableBytes }
      return bytes > 0 ? Self.response() : Response(status: .badRequest)
    }
    let application = Application(
      router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
      onServerRunning: { channel in
        print("{\"port\":\(channel.localAddress?.port ?? 0)}")
        fflush(nil)
      }, logger: Logger(label: "route") { _ in SwiftLogNoOpLogHandler() })
    try await application.runService()
  }

  private static func response() -> Response {
    Response(
      status: .ok, headers: [.contentType: "application/json"],
      body: .init(byteBuffer: ByteBuffer(string: answer)))
  }
}

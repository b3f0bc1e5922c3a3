import HTTPTypes
import Hummingbird
import Logging

extension HTTPField.Name {
  // A constant that is a valid field name.
  // swift-format-ignore: NeverForceUnwrap
  static let requestID = HTTPField.Name("X-Request-Id")!
}

/// Names every request, in its answer and in every log line, and gives every answer the headers that all have.
///
/// One middleware for both: each costs four of Swift's asynchronous frames. A caller's own `X-Request-Id` is kept where it is
/// harmless: up to 128 letters, digits, `.`, `_` and `-`.
struct RequestIDMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  var headers: CommonHeaders

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    var context = context
    context.identify(request)
    var response = try await next(request, context)
    headers.mark(&response)
    response.headers[.requestID] = context.requestID
    return response
  }

  static func accepted(_ id: String) -> String? {
    let isHarmless = id.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    return isHarmless && (1...128).contains(id.utf8.count) ? id : nil
  }
}

extension ServiceRequestContext {
  /// Takes the ID of a request, or gives it one, and what it is.
  mutating func identify(_ request: Request) {
    isWrite = request.method != .get && request.method != .head
    requestID = request.headers[.requestID].flatMap(RequestIDMiddleware.accepted) ?? RequestID.random()
    logger[metadataKey: "request_id"] = .string(requestID)
    logger[metadataKey: "hb.request.id"] = nil
  }
}

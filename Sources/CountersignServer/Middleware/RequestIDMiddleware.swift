import HTTPTypes
import Hummingbird
import Logging

extension HTTPField.Name {
  // A constant that is a valid field name.
  // swift-format-ignore: NeverForceUnwrap
  static let requestID = HTTPField.Name("X-Request-Id")!
}

/// Names every request, in its answer and in every log line.
///
/// A caller's own `X-Request-Id` is kept where it is harmless: up to 128 letters, digits, `.`, `_` and `-`.
struct RequestIDMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let requestID = request.headers[.requestID].flatMap(Self.accepted) ?? RequestID.random()
    var context = context
    context.requestID = requestID
    context.logger[metadataKey: "request_id"] = .string(requestID)
    context.logger[metadataKey: "hb.request.id"] = nil
    var response = try await next(request, context)
    response.headers[.requestID] = requestID
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

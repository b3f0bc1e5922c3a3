import HTTPTypes
import Hummingbird

/// Lets pages call from a browser (https://fetch.spec.whatwg.org/#http-cors-protocol): those of any origin some paths, as
/// SDKs do, and those of the app's own origins every path. Whoever calls is known by a header, and never by a cookie.
struct CrossOrigin: Sendable {
  /// Whether a path is for pages of any origin.
  var isForAll: @Sendable (_ path: String) -> Bool
  var origins: Set<String>

  /// The answer to a preflight of a page that may call, which `mark` names; `nil` for any other request.
  func preflight(_ request: Request) -> Response? {
    guard allowed(request) != nil, request.method == .options, request.headers[.accessControlRequestMethod] != nil
    else { return nil }
    return Response(
      status: .noContent,
      headers: [
        .accessControlAllowMethods: "GET, POST, PUT, PATCH, DELETE",
        .accessControlAllowHeaders: request.headers[.accessControlRequestHeaders] ?? "Authorization, Content-Type",
        .accessControlMaxAge: "86400",
      ])
  }

  /// Says in an answer which page may read it.
  func mark(_ response: inout Response, for request: Request) {
    if let origin = allowed(request) {
      response.headers[.accessControlExposeHeaders] = "Date, ETag, Retry-After, X-Request-Id"
      response.headers[.accessControlAllowOrigin] = origin
      if origin != "*" { response.headers.append(HTTPField(name: .vary, value: "Origin")) }
    } else if !origins.isEmpty {
      // A cache must not give a page the answer to somebody else.
      response.headers.append(HTTPField(name: .vary, value: "Origin"))
    }
  }

  /// The value of `Access-Control-Allow-Origin`; `nil`: no page may read the answer.
  private func allowed(_ request: Request) -> String? {
    if isForAll(request.uri.path) { return "*" }
    return request.headers[.origin].flatMap { origins.contains($0) ? $0 : nil }
  }
}

import HTTPTypes
import Hummingbird
import NIOCore

/// `/support`: the page for support staff and operators. It needs no credential, because it contains no data: a person types
/// a key, which the page keeps in memory and sends to the API.
///
/// Its files are in the binary: the page, a style sheet, and a script of modules, which begins with `page.js`. Every answer limits the browser to these
/// scripts, this style sheet and this service.
struct SupportPage: Controller {
  /// https://www.w3.org/TR/CSP3/
  static let contentSecurityPolicy = [
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
    "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
  ].joined(separator: "; ")

  func addRoutes(to routes: Routes) {
    routes.serve("/support", [.get: page])
    routes.serve("/support/{file}", [.get: file])
  }

  func page(_ request: Request, _ context: ServiceRequestContext) -> Response {
    // The page names its files relative to itself, so that a proxy may put it under a prefix.
    if request.uri.path.hasSuffix("/") {
      return Response(status: .permanentRedirect, headers: [.location: "../support"])
    }
    return Self.response(Resource.page, "text/html; charset=utf-8")
  }

  func file(_ request: Request, _ context: ServiceRequestContext) throws -> Response {
    let name = context.parameters["file"] ?? ""
    if name == "page.css" { return Self.response(Resource.styleSheet, "text/css; charset=utf-8") }
    guard let module = Resource.script(name) else { throw Problem(.notFound, "The support page has no such file.") }
    return Self.response(module, "text/javascript; charset=utf-8")
  }

  private static func response(_ bytes: [UInt8], _ mediaType: String) -> Response {
    var response = Response(status: .ok, headers: headers, body: .bytes(ByteBuffer(bytes: bytes)))
    response.headers[.contentType] = mediaType
    return response
  }

  private static let headers: HTTPFields = [
    .cacheControl: "no-cache", .contentSecurityPolicy: contentSecurityPolicy, .xFrameOptions: "DENY",
    .crossOriginOpenerPolicy: "same-origin", .crossOriginResourcePolicy: "same-origin",
    .permissionsPolicy: "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  ]
}

import HTTPTypes
import Hummingbird
import Logging

/// Lets nobody past without a valid credential; it runs before the body is read.
///
/// The credential comes as `Authorization: Bearer …` (RFC 6750, section 2.1), never in a URL.
struct AuthenticationMiddleware: RouterMiddleware {
  typealias Context = ServiceRequestContext

  var keyring: APIKeyring

  /// A credential longer than this is none; it is not even hashed.
  static let longestCredential = 4096

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    // One answer for absent, misshapen and wrong: which it was is nobody's business.
    guard let credential = Self.bearer(request.headers[values: .authorization]),
      let caller = keyring.caller(presenting: credential)
    else { throw Problem(.unauthenticated, "Send a valid API key as 'Authorization: Bearer …'.") }
    var context = context
    context.caller = caller
    context.logger[metadataKey: "caller"] = "\(caller.name)"
    return try await next(request, context)
  }

  private static func bearer(_ values: [String]) -> String? {
    guard values.count == 1, let value = values.first, value.utf8.count <= longestCredential else { return nil }
    let parts = value.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
    let credential = parts[1].drop { $0 == " " }
    return credential.isEmpty ? nil : String(credential)
  }
}

extension ServiceRequestContext {
  /// The caller, where the route lets in one of these roles.
  /// - Throws: a 403 problem for another role.
  func requireCaller(_ roles: APIKey.Role...) throws(Problem) -> Caller {
    guard let caller else { throw Problem(.unauthenticated, "Send a valid API key as 'Authorization: Bearer …'.") }
    guard roles.contains(caller.role) else {
      throw Problem(.forbidden, "A key of the role '\(caller.role.rawValue)' may not do this.")
    }
    return caller
  }
}

import Cryptography
import Entitlements
import HTTPTypes
import Hummingbird
import Logging
import Tokens

/// Rejects a request without a valid credential, and one of a caller who asks too often, before its body is read.
///
/// The credential comes as `Authorization: Bearer …` (RFC 6750, section 2.1), never in a URL. One with two dots is a user's
/// token, any other an API key or the public key of an app.
package struct Authentication: Sendable {
  var keyring: APIKeyring
  /// `nil` where users cannot call.
  var tokens: UserTokenVerifier?
  var limits: RequestLimits

  /// A credential longer than this is none; it is not even hashed.
  package static let longestCredential = UserToken.longest

  /// The caller of a request; `nil` where the key of a user's token has to be fetched first.
  func knownCaller(of request: Request, _ context: ServiceRequestContext) throws(Problem) -> Caller? {
    let credential = try Self.credential(request)
    guard Self.isToken(credential) else {
      guard let caller = keyring.holder(presenting: credential) else { throw .unauthenticated }
      return caller
    }
    do throws(TokenError) {
      guard let tokens else { throw .refused(.notConfigured) }
      return try tokens.knownUser(presenting: credential).map(Caller.user)
    } catch { throw Self.problem(error, context) }
  }

  /// The caller of a request, whose key is fetched if need be.
  func caller(of request: Request, _ context: ServiceRequestContext) async throws(Problem) -> Caller {
    if let caller = try knownCaller(of: request, context) { return caller }
    let credential = try Self.credential(request)
    do throws(TokenError) {
      guard let tokens else { throw .refused(.notConfigured) }
      return .user(try await tokens.user(presenting: credential))
    } catch { throw Self.problem(error, context) }
  }

  /// Logs a caller who was refused a request, a user's ID as a digest: no line has the path of a request either.
  static func note(_ error: any Error, of method: HTTPRequest.Method, _ context: ServiceRequestContext) {
    guard let caller = context.caller, (error as? Problem)?.code == .forbidden else { return }
    var metadata: Logger.Metadata = ["method": "\(method.rawValue)", "route": "\(context.route)"]
    if case .user(let user) = caller {
      metadata["user_sha256"] = "\(SHA256Digest(of: (user.accountToken ?? user.rawValue).utf8).hexadecimal.prefix(16))"
    }
    context.logger.notice("a request was forbidden", metadata: metadata)
  }

  private static func problem(_ error: TokenError, _ context: ServiceRequestContext) -> Problem {
    switch error {
    case .refused(let reason):
      context.logger.debug("a user's token was refused", metadata: ["reason": "\(reason.rawValue)"])
      return .unauthenticated
    case .keysUnavailable:
      return Problem(
        .authenticationUnavailable,
        "The keys by which users' tokens are checked could not be fetched; nothing was recorded; try again.")
    }
  }

  private static func isToken(_ credential: String) -> Bool {
    credential.utf8.count(where: { $0 == UInt8(ascii: ".") }) == 2
  }

  /// - Throws: one answer for absent, misshapen and wrong: which it was is nobody's business.
  private static func credential(_ request: Request) throws(Problem) -> String {
    let values = request.headers[values: .authorization]
    guard values.count == 1, let value = values.first else { throw .unauthenticated }
    let parts = value.utf8.split(separator: UInt8(ascii: " "), maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, Substring(parts[0]).lowercased() == "bearer" else { throw .unauthenticated }
    let credential = parts[1].drop { $0 == UInt8(ascii: " ") }
    guard !credential.isEmpty, credential.count <= longestCredential else { throw .unauthenticated }
    return String(Substring(credential))
  }
}

extension Problem {
  fileprivate static let unauthenticated = Problem(
    .unauthenticated, "Send a valid API key or user token as 'Authorization: Bearer …'.")
  static let publicKey = Problem(
    .forbidden, "A public key names an app and no user: it is for the routes of the SDK and of trials.")
}

extension ServiceRequestContext {
  /// The caller, where the route lets in servers of one of these roles.
  /// - Throws: a 403 problem for another role, and for users.
  func requireCaller(_ roles: APIKey.Role...) throws(Problem) -> ServerCaller { try requireServer(roles) }

  /// The caller, where the route lets in users for what is their own, and servers of one of these roles.
  /// - Throws: a 403 problem for another role.
  func requireUserOr(_ roles: APIKey.Role...) throws(Problem) -> NamedCaller {
    if case .user(let user) = caller { return .user(user) }
    return .server(try requireServer(roles))
  }

  /// The caller of a route about trials: a user, an app by its public key, or a server of one of these roles.
  /// - Throws: a 403 problem for another role.
  func requireUserOrAppOr(_ roles: APIKey.Role...) throws(Problem) -> Caller {
    switch caller {
    case .user(let user): .user(user)
    case .app(let key): .app(key)
    case nil, .server: .server(try requireServer(roles))
    }
  }

  /// The user who calls.
  /// - Throws: a 403 problem for a server.
  func requireUser() throws(Problem) -> UserID {
    switch caller {
    case nil: throw .unauthenticated
    case .user(let user): return user
    case .server, .app: throw Problem(.forbidden, "Only a user's token may do this.")
    }
  }

  /// Whether an API key calls, and not a user.
  var isServer: Bool { if case .server = caller { true } else { false } }

  /// The user in the path, `me` for the caller's own, where a user reads and consumes what is their own, and servers and
  /// support anybody's.
  /// - Throws: a problem: 403 for another role or another user, 400 for a name that is none.
  func requireUserInPath() throws(Problem) -> UserID {
    guard case .user(let user) = try requireUserOr(.service, .support) else { return try checkedUserInPath() }
    let name = try userNameInPath()
    // No other name is looked up, so that the answer does not reveal whether the user exists.
    guard name == "me" || UserID(fromOutside: name) == user else {
      throw Problem(.forbidden, "A user's token is for that user alone: write 'me' for the user ID.")
    }
    return user
  }

  private func requireServer(_ roles: [APIKey.Role]) throws(Problem) -> ServerCaller {
    switch caller {
    case nil: throw .unauthenticated
    case .user: throw Problem(.forbidden, "A user's token may not do this.")
    case .app: throw .publicKey
    case .server(let server):
      guard roles.contains(where: server.roles.contains) else {
        let names = server.roles.map { "'\($0.rawValue)'" }.sorted().joined(separator: " and ")
        let needed = roles.map { "'\($0.rawValue)'" }.joined(separator: " or ")
        throw Problem(.forbidden, "A key of the role \(names) may not do this; one of the role \(needed) may.")
      }
      return server
    }
  }
}

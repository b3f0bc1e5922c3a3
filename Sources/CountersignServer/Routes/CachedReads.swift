import Entitlements
import HTTPTypes
import Hummingbird
import Logging
package import NIOCore

/// The reads that are answered from memory, without the router: `GET /v1/profiles/{user_id}` and `…/access`.
///
/// Checks, limits, answers and log lines are the router's own. A request that is not answered here is the router's, which
/// says why where it refuses one. With a ledger that replicas share every read is: its answers are not kept in memory.
package struct CachedReads: Sendable {
  private static let prefix = "/v1/profiles/"
  private static let accessSuffix = "/access"
  /// A request with one of these has a body, or wants more than an answer.
  private static let routersHeaders: [HTTPField.Name] = [
    .contentLength, .transferEncoding, .connection, .expect, .upgrade,
  ]

  var profiles: ProfilesController
  var access: AccessController
  var authentication: AuthenticationMiddleware
  var checks: [any RequestCheck]
  var accessLog: AccessLogMiddleware
  /// `nil` where no page may call.
  var crossOrigin: CrossOriginMiddleware?
  /// Whether the public address speaks TLS by itself.
  var speaksTLS: Bool
  var logger: Logger
  let date = HTTPDate()

  /// A connection's handler.
  package func makeHandler() -> any RemovableChannelHandler { CachedReadHandler(reads: self) }

  /// Whether a request may be such a read: a GET without a body, after which the connection stays as it is.
  func mayAnswer(_ head: HTTPRequest) -> Bool {
    guard head.method == .get, head.path?.hasPrefix(Self.prefix) == true else { return false }
    return !head.headerFields.contains { Self.routersHeaders.contains($0.name) }
  }

  /// The answer, if it is in memory and is this caller's to read.
  func answer(to head: HTTPRequest, on channel: any Channel) -> (head: HTTPResponse, body: ByteBuffer?)? {
    let start = ContinuousClock.now
    guard let path = head.path, let (segment, isAccess) = Self.user(inPath: path) else { return nil }
    var context = ServiceRequestContext(source: ApplicationRequestContextSource(channel: channel, logger: logger))
    // An address limit saves the check of a credential, so it comes first, as in the router.
    guard !authentication.limits.isAddressSpent(head.headerFields, peer: context.peer),
      let caller = authentication.callerAtOnce(presenting: head.headerFields[values: .authorization])
    else { return nil }
    context.caller = caller
    guard let user = try? context.requireUser(named: segment),
      let known = isAccess ? access.known(user) : profiles.known(user)
    else { return nil }

    let request = Request(head: head, body: RequestBody(buffer: ByteBuffer()))
    context.coreContext.endpointPath.value = Self.prefix + "{user_id}" + (isAccess ? Self.accessSuffix : "")
    context.identify(request)
    accessLog.metrics.began()
    var response: Response
    let body: ByteBuffer?
    do throws(Problem) {
      for check in checks { try check.check(request, &context) }
      try authentication.limits.admit(caller, context)
      response = known.response(to: request)
      body = response.status == .notModified ? nil : known.body
    } catch {
      response = error.response(requestID: context.requestID)
      response.headers.append(contentsOf: CommonHeaders.ofDocuments)
      body = error.body(requestID: context.requestID)
    }
    crossOrigin?.mark(&response, for: request)
    accessLog.note(response, to: request, context, since: start)
    if speaksTLS { response.headers.append(CommonHeaders.strictTransport) }
    response.headers[.requestID] = context.requestID
    response.headers[.date] = date.now
    return (response.head, body)
  }

  /// The user as the path spells them.
  private static func user(inPath path: String) -> (segment: Substring, isAccess: Bool)? {
    var rest = path.dropFirst(prefix.count)
    let isAccess = rest.hasSuffix(accessSuffix)
    if isAccess { rest.removeLast(accessSuffix.count) }
    let isOneSegment = !rest.isEmpty && !rest.utf8.contains { "/?#".utf8.contains($0) }
    return isOneSegment ? (rest, isAccess) : nil
  }
}

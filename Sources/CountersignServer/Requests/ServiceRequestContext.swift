import HTTPTypes
import Hummingbird
import Ledger
package import Logging
import Resilience
import Validation

package struct ServiceRequestContext: Sendable {
  /// The moment at which the request had arrived.
  let arrival = ContinuousClock.now
  /// The caller's `X-Request-Id`, or one of ours.
  let requestID: String
  /// Whether the request may change something (RFC 9110, section 9.2.1).
  let isWrite: Bool
  /// The route as it is registered; a request without one has `Self.noRoute`.
  var route = Self.noRoute
  /// The segments of the path that stand for a name of its route, as they are.
  var parameters: [String: String] = [:]
  /// Set by the authentication; `nil` on routes that are open.
  var caller: Caller?
  /// The other end of the connection; `nil` where it has no IP address.
  let peer: ClientAddress?
  /// The client address that rate limits count; `nil` for an unknown client.
  var clientAddress: ClientAddress?
  /// The end of the connection, for a request that waits until something happens.
  let connectionEnd: ConnectionEnd
  private let base: Logger

  static let noRoute = "NotFound"

  /// - Parameter logger: without a request.
  init(_ request: Request, peer: ClientAddress?, connectionEnd: ConnectionEnd = ConnectionEnd(), logger: Logger) {
    requestID = request.headers[.requestID].flatMap(RequestID.accepted) ?? RequestID.random()
    isWrite = request.method != .get && request.method != .head
    self.peer = peer
    self.connectionEnd = connectionEnd
    base = logger
  }

  /// Names the request and its caller in every line.
  package var logger: Logger {
    var logger = base
    logger[metadataKey: "request_id"] = .string(requestID)
    if let caller { logger[metadataKey: "caller"] = .string(caller.logName) }
    return logger
  }

  /// The ledger's answer, or a 503 problem: a guess in its place could let through, or lock out, anybody.
  func reading<Value>(_ answer: @autoclosure () async throws(LedgerError) -> Value) async throws(Problem) -> Value {
    do { return try await answer() } catch { throw unavailable(error) }
  }

  /// The problem of a ledger that failed. Its cause is in the log; the caller learns only that it can try again.
  func unavailable(_ cause: LedgerError) -> Problem {
    logger.error("the ledger is unavailable", metadata: ["cause": "\(cause)"])
    return .ledgerUnavailable
  }

  /// The answer of a use case, or its error as a problem, whose cause is in the log.
  func validating<Value>(
    _ answer: @autoclosure () async throws(ValidationError) -> Value
  ) async throws(Problem) -> Value {
    do { return try await answer() } catch { throw problem(error) }
  }

  /// The problem of a use case that failed. Its cause is in the log.
  func problem(_ error: ValidationError) -> Problem {
    switch error {
    case .ledgerUnavailable(let cause): return unavailable(cause)
    case .clockBehind: logger.error("a transaction is signed ahead of our clock: set the clock right")
    // Anybody can post such purchases, so only some are logged.
    case .unreadableSignedData(let detail) where Self.unreadableSignedData.admit():
      logger.error(
        "data that Apple signed cannot be read: look for a newer version of the service",
        metadata: ["cause": "\(detail)"])
    case .keyOfAnotherApp where Self.keysOfAnotherApp.admit():
      logger.warning(
        "a purchase comes with the public key of another app of ours: check auth.public_keys and the key in the app")
    default: break
    }
    return Problem(error)
  }

  private static let unreadableSignedData = Occasional(most: 20, every: .seconds(60))
  private static let keysOfAnotherApp = Occasional(most: 20, every: .seconds(60))
}

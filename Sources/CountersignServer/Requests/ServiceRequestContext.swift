package import Hummingbird
import Ledger
import Logging
import NIOCore
import Resilience

/// The context of a request.
package struct ServiceRequestContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// The moment at which the head had arrived.
  let arrival = ContinuousClock.now
  /// The caller's `X-Request-Id`, or one of ours.
  var requestID = ""
  /// Whether the request may change something (RFC 9110, section 9.2.1).
  var isWrite = false
  /// The method of the request, where it is one that no route knows.
  var unknownMethod: HTTPRequest.Method?
  /// Set by the authentication; `nil` on routes that are open.
  var caller: Caller?
  /// The other end of the connection; `nil` where it has no IP address.
  var peer: ClientAddress?
  /// The client address that rate limits count; `nil` for an unknown client.
  var clientAddress: ClientAddress?

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    peer = ClientAddress(source.channel.remoteAddress)
  }

  /// Logs the cause of a 503 for operators; the caller learns only that it can try again.
  func logLedgerTrouble(_ cause: LedgerError) {
    logger.error("the ledger is unavailable", metadata: ["cause": "\(cause)"])
  }

  /// The ledger's answer, or a 503 problem: a guess in its place could let through, or lock out, anybody.
  func reading<Value>(
    _ answer: @autoclosure () async throws(LedgerError) -> Value
  ) async throws(Problem) -> Value {
    do { return try await answer() } catch { throw unavailable(error) }
  }

  /// The problem of a ledger that failed. Its cause is in the log.
  func unavailable(_ cause: LedgerError) -> Problem {
    logLedgerTrouble(cause)
    return Problem(.ledgerUnavailable, "The ledger is unavailable now; try again.")
  }

  /// Anybody can post such a purchase, so only some are logged.
  func logKeyOfAnotherApp() {
    guard Self.keysOfAnotherApp.admit() else { return }
    logger.warning(
      "a purchase comes with the public key of another app of ours: check auth.public_keys and the key in the app")
  }

  private static let keysOfAnotherApp = Occasional(most: 20, every: .seconds(60))

  func logClockBehind() {
    logger.error("a transaction is signed ahead of our clock: set the clock right")
  }
}

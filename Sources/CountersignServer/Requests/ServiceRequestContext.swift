package import Hummingbird
import Ledger
import Logging
import NIOCore

/// What is known of a request while it is handled.
package struct ServiceRequestContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// When the head of the request was there.
  let arrival = ContinuousClock.now
  /// The caller's `X-Request-Id`, or one of ours.
  var requestID = ""
  /// Set by the authentication; `nil` on routes that are open.
  var caller: Caller?
  /// The other end of the connection; `nil` where it has no IP address.
  var peer: ClientAddress?
  /// The client whose requests are counted; `nil` where none is known.
  var clientAddress: ClientAddress?

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    peer = ClientAddress(source.channel.remoteAddress)
  }

  /// The caller is told to come back; why is for whoever keeps the service running.
  func logLedgerTrouble(_ cause: LedgerError) {
    logger.error("the ledger is unavailable", metadata: ["cause": "\(cause)"])
  }

  func logClockBehind() {
    logger.error("a transaction is signed ahead of our clock: set the clock right")
  }
}

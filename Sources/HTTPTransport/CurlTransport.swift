import Synchronization

/// The production transport: libcurl's multi interface on its own thread.
///
///     send ──► mailbox ──► loop ──► libcurl ──► network
///       ▲   submit, cancel   │
///       └────────────────────┘ one result per request
///
/// A deadline is absolute and covers everything from the call on: the wait for a slot, the name look-up, the handshake.
///
/// Two limits: a response without Content-Length or chunks ends with the connection, so a truncated one looks complete,
/// and the caller has to check the body. libcurl may also resend a GET when a reused connection dies before the first
/// byte of the response; every other request is sent once at most (see `EasyHandle`).
package final class CurlTransport: Transport {
  /// Counters since the start, for tests and metrics.
  package struct Statistics: Hashable, Sendable {
    package var connectionsOpened = 0
    package var transfersCompleted = 0
    /// Requests that the loop ended, with any result.
    package var requestsEnded = 0
    /// Requests that ended with `.overloaded`: the queue was full, or the deadline out of reach.
    package var refused = 0
    package var inFlight = 0
    package var queued = 0
    package var peakInFlight = 0
    /// How often the loop's wait returned.
    package var loopWakeups = 0

    package init() {}
  }

  private let settings: Configuration
  private let mailbox: CurlMailbox
  private let thread: NamedThread

  package init(configuration: Configuration) throws(SetupError) {
    let settings = try configuration.checked()
    let multi = try CurlMulti(settings)
    let mailbox = CurlMailbox(multi: multi, capacity: settings.maxInFlight + settings.maxQueued)
    self.settings = settings
    self.mailbox = mailbox
    thread = try NamedThread(name: settings.threadName) {
      CurlLoop(settings: settings, multi: multi, mailbox: mailbox).run()
    }
  }

  deinit { shutdown() }

  /// The counts of the loop's last turn.
  package var statistics: Statistics { mailbox.statistics }

  /// Ends every request with `.shutDown`, closes every connection, and waits for the thread. May be called twice.
  package func shutdown() {
    mailbox.shutDown()
    thread.join()
  }

  package func send(
    _ request: TransportRequest, deadline: ContinuousClock.Instant
  ) async throws(TransportError) -> TransportResponse {
    let prepared = try PreparedRequest(request, schemes: settings.allowedSchemes)
    guard deadline > .now else { throw .timedOut }

    let id = mailbox.newID()
    let mark = CancellationMark()
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let submission = Submission(
          id: id, request: prepared, deadline: deadline, mark: mark, continuation: continuation)
        if let refusal = mailbox.submit(submission) { continuation.resume(returning: .failure(refusal)) }
      }
    } onCancel: {
      // The mark comes first: the loop finds the request by its ID, or sees the mark when the request arrives later.
      mark.set()
      mailbox.cancel(id)
    }
    return try result.get()
  }
}

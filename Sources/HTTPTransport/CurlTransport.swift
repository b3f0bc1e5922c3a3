import Synchronization

/// The real transport: libcurl's multi interface on one thread of its own.
///
///     send ──► mailbox ──► loop ──► libcurl ──► network
///       ▲   submit, cancel   │
///       └────────────────────┘ one answer per request
///
/// A deadline is absolute and counts from the call: waiting for a slot, the name look-up, the handshake, everything.
///
/// What it cannot tell: an answer with neither Content-Length nor chunks ends with the connection, so one cut short looks
/// whole. The caller has to judge the body. Nor can libcurl be kept from sending a request *without* a body again when a
/// kept connection dies before the first byte of the answer; with a body it is (see `EasyHandle`).
package final class CurlTransport: Transport {
  /// Counts since the start, for tests and metrics.
  package struct Statistics: Hashable, Sendable {
    /// Connections that were opened for transfers.
    package var connectionsOpened = 0
    /// Requests that ended in an answer.
    package var transfersCompleted = 0
    /// Requests that the loop ended, however.
    package var requestsEnded = 0
    /// Requests that ended with `.overloaded`: there was no place for them, or no hope.
    package var refused = 0
    package var inFlight = 0
    package var queued = 0
    package var peakInFlight = 0
    /// How often the loop came out of its sleep.
    package var loopWakeups = 0

    package init() {}
  }

  private let settings: CurlSettings
  private let mailbox: CurlMailbox
  private let thread: NamedThread

  package init(configuration: Configuration) throws(SetupError) {
    let settings = try CurlSettings(configuration)
    let handles = try CurlHandles(settings)
    let mailbox = CurlMailbox(handles: handles, capacity: settings.maxInFlight + settings.maxQueued)
    self.settings = settings
    self.mailbox = mailbox
    thread = try NamedThread(name: settings.threadName) {
      CurlLoop(settings: settings, handles: handles, mailbox: mailbox).run()
    }
  }

  deinit { shutdown() }

  /// As of the loop's last turn.
  package var statistics: Statistics { mailbox.statistics }

  /// Ends every request with `.shutDown`, closes every connection, and waits for the thread. May be called twice.
  package func shutdown() {
    mailbox.shutDown()
    thread.join()
  }

  package func send(
    _ request: TransportRequest, deadline: ContinuousClock.Instant
  ) async throws(TransportError) -> TransportResponse {
    let prepared = try PreparedRequest(request, schemes: settings.schemes)
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
      // The mark first: the loop finds the request by its ID, or sees the mark when the request reaches it later.
      mark.set()
      mailbox.cancel(id)
    }
    return try result.get()
  }
}

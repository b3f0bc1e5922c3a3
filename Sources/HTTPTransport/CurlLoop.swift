import CCurl
import DequeModule
import Resilience

/// Drives all transfers on one thread until the transport is shut down.
///
/// One turn: read the mailbox, end cancelled and late requests, start queued ones while there are slots, deliver
/// results, wait until a socket, a deadline or the mailbox needs attention, and let libcurl work on ready sockets.
///
/// A submission is in exactly one place at a time (mailbox, `waiting`, `active`, `ended`) and is answered when it is
/// removed from the last: this guarantees one answer each.
final class CurlLoop {
  private let settings: CurlTransport.Configuration
  private let multi: CurlMulti
  private let mailbox: CurlMailbox

  private struct Waiting {
    let submission: Submission
    /// Every slot was taken when the request arrived.
    let isQueued: Bool
  }

  private struct Active {
    let submission: Submission
    let handle: EasyHandle
    let startedAt: ContinuousClock.Instant
  }

  private var waiting: [UInt64: Waiting] = [:]
  /// The IDs of `waiting` in order of arrival; requests that ended early are still listed.
  private var queue: Deque<UInt64> = []
  private var active: [UInt64: Active] = [:]
  private var activeIDs: [OpaquePointer: UInt64] = [:]
  private var deadlines = DeadlineHeap()
  private var idleHandles: [EasyHandle] = []
  private var forecast: QueueForecast
  private var ended: [(Submission, Result<TransportResponse, TransportError>)] = []
  private var statistics = CurlTransport.Statistics()
  private let clock = ContinuousClock()

  private static let longestSleep = Duration.seconds(3600)

  init(settings: CurlTransport.Configuration, multi: CurlMulti, mailbox: CurlMailbox) {
    self.settings = settings
    self.multi = multi
    self.mailbox = mailbox
    forecast = QueueForecast(slots: settings.maxInFlight)
  }

  func run() {
    var failure: CURLMcode?
    while failure == nil {
      let contents = mailbox.take()
      if contents.isShutDown {
        for submission in contents.submitted { end(submission, .failure(.shutDown)) }
        break
      }
      admit(contents)
      failure = turn()
    }
    stop(failure)
  }

  private func admit(_ contents: CurlMailbox.Contents) {
    let now = clock.now
    for submission in contents.submitted {
      let ahead = active.count + waiting.count - settings.maxInFlight
      if submission.mark.isSet {
        end(submission, .failure(.cancelled))
      } else if ahead >= 0, isHopeless(submission, forecast.answer(at: now, ahead: ahead)) {
        refuse(submission)
      } else {
        waiting[submission.id] = Waiting(submission: submission, isQueued: ahead >= 0)
        queue.append(submission.id)
        deadlines.insert(submission.deadline, id: submission.id)
      }
    }
    for id in contents.cancelled { abandon(id, .cancelled) }
  }

  /// - Returns: libcurl's error code when it cannot continue.
  private func turn() -> CURLMcode? {
    let now = clock.now
    while let nearest = nearest(), nearest.deadline <= now { abandon(nearest.id, .timedOut) }
    repeat {
      start()
      let code = multi.runTimer()
      guard code == CURLM_OK else { return code }
    } while collect()
    deadlines.sweep(live: active.count + waiting.count, where: isLive)
    answer()

    let code = multi.wait(until: nearest()?.deadline ?? now + Self.longestSleep)
    statistics.loopWakeups += 1
    return code == CURLM_OK ? nil : code
  }

  private func start() {
    let now = clock.now
    while active.count < settings.maxInFlight, let id = queue.popFirst() {
      guard let next = waiting.removeValue(forKey: id) else { continue }
      let submission = next.submission
      // A request that found a free slot is always sent: otherwise the forecast could never see that calls are fast
      // again.
      if next.isQueued, isHopeless(submission, forecast.answer(sentAt: now)) {
        refuse(submission)
        continue
      }
      let handle: EasyHandle
      do throws(TransportError) {
        if let idle = idleHandles.popLast() {
          handle = idle
        } else {
          handle = try EasyHandle(settings: settings, share: multi.share)
        }
        try handle.begin(submission.request)
      } catch {
        end(submission, .failure(error))
        continue
      }
      guard curl_multi_add_handle(multi.pointer, handle.pointer) == CURLM_OK else {
        end(submission, .failure(.other(code: Int(CURLE_FAILED_INIT.rawValue))))
        continue
      }
      forecast.noteStart(at: now)
      active[id] = Active(submission: submission, handle: handle, startedAt: now)
      activeIDs[handle.pointer] = id
      statistics.peakInFlight = max(statistics.peakInFlight, active.count)
    }
  }

  /// Collects finished transfers from libcurl.
  ///
  /// - Returns: whether there were any.
  private func collect() -> Bool {
    var done: [(OpaquePointer, CURLcode)] = []
    var left: Int32 = 0
    while let message = curl_multi_info_read(multi.pointer, &left) {
      if message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle {
        done.append((easy, message.pointee.data.result))
      }
    }
    let now = clock.now
    for (easy, code) in done {
      guard let id = activeIDs[easy], let transfer = active[id] else { continue }
      forecast.note(now - transfer.startedAt, at: now)
      let result = transfer.handle.result(code)
      release(transfer, id: id)
      end(transfer.submission, result)
    }
    return !done.isEmpty
  }

  /// Ends a request in any state; one that has ended already is left alone.
  private func abandon(_ id: UInt64, _ error: TransportError) {
    if let waiter = waiting.removeValue(forKey: id) {
      end(waiter.submission, .failure(error))
    } else if let transfer = active[id] {
      var response: TransportResponse?
      if error == .timedOut {
        let now = clock.now
        forecast.note(now - transfer.startedAt, at: now)
        response = transfer.handle.unreadResponse
      }
      release(transfer, id: id)
      end(transfer.submission, response.map { .success($0) } ?? .failure(error))
    }
  }

  /// Removes a transfer from libcurl. An unfinished one loses its HTTP/1.1 connection, or its HTTP/2 stream is reset.
  private func release(_ transfer: Active, id: UInt64) {
    statistics.connectionsOpened += transfer.handle.connectionsOpened
    active[id] = nil
    activeIDs[transfer.handle.pointer] = nil
    // Freeing a handle that cannot be removed removes it as well; only a removed one is kept for reuse.
    guard curl_multi_remove_handle(multi.pointer, transfer.handle.pointer) == CURLM_OK else { return }
    transfer.handle.end()
    idleHandles.append(transfer.handle)
  }

  private func isHopeless(_ submission: Submission, _ answer: ContinuousClock.Instant) -> Bool {
    settings.refusesHopeless && answer > submission.deadline
  }

  private func refuse(_ submission: Submission) {
    statistics.refused += 1
    end(submission, .failure(.overloaded))
  }

  private func end(_ submission: Submission, _ result: Result<TransportResponse, TransportError>) {
    statistics.requestsEnded += 1
    if case .success = result { statistics.transfersCompleted += 1 }
    ended.append((submission, result))
  }

  /// Delivers the results. The counts come first, so that callers find their slot free.
  private func answer() {
    statistics.inFlight = active.count
    statistics.queued = waiting.count
    mailbox.publish(statistics, ended: ended.count)
    for (submission, result) in ended { submission.continuation.resume(returning: result) }
    ended.removeAll(keepingCapacity: true)
  }

  private func isLive(_ id: UInt64) -> Bool { active[id] != nil || waiting[id] != nil }

  private func nearest() -> DeadlineHeap.Entry? { deadlines.nearest(where: isLive) }

  /// Ends every request: with libcurl's error code after its failure, otherwise with `.shutDown`.
  private func stop(_ failure: CURLMcode?) {
    let error = failure.map { TransportError.other(code: Int($0.rawValue)) } ?? .shutDown
    for id in Array(active.keys) + Array(waiting.keys) { abandon(id, error) }
    for submission in mailbox.close() { end(submission, .failure(error)) }
    idleHandles.removeAll()
    answer()
  }
}

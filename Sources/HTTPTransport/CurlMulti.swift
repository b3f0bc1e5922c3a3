import CCurl
import Glibc

/// Owns libcurl's multi handle (CURLM *), the share of TLS sessions (CURLSH *) that its transfers use, and the epoll
/// descriptor that waits for their sockets.
///
/// libcurl names the sockets and the time that it waits for, and is called for those alone: a turn costs as much as its
/// events, not as all transfers in flight.
///
/// `@unchecked Sendable`: any thread may call `wake`; only the loop's thread makes the other calls. The last owner frees
/// everything; by then the loop has removed and freed every transfer.
final class CurlMulti: @unchecked Sendable {
  let pointer: OpaquePointer
  let share: OpaquePointer
  private let epoll: Int32
  /// An eventfd, by which other threads end the wait.
  private let bell: Int32
  /// When libcurl wants to be called though no socket is ready.
  private var timer: ContinuousClock.Instant?
  private var events = [epoll_event](repeating: epoll_event(), count: 64)

  init(_ settings: CurlTransport.Configuration) throws(CurlTransport.SetupError) {
    try CurlGlobal.start(http2: settings.http2)
    guard let pointer = curl_multi_init() else { throw .libcurl("curl_multi_init") }
    guard let share = curl_share_init() else {
      curl_multi_cleanup(pointer)
      throw .libcurl("curl_share_init")
    }
    self.pointer = pointer
    self.share = share
    epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    bell = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    // Edge-triggered, so that the bell need not be read.
    guard epoll >= 0, bell >= 0, watch(bell, EPOLL_CTL_ADD, EPOLLIN.rawValue | EPOLLET.rawValue) else {
      throw .descriptor(errno)
    }

    // A multi handle shares connections and names by itself, but not TLS sessions. No lock: one thread uses them.
    guard ccurl_share_lock_data(share, CURL_LOCK_DATA_SSL_SESSION) == CURLSHE_OK else {
      throw .libcurl("curl_share_setopt")
    }
    let context = Unmanaged.passUnretained(self).toOpaque()
    let codes = [
      ccurl_multi_set_long(pointer, CURLMOPT_PIPELINING, settings.http2 ? Int(CURLPIPE_MULTIPLEX) : 0),
      ccurl_multi_set_long(pointer, CURLMOPT_MAXCONNECTS, settings.maxInFlight),
      ccurl_multi_set_long(pointer, CURLMOPT_MAX_CONCURRENT_STREAMS, CurlTransport.Configuration.streamsPerConnection),
      ccurl_multi_set_pointer(pointer, CURLMOPT_SOCKETDATA, context),
      ccurl_multi_set_pointer(pointer, CURLMOPT_TIMERDATA, context),
      ccurl_multi_set_socket(pointer) { _, socket, wanted, context, isWatched in
        guard let context else { return 0 }
        let multi = Unmanaged<CurlMulti>.fromOpaque(context).takeUnretainedValue()
        multi.follow(socket, wanted: wanted, isWatched: isWatched != nil)
        return 0
      },
      ccurl_multi_set_timer(pointer) { _, milliseconds, context in
        guard let context else { return 0 }
        let multi = Unmanaged<CurlMulti>.fromOpaque(context).takeUnretainedValue()
        multi.timer = milliseconds < 0 ? nil : .now + .milliseconds(milliseconds)
        return 0
      },
    ]
    guard codes.allSatisfy({ $0 == CURLM_OK }) else { throw .libcurl("curl_multi_setopt") }
  }

  deinit {
    // The clean-up closes connections and would report each.
    _ = ccurl_multi_set_socket(pointer, nil)
    _ = ccurl_multi_set_timer(pointer, nil)
    curl_multi_cleanup(pointer)
    curl_share_cleanup(share)
    if epoll >= 0 { close(epoll) }
    if bell >= 0 { close(bell) }
  }

  /// Ends the loop's present or next wait. From any thread.
  func wake() {
    // A full count is the only failure, and means that the bell has rung.
    _ = eventfd_write(bell, 1)
  }

  /// Lets libcurl do the work due by its timer: this begins an added transfer.
  ///
  /// - Returns: any other code than `CURLM_OK` when libcurl cannot continue.
  func runTimer() -> CURLMcode {
    guard let due = timer, due <= .now else { return CURLM_OK }
    timer = nil
    return act(CCURL_SOCKET_TIMEOUT, 0)
  }

  /// Waits for a socket, the timer, the bell or the deadline, and lets libcurl work on the sockets that are ready.
  ///
  /// - Returns: any other code than `CURLM_OK` when libcurl cannot continue.
  func wait(until deadline: ContinuousClock.Instant) -> CURLMcode {
    let sleep = max(min(timer ?? deadline, deadline) - .now, .zero)
    let count = epoll_wait(epoll, &events, Int32(events.count), Int32(clamping: sleep.millisecondsRoundedUp))
    guard count >= 0 else { return errno == EINTR ? CURLM_OK : CURLM_INTERNAL_ERROR }
    for index in 0..<Int(count) where events[index].data.fd != bell {
      let event = events[index]
      // A failed socket is read, too: that tells why it failed.
      let canRead = event.events & (EPOLLIN.rawValue | EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0
      let canWrite = event.events & EPOLLOUT.rawValue != 0
      let code = act(event.data.fd, (canRead ? CURL_CSELECT_IN : 0) | (canWrite ? CURL_CSELECT_OUT : 0))
      guard code == CURLM_OK else { return code }
    }
    return CURLM_OK
  }

  private func act(_ socket: curl_socket_t, _ ready: Int32) -> CURLMcode {
    var running: Int32 = 0
    return curl_multi_socket_action(pointer, socket, ready, &running)
  }

  private func follow(_ socket: curl_socket_t, wanted: Int32, isWatched: Bool) {
    if wanted == CURL_POLL_REMOVE {
      watch(socket, EPOLL_CTL_DEL, 0)
    } else {
      let reads = wanted == CURL_POLL_OUT ? 0 : EPOLLIN.rawValue
      let writes = wanted == CURL_POLL_IN ? 0 : EPOLLOUT.rawValue
      // Should this fail, the transfer ends at its deadline.
      watch(socket, isWatched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, reads | writes)
      curl_multi_assign(pointer, socket, Unmanaged.passUnretained(self).toOpaque())
    }
  }

  @discardableResult
  private func watch(_ descriptor: Int32, _ operation: Int32, _ interest: UInt32) -> Bool {
    var event = epoll_event()
    event.events = interest
    event.data.fd = descriptor
    return epoll_ctl(epoll, operation, descriptor, &event) == 0
  }
}

import CCurl
import Glibc
import Synchronization

/// A joinable thread with a name, which runs one function.
///
/// libcurl's loop blocks in epoll_wait(2), which a thread of Swift's pool must not do.
final class NamedThread: Sendable {
  private final class Start: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
      self.name = name
      self.body = body
    }
  }

  /// Guards against two joins of one thread, which are undefined; the second waits for the first.
  private let handle: Mutex<pthread_t?>

  /// - Parameter name: truncated to the 15 bytes that Linux keeps.
  /// - Throws: `.thread` with the error code of pthread_create.
  init(name: String, body: @escaping @Sendable () -> Void) throws(CurlTransport.SetupError) {
    let start = Unmanaged.passRetained(Start(name: String(decoding: name.utf8.prefix(15), as: UTF8.self), body: body))
    var thread = pthread_t()
    let code = pthread_create(&thread, nil, { NamedThread.run($0) }, start.toOpaque())
    guard code == 0 else {
      start.release()
      throw .thread(code)
    }
    handle = Mutex(thread)
  }

  private static func run(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context else { return nil }
    let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
    // A write to a closed connection has to fail with an error, not a signal; threads started from here inherit the
    // mask.
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    ccurl_name_this_thread(start.name)
    start.body()
    return nil
  }

  /// Waits until the function has returned; returns at once if the thread was joined before.
  func join() {
    handle.withLock { handle in
      guard let thread = handle else { return }
      handle = nil
      pthread_join(thread, nil)
    }
  }
}

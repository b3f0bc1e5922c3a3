import Synchronization

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// The destination of log lines, written one whole line at a time.
final class LogOutput: Sendable {
  /// Guards the output, so that lines of two threads do not mix.
  private let lock = Mutex(())
  private let sink: @Sendable (String) -> Void

  init(sink: @escaping @Sendable (String) -> Void) { self.sink = sink }

  func write(_ line: String) { lock.withLock { _ in sink(line) } }

  static let standardError = LogOutput { line in
    var rest = Array(line.utf8)[...]
    while !rest.isEmpty {
      let written = rest.withUnsafeBytes { bytes -> Int in
        #if canImport(Glibc)
          Glibc.write(STDERR_FILENO, bytes.baseAddress, bytes.count)
        #elseif canImport(Musl)
          Musl.write(STDERR_FILENO, bytes.baseAddress, bytes.count)
        #else
          Darwin.write(STDERR_FILENO, bytes.baseAddress, bytes.count)
        #endif
      }
      // A log that cannot be written must not stop the service.
      guard written > 0 else { return }
      rest = rest.dropFirst(written)
    }
  }
}

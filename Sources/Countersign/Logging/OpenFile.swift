import Glibc

/// A file, a pipe or a terminal that a command reads or writes. It is closed with the last reference.
final class OpenFile: Sendable {
  /// A system call that failed.
  struct Failure: Error, Hashable, CustomStringConvertible {
    let code: Int32
    /// The system's words for it.
    var description: String { String(cString: strerror(code)) }

    static var latest: Failure { Failure(code: errno) }
  }

  let descriptor: Int32

  static let standardInput = OpenFile(owning: STDIN_FILENO)
  static let standardOutput = OpenFile(owning: STDOUT_FILENO)
  static let standardError = OpenFile(owning: STDERR_FILENO)

  init(owning descriptor: Int32) { self.descriptor = descriptor }

  /// - Parameters:
  ///   - flags: of open(2).
  ///   - mode: the permissions of a file that is created.
  init(_ path: String, _ flags: Int32, mode: mode_t = 0) throws(Failure) {
    descriptor = open(path, flags | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw .latest }
  }

  deinit { close(descriptor) }

  /// Waits for bytes.
  /// - Returns: up to so many; none at the end.
  func read(upTo count: Int) throws(Failure) -> [UInt8] {
    var result = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      repeat { result = Glibc.read(descriptor, buffer.baseAddress, count) } while result < 0 && errno == EINTR
      filled = max(0, result)
    }
    guard result >= 0 else { throw .latest }
    return bytes
  }

  func write(_ bytes: [UInt8]) throws(Failure) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      guard written >= 0 || errno == EINTR else { throw .latest }
      rest = rest.dropFirst(max(0, written))
    }
  }

  /// Returns when what was written is on the disk.
  func synchronize() throws(Failure) {
    guard fsync(descriptor) == 0 else { throw .latest }
  }
}

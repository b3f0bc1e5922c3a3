#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// Reads a regular file of bounded size: no pipe that never ends, no device, no gigabyte in memory.
enum BoundedFile {
  enum Failure: Error {
    case unreadable
    case tooLarge
  }

  static func contents(of path: String, limit: Int) -> Result<[UInt8], Failure> {
    // O_NONBLOCK: opening a FIFO without a writer would wait for ever.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return .failure(.unreadable) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return .failure(.unreadable) }
    guard status.st_size <= limit else { return .failure(.tooLarge) }

    var contents: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = read(descriptor, &buffer, buffer.count)
      guard count >= 0 else { return .failure(.unreadable) }
      guard count > 0 else { return .success(contents) }
      contents += buffer.prefix(count)
      guard contents.count <= limit else { return .failure(.tooLarge) }
    }
  }
}

import Glibc

/// A small regular file, read completely.
///
/// A pipe, a device, a directory or an endless file is refused without waiting. Symbolic links are followed: Kubernetes
/// mounts secrets and config maps as links, and the operator chose the path.
package struct BoundedFile {
  /// Why a file cannot be used, as the end of a sentence.
  package struct Unusable: Error, Hashable {
    package let reason: String
    package let isTooLarge: Bool

    package init(reason: String, isTooLarge: Bool = false) {
      self.reason = reason
      self.isTooLarge = isTooLarge
    }
  }

  package let bytes: [UInt8]
  /// Whether every user of the machine may read it.
  package let isWorldReadable: Bool

  package init(path: String, limit: Int) throws(Unusable) {
    guard !path.isEmpty, !path.utf8.contains(0) else { throw Unusable(reason: "is not a path") }
    // Without O_NONBLOCK, opening a pipe without a writer would block for ever.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else { throw Unusable(reason: "cannot be opened: \(String(cString: strerror(errno)))") }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else {
      throw Unusable(reason: "cannot be examined: \(String(cString: strerror(errno)))")
    }
    guard status.st_mode & S_IFMT == S_IFREG else { throw Unusable(reason: "is not a regular file") }
    bytes = try Self.contents(of: descriptor, limit: limit)
    isWorldReadable = status.st_mode & S_IROTH != 0
  }

  /// Counts the bytes instead of trusting the size: files of /proc report 0, and a file may grow.
  private static func contents(of descriptor: Int32, limit: Int) throws(Unusable) -> [UInt8] {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16 << 10)
    while true {
      let count = chunk.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw Unusable(reason: "cannot be read: \(String(cString: strerror(errno)))") }
      if count == 0 { return bytes }
      bytes += chunk.prefix(count)
      guard bytes.count <= limit else {
        throw Unusable(reason: "is larger than \(limit >> 10) KiB", isTooLarge: true)
      }
    }
  }
}

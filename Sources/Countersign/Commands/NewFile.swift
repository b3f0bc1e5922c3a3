import ArgumentParser
import CountersignServer
import Foundation

/// A file that a command makes for its owner alone.
enum NewFile {
  /// Writes a file of mode 0600 that did not exist, or reports why not and ends with 1.
  static func write(_ contents: Data, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      CommandOutput.error("\(Quotation.of(path, length: 4_096)): \(String(cString: strerror(errno))).")
      throw ExitCode.failure
    }
    let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    do {
      try file.write(contentsOf: contents)
      try file.synchronize()
    } catch {
      unlink(path)
      CommandOutput.error("\(Quotation.of(path, length: 4_096)) could not be written.")
      throw ExitCode.failure
    }
  }
}

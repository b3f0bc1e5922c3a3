import ArgumentParser
import CountersignServer
import Glibc

/// A file that a command makes for its owner alone.
enum NewFile {
  /// Writes a file of mode 0600 that did not exist, or reports why not and ends with 1.
  static func write(_ contents: [UInt8], to path: String) throws {
    let file: OpenFile
    do throws(OpenFile.Failure) {
      file = try OpenFile(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
    } catch { throw CommandOutput.failure("\(Quotation.of(path, length: 4_096)): \(error).") }
    do throws(OpenFile.Failure) {
      try file.write(contents)
      try file.synchronize()
    } catch {
      unlink(path)
      throw CommandOutput.failure("\(Quotation.of(path, length: 4_096)) could not be written.")
    }
  }

  /// Puts a file of mode 0600 in the place of the one that may be there; an empty text removes it.
  static func replace(_ path: String, with text: String) throws(OpenFile.Failure) {
    guard !text.isEmpty else {
      guard unlink(path) == 0 || errno == ENOENT else { throw .latest }
      return
    }
    let new = path + ".new"
    // An earlier call may have been killed before it could rename.
    guard unlink(new) == 0 || errno == ENOENT else { throw .latest }
    let file = try OpenFile(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
    try file.write(Array(text.utf8))
    try file.synchronize()
    guard rename(new, path) == 0 else { throw .latest }
  }
}

import Glibc

/// Reads what a command is given: a file, or standard input.
enum ReceiptFile {
  /// Far above any receipt of Apple's.
  static let largest = 8 * 1024 * 1024

  struct Unreadable: Error, CustomStringConvertible {
    var description: String
  }

  /// - Parameter path: `nil` or `-` is standard input.
  static func read(_ path: String?) throws(Unreadable) -> [UInt8] {
    var file = OpenFile.standardInput
    if let path, path != "-" {
      do throws(OpenFile.Failure) { file = try OpenFile(path, O_RDONLY) } catch {
        throw Unreadable(description: "\(path) cannot be opened: \(error).")
      }
    }
    var bytes: [UInt8] = []
    while true {
      let part: [UInt8]
      do throws(OpenFile.Failure) { part = try file.read(upTo: 65_536) } catch {
        throw Unreadable(description: "\(path ?? "Standard input") cannot be read.")
      }
      guard !part.isEmpty else { return bytes }
      bytes += part
      guard bytes.count <= largest else {
        throw Unreadable(description: "The input is larger than \(largest / 1024 / 1024) MiB; no receipt is.")
      }
    }
  }
}

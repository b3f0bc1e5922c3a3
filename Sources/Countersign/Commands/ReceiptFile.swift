import Foundation

/// Reads what a command is given: a file, or standard input.
enum ReceiptFile {
  /// Far above any receipt of Apple's.
  static let largest = 8 * 1024 * 1024

  struct Unreadable: Error, CustomStringConvertible {
    var description: String
  }

  /// - Parameter path: `nil` or `-` is standard input.
  static func read(_ path: String?) throws(Unreadable) -> [UInt8] {
    let handle: FileHandle
    if let path, path != "-" {
      guard let opened = FileHandle(forReadingAtPath: path) else {
        throw Unreadable(description: "\(path) cannot be opened: \(String(cString: strerror(errno))).")
      }
      handle = opened
    } else {
      handle = .standardInput
    }
    var bytes: [UInt8] = []
    do {
      while let part = try handle.read(upToCount: 65_536), !part.isEmpty {
        bytes += part
        guard bytes.count <= largest else {
          throw Unreadable(description: "The input is larger than \(largest / 1024 / 1024) MiB; no receipt is.")
        }
      }
    } catch let error as Unreadable {
      throw error
    } catch {
      throw Unreadable(description: "\(path ?? "Standard input") cannot be read.")
    }
    return bytes
  }
}

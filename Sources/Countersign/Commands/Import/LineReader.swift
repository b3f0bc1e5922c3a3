import FoundationEssentials
import Glibc

/// Reads a file line by line, however large it is. A line above the limit is skipped and reported.
struct LineReader {
  /// A line without its end; `nil` for one that was too long.
  struct Line {
    var number: Int
    var bytes: Data?
  }

  private let file: OpenFile
  private let limit: Int
  private var buffer = Data()
  private var number = 0
  private var isAtEnd = false

  init(_ file: OpenFile, limit: Int) {
    self.file = file
    self.limit = limit
  }

  /// The next line is the first again.
  mutating func rewind() throws(OpenFile.Failure) {
    guard lseek(file.descriptor, 0, SEEK_SET) == 0 else { throw .latest }
    self = LineReader(file, limit: limit)
  }

  /// - Returns: `nil` at the end.
  mutating func next() throws(OpenFile.Failure) -> Line? {
    var isTooLong = false
    var searched = 0
    while true {
      if let end = buffer.dropFirst(searched).firstIndex(of: UInt8(ascii: "\n")) {
        let line = buffer[buffer.startIndex..<end]
        buffer = Data(buffer[buffer.index(after: end)...])
        number += 1
        return Line(number: number, bytes: isTooLong || line.count > limit ? nil : Data(line))
      }
      if isAtEnd {
        guard !buffer.isEmpty || isTooLong else { return nil }
        defer { buffer = Data() }
        number += 1
        return Line(number: number, bytes: isTooLong ? nil : buffer)
      }
      searched = buffer.count
      if buffer.count > limit {
        isTooLong = true
        buffer = Data()
        searched = 0
      }
      let part = try file.read(upTo: 1 << 20)
      isAtEnd = part.isEmpty
      buffer.append(contentsOf: part)
    }
  }
}

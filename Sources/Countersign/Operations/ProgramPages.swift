import Foundation

/// The pages of the program itself that are in memory.
enum ProgramPages {
  /// Gives back what only the start needed: configuration, migrations, the set-up of TLS. The kernel brings a page of the
  /// program when it is touched, with its neighbours, and takes none away by itself: of some 50 MB most would stay.
  ///
  /// Code is read from the program's file again when it is needed (madvise(2), MADV_DONTNEED on a mapping that nobody
  /// writes to), so this can only cost time: some milliseconds, once.
  static func giveBack() {
    guard let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
      let mappings = try? String(contentsOfFile: "/proc/self/maps", encoding: .utf8)
    else { return }
    for line in mappings.split(separator: "\n") {
      // START-END r-xp OFFSET DEVICE INODE PATH
      let fields = line.split(separator: " ", maxSplits: 5)
      guard fields.count == 6, fields[1] == "r-xp", fields[5].drop(while: { $0 == " " }) == program else { continue }
      let bounds = fields[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
      guard bounds.count == 2, bounds[0] < bounds[1], let start = UnsafeMutableRawPointer(bitPattern: bounds[0]) else {
        continue
      }
      _ = madvise(start, Int(bounds[1] - bounds[0]), Int32(MADV_DONTNEED))
    }
  }
}

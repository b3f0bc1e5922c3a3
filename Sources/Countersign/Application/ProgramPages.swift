import FoundationEssentials
import Glibc

/// The pages of the program itself that are in memory.
enum ProgramPages {
  /// Gives back what only the start needed: configuration, migrations, the set-up of TLS. The kernel brings a page of the
  /// program when it is touched, with its neighbours, and takes none away by itself: most of the program would stay.
  ///
  /// Code is read from the program's file again when it is needed (madvise(2), MADV_DONTNEED on a mapping that nobody
  /// writes to), so this can only cost time: some milliseconds, once.
  static func giveBack() {
    guard let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
      let mappings = try? String(contentsOfFile: "/proc/self/maps", encoding: .utf8)
    else { return }
    for code in code(of: program, in: mappings) {
      guard let start = UnsafeMutableRawPointer(bitPattern: code.lowerBound) else { continue }
      _ = madvise(start, code.count, Int32(MADV_DONTNEED))
    }
  }

  /// The mappings of a program's code, which is never written to.
  ///
  /// - Parameter mappings: lines of proc(5): `START-END r-xp OFFSET DEVICE INODE PATH`.
  static func code(of program: String, in mappings: String) -> [Range<UInt>] {
    mappings.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ", maxSplits: 5)
      guard fields.count == 6, fields[1] == "r-xp", fields[5].drop(while: { $0 == " " }) == program else { return nil }
      let bounds = fields[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
      guard bounds.count == 2, bounds[0] < bounds[1] else { return nil }
      return bounds[0]..<bounds[1]
    }
  }
}

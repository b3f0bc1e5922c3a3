import Foundation

enum ProcessorCount {
  /// The processors that this process may run on: fewer than the machine has where it is held to some (taskset(1), a
  /// container's cpuset). `nil` where the kernel does not say.
  static var allowed: Int? {
    guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return nil }
    // A mask in hexadecimal, with a comma after each 32 bits.
    guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("Cpus_allowed:") }) else { return nil }
    let count = line.drop { $0 != ":" }.reduce(0) { $0 + ($1.hexDigitValue?.nonzeroBitCount ?? 0) }
    return count > 0 ? count : nil
  }
}

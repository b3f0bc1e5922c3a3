import FoundationEssentials
import Glibc

enum ProcessorCount {
  /// The processors that this process may run on: fewer than the machine has where it is held to some (taskset(1), a
  /// container's cpuset). `nil` where the kernel does not say.
  static var allowed: Int? {
    (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)).flatMap { allowed(in: $0) }
  }

  /// - Parameter status: what proc(5) says of a process.
  static func allowed(in status: String) -> Int? {
    // A mask in hexadecimal, with a comma after each 32 bits.
    guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("Cpus_allowed:") }) else { return nil }
    let count = line.drop { $0 != ":" }.reduce(0) { $0 + ($1.hexDigitValue?.nonzeroBitCount ?? 0) }
    return count > 0 ? count : nil
  }
}

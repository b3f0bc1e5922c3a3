import Entitlements
import Foundation

/// What a table was measured on.
enum Machine {
  static var description: String {
    func first(_ path: String, _ prefix: String) -> String {
      let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
      let line = text.split(separator: "\n").first { $0.hasPrefix(prefix) }
      return line?.split(separator: ":").last?.trimmingCharacters(in: .whitespaces) ?? "unknown"
    }
    let kilobytes = Double(first("/proc/meminfo", "MemTotal").split(separator: " ").first ?? "") ?? 0
    let kernel = (try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8)) ?? "unknown"
    return """
      \(ProcessInfo.processInfo.processorCount) cores of \(first("/proc/cpuinfo", "model name")), \
      \((kilobytes / 1_048_576).rounded().text()) GiB, Linux \(kernel.trimmingCharacters(in: .whitespacesAndNewlines)), \
      \(Date.now.rfc3339.prefix(10))
      """
  }
}

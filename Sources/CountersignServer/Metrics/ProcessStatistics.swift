import Files
import Glibc

/// The operating system's figures for this process; a value that cannot be read is absent.
///
/// The names are those that Prometheus' own clients use:
/// https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
package struct ProcessStatistics {
  var cpuSeconds: Double?
  var residentBytes: Double?
  var openFiles: Double?
  package var maxFiles: Double?
  /// Seconds since 1970.
  var startTime: Double?

  package static func current() -> ProcessStatistics {
    var statistics = ProcessStatistics()
    var usage = rusage()
    if getrusage(RUSAGE_SELF.rawValue, &usage) == 0 {
      statistics.cpuSeconds = [usage.ru_utime, usage.ru_stime]
        .reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 }
    }
    var limit = rlimit()
    if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
      statistics.maxFiles = Double(limit.rlim_cur)
    }
    statistics.residentBytes = text("/proc/self/statm").flatMap { residentBytes(statm: $0, pageSize: getpagesize()) }
    statistics.openFiles = countOpenFiles()
    if let stat = text("/proc/self/stat"), let system = text("/proc/stat") {
      statistics.startTime = startTime(stat: stat, system: system, ticks: sysconf(Int32(_SC_CLK_TCK)))
    }
    return statistics
  }

  /// proc(5): the second number is the resident set, in pages.
  static func residentBytes(statm: String, pageSize: Int32) -> Double? {
    statm.split(separator: " ").dropFirst().first.flatMap { Double(String($0)) }.map { $0 * Double(pageSize) }
  }

  /// proc(5): field 22 is the start in ticks since the machine's. The name before it, in brackets, may hold anything.
  static func startTime(stat: String, system: String, ticks: Int) -> Double? {
    guard ticks > 0, let bracket = stat.lastIndex(of: ")") else { return nil }
    let fields = stat[stat.index(after: bracket)...].split(separator: " ")
    guard let start = fields.dropFirst(19).first.flatMap({ Double(String($0)) }),
      let line = system.split(separator: "\n").first(where: { $0.hasPrefix("btime ") }),
      let boot = Double(String(line.dropFirst("btime ".count)))
    else { return nil }
    return boot + start / Double(ticks)
  }

  private static func text(_ path: String) -> String? {
    (try? BoundedFile(path: path, limit: 1 << 20)).map { String(decoding: $0.bytes, as: UTF8.self) }
  }

  /// Without the one by which they are counted.
  private static func countOpenFiles() -> Double? {
    guard let directory = opendir("/proc/self/fd") else { return nil }
    defer { closedir(directory) }
    var count = 0
    while let entry = readdir(directory) {
      if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 }
    }
    return Double(count - 1)
  }
}

import Foundation

/// CPU time that this process has used, of all its threads, in user and kernel mode.
enum ProcessTime {
  static var now: Duration {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    func duration(_ time: timeval) -> Duration { .seconds(time.tv_sec) + .microseconds(time.tv_usec) }
    return duration(usage.ru_utime) + duration(usage.ru_stime)
  }
}

extension Duration {
  var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
  var microseconds: Double { seconds * 1e6 }
  var milliseconds: Double { seconds * 1e3 }
}

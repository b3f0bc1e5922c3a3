import Foundation

/// A time of day that jumps for one process when a test says so.
///
/// A small library, compiled by the C compiler at hand and loaded into the process before all others (`LD_PRELOAD`),
/// answers for the time of day with so many seconds added. The clocks that timers and deadlines run on are left alone, as
/// on a host whose administrator sets the clock. (libfaketime moves timers too, and the process waits for a year.)
struct JumpingClock {
  struct Failed: Error {}

  /// Swift's own toolchain brings clang along.
  static let compiler = FaultTool.path("cc") ?? FaultTool.path("clang") ?? FaultTool.path("gcc")

  private let library: String
  /// Eight octets, the seconds to add, which the process has mapped.
  private let offset: URL

  init(in directory: URL) throws {
    offset = directory.appending(path: "clock-offset")
    library = directory.appending(path: "clock.so").path(percentEncoded: false)
    let source = directory.appending(path: "clock.c")
    try Self.source.write(to: source, atomically: true, encoding: .utf8)
    try Data(count: 8).write(to: offset)
    let arguments = ["-shared", "-fPIC", "-O1", "-o", library, source.path(percentEncoded: false)]
    guard FaultTool.run(Self.compiler, arguments) == 0 else { throw Failed() }
  }

  var environment: [String: String] {
    ["LD_PRELOAD": library, "CLOCK_OFFSET_FILE": offset.path(percentEncoded: false)]
  }

  /// Sets the clock so many days ahead of the real one, or behind it.
  func jump(days: Int) throws { try jump(seconds: Int64(days) * 86_400) }

  func jump(seconds: Int64) throws {
    // In place: the process has mapped this very file.
    let file = try FileHandle(forWritingTo: offset)
    try file.write(contentsOf: withUnsafeBytes(of: seconds) { Data($0) })
    try file.close()
  }

  private static let source = """
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <sys/syscall.h>
    #include <sys/time.h>
    #include <time.h>
    #include <unistd.h>

    static volatile int64_t *offset;

    __attribute__((constructor)) static void start(void) {
      const char *path = getenv("CLOCK_OFFSET_FILE");
      int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
      void *mapped = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
      if (mapped == MAP_FAILED) abort();
      offset = mapped;
    }

    int clock_gettime(clockid_t clock, struct timespec *now) {
      int result = (int)syscall(SYS_clock_gettime, clock, now);
      if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
      return result;
    }

    int gettimeofday(struct timeval *restrict now, void *restrict zone) {
      struct timespec precise;
      if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
      now->tv_sec = precise.tv_sec;
      now->tv_usec = precise.tv_nsec / 1000;
      return 0;
    }

    time_t time(time_t *out) {
      struct timespec precise;
      if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
      if (out) *out = precise.tv_sec;
      return precise.tv_sec;
    }
    """
}

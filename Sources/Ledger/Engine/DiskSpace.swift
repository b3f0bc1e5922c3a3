internal import Glibc

/// The bytes of a file system, for this process's user (statvfs(3)).
struct DiskSpace {
  let free: UInt64
  let total: UInt64

  /// `nil` where they are not known.
  init?(of path: String) {
    let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
    var numbers = statvfs()
    guard statvfs(directory, &numbers) == 0 else { return nil }
    free = UInt64(numbers.f_bavail) * UInt64(numbers.f_frsize)
    // As df(1) counts: the blocks that are reserved for root are not part of it.
    total = free + UInt64(numbers.f_blocks - min(numbers.f_blocks, numbers.f_bfree)) * UInt64(numbers.f_frsize)
    guard total > 0 else { return nil }
  }
}

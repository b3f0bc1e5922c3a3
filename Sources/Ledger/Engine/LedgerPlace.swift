internal import FoundationEssentials
internal import Glibc

/// Where a ledger is.
package enum LedgerPlace: Hashable, Sendable {
  /// A SQLite file of this process's own.
  case file(String)
  /// A PostgreSQL database, which replicas share.
  /// - url: a connection string of libpq's, which may hold a password.
  /// - connections: how many operations of this process run at a time.
  case database(url: String, connections: Int)

  /// The file's whole path, or the database and its host, without a secret.
  package var name: String {
    switch self {
    case .file(let path):
      if let whole = try? LedgerFile.resolve(path) { return whole }
      return path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
    case .database(let url, _): return (try? PostgreSQLAddress(url).description) ?? "ledger.url"
    }
  }

  /// The free part, from 0 to 1, of the disk that a ledger's file is on, for this process's user; `nil` for a database, and
  /// where it is not known.
  package var freeShareOfDisk: Double? {
    guard case .file(let path) = self, let space = DiskSpace(of: path) else { return nil }
    return Double(space.free) / Double(space.total)
  }
}

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

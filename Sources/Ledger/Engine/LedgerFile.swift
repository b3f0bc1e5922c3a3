import Glibc
import Synchronization

/// The ledger's file at the level of the operating system: found or created, identified, and locked for this process.
///
/// The lock is a `flock(2)` on a separate file, `<ledger>.lock`. It cannot be on the database: POSIX drops all of a
/// process's `fcntl` locks on a file, SQLite's among them, when the process closes any descriptor of that file. For the
/// same reason the database is inspected here only before SQLite opens it.
///
/// One process writes. A second would be safe for SQLite, but group commits of the two would block or fail each other,
/// and two services on one ledger are a deployment mistake that should be reported, not tolerated.
final class LedgerFile: Sendable {
  /// "CSGN", in the header of each ledger (`PRAGMA application_id`).
  static let applicationID: Int32 = 0x4353_474E

  /// The path with symbolic links resolved, so that one ledger has one lock whatever it is called.
  let path: String
  /// Whether the ledger was created by this call.
  let isNew: Bool
  /// Whether the previous process left a log, because it did not close the ledger.
  let hadLog: Bool
  /// Files that others could read when the ledger was opened.
  let exposures: [LedgerExposure]
  /// The descriptor that holds the lock; `nil` once released.
  private let lock: Mutex<Int32?>
  private let identity: Identity
  /// The identity of the log, which SQLite creates when it opens the file; `nil` before.
  private let log = Mutex<Identity?>(nil)

  /// The file that a path has to lead to while the ledger is open.
  private struct Identity: Equatable {
    var device: dev_t
    var inode: ino_t
  }

  /// Takes the lock, then creates the file (mode 0600; SQLite gives its companions the same) or checks its format and
  /// removes the permissions of others.
  init(path given: String) throws(LedgerOpenError) {
    let path = try Self.resolve(given)
    let hadLock = access(path + ".lock", F_OK) == 0
    let lock = try Self.lock(path)
    do throws(LedgerOpenError) {
      isNew = try Self.createOrInspect(path)
      var status = stat()
      hadLog = stat(path + "-wal", &status) == 0 && status.st_size > 0
      guard let identity = Self.identity(of: path) else {
        throw LedgerOpenError.inaccessible(path: path, problem: Self.problem(errno))
      }
      self.identity = identity
    } catch {
      // Nothing is left beside what is no ledger of ours.
      if !hadLock { _ = unlink(path + ".lock") }
      Self.unlock(lock)
      throw error
    }
    exposures = LedgerExposure.find(at: path).map { exposure in
      var exposure = exposure
      exposure.repair()
      return exposure
    }
    self.path = path
    self.lock = Mutex(lock)
  }

  deinit { release() }

  /// Releases the lock for another process.
  func release() {
    lock.withLock { lock in
      if let descriptor = lock { Self.unlock(descriptor) }
      lock = nil
    }
  }

  /// Closing alone would not do: a process that is just being started has a copy of the descriptor until it becomes its program.
  static func unlock(_ descriptor: Int32) {
    _ = flock(descriptor, LOCK_UN)
    _ = close(descriptor)
  }

  /// Whether the paths still lead to the open files. If not, SQLite's writes are lost as soon as the process ends.
  var isInPlace: Bool {
    Self.identity(of: path) == identity && log.withLock { log in log == nil || Self.identity(of: path + "-wal") == log }
  }

  /// Notes which file is the log, once SQLite has opened it.
  func rememberLog() { log.withLock { $0 = Self.identity(of: path + "-wal") } }

  static func resolve(_ given: String) throws(LedgerOpenError) -> String {
    if let whole = realpath(given) { return whole }
    let slash = given.lastIndex(of: "/")
    let name = slash.map { String(given[given.index(after: $0)...]) } ?? given
    let directory = slash.map { $0 == given.startIndex ? "/" : String(given[..<$0]) } ?? "."
    guard !name.isEmpty else {
      throw .inaccessible(path: given, problem: "the path names no file; set ledger.path to a file")
    }
    guard let parent = realpath(directory) else {
      let reason = problem(errno)
      throw .inaccessible(
        path: given, problem: "\(reason) for its directory; create it and give this service's user the right to write")
    }
    return parent == "/" ? "/\(name)" : "\(parent)/\(name)"
  }

  /// The path of a ledger that is there, to be read by another process than the service.
  static func resolveReadable(_ given: String) throws(LedgerOpenError) -> String {
    let path = try resolve(given)
    guard access(path, F_OK) == 0 else { throw .inaccessible(path: path, problem: problem(errno)) }
    // Where there is a log, reading requires write access to its index.
    let hasLog = access(path + "-wal", F_OK) == 0
    guard access(path, hasLog ? R_OK | W_OK : R_OK) == 0 else {
      let right = hasLog ? "write to" : "read"
      throw .inaccessible(path: path, problem: "this user may not \(right) it; run this as the service's user")
    }
    return path
  }

  private static func realpath(_ path: String) -> String? {
    guard let resolved = Glibc.realpath(path, nil) else { return nil }
    defer { free(resolved) }
    return String(cString: resolved)
  }

  private static func lock(_ path: String) throws(LedgerOpenError) -> Int32 {
    let descriptor = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw .inaccessible(path: path, problem: "\(problem(errno)) for its lock file \(path).lock")
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let code = errno
      _ = close(descriptor)
      if code == EWOULDBLOCK { throw .inUse(path: path) }
      throw .inaccessible(path: path, problem: "\(problem(code)) while locking \(path).lock")
    }
    // A process that failed to open the ledger may have removed the file since: a lock on it would keep nobody out.
    var (held, present) = (stat(), stat())
    guard fstat(descriptor, &held) == 0, stat(path + ".lock", &present) == 0, held.st_ino == present.st_ino,
      held.st_dev == present.st_dev
    else {
      _ = close(descriptor)
      throw .inUse(path: path)
    }
    return descriptor
  }

  /// - Returns: whether the file is new. An empty file counts as new: a crash can leave it during creation.
  private static func createOrInspect(_ path: String) throws(LedgerOpenError) -> Bool {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      let code = errno
      throw .inaccessible(
        path: path, problem: code == EISDIR ? "it is a directory; set ledger.path to a file" : problem(code))
    }
    defer { _ = close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .inaccessible(path: path, problem: problem(errno)) }
    guard status.st_mode & S_IFMT == S_IFREG else { throw .notALedger(path: path) }
    if status.st_size == 0 {
      try syncDirectory(of: path)
      return true
    }
    var header = [UInt8](repeating: 0, count: 100)
    guard pread(descriptor, &header, header.count, 0) == header.count, isLedger(header) else {
      throw .notALedger(path: path)
    }
    return false
  }

  /// https://www.sqlite.org/fileformat2.html#the_database_header: the magic string, and the application ID as a
  /// big-endian integer at offset 68.
  private static func isLedger(_ header: [UInt8]) -> Bool {
    guard header.starts(with: Array("SQLite format 3\u{0}".utf8)) else { return false }
    let stored = header.dropFirst(68).prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    return stored == UInt32(bitPattern: applicationID)
  }

  /// Syncs the directory: without it, a power cut can remove the entry of a file that was itself synced.
  static func syncDirectory(of path: String) throws(LedgerOpenError) {
    let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
    let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .inaccessible(path: path, problem: problem(errno)) }
    defer { _ = close(descriptor) }
    guard fsync(descriptor) == 0 else {
      throw .inaccessible(path: path, problem: "\(problem(errno)) while syncing its directory")
    }
  }

  private static func identity(of path: String) -> Identity? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    return Identity(device: status.st_dev, inode: status.st_ino)
  }

  static func problem(_ code: Int32) -> String {
    switch code {
    case EACCES, EPERM: "this service's user lacks the permission (chown or chmod gives it)"
    case EROFS: "the file system is read-only"
    case ENOSPC: "the disk is full"
    case ENOENT: "there is no such file or directory"
    case EMFILE, ENFILE: "too many files are open"
    default: String(cString: strerror(code))
    }
  }
}

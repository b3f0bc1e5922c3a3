internal import Entitlements
package import struct FoundationEssentials.Date
internal import Glibc

/// A copy of a ledger at one moment, made by another process than the service.
///
/// A read transaction fixes that moment: in a write-ahead log, readers see the last commit and block nobody. All pages
/// are copied in one step, as SQLite restarts a copy when a page is written between two steps. The file is called
/// `<file>.partial` until the copy is complete, checked and synced.
package struct LedgerBackup: Hashable, Sendable {
  package var file: String
  package var bytes: Int64
  /// Users with a verdict.
  package var users: Int
  /// When the newest line of its history was written; `nil` for an empty history.
  package var newestEntry: Date?

  /// Why there is no backup.
  package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The ledger cannot be read, or the file is not a ledger.
    case ledger(LedgerOpenError)
    /// The copy cannot be written. The partial file was removed.
    case file(path: String, problem: String)

    package var description: String {
      switch self {
      case .ledger(let error): error.description
      case .file(let path, let problem): "The backup \(path) cannot be made: \(problem)."
      }
    }
  }

  /// - Parameter file: the target; the name must be free.
  package static func make(of ledger: String, to file: String) async throws(Failure) -> LedgerBackup {
    try await blocking { () throws(Failure) in try makeNow(of: ledger, to: file) }
  }

  private static func makeNow(of given: String, to file: String) throws(Failure) -> LedgerBackup {
    let path: String
    do throws(LedgerOpenError) { path = try LedgerFile.resolveReadable(given) } catch { throw .ledger(error) }
    let partial = try PartialFile.create(for: file)
    defer { partial.discard() }
    var backup = try copy(path, to: partial)
    backup.bytes = try partial.publish()
    return backup
  }

  private static func copy(_ path: String, to partial: PartialFile) throws(Failure) -> LedgerBackup {
    do {
      let source = try SQLiteConnection(path: path, isReadOnly: true, patience: .seconds(10))
      defer { source.close() }
      try LedgerInspection.expectOurs(source, path: path)
      let copy = try SQLiteConnection(path: partial.path)
      defer { copy.close() }
      try copyPages(of: source, to: copy, partial)
      // The copy is checked, since it is what counts; a damaged page of the ledger is damaged here too.
      try LedgerInspection.expectOurs(copy, path: path)
      try LedgerInspection.expectSound(copy, path: path)
      let (users, newest): (Int, Int64?) = try copy.read {
        // A new file may have no tables yet.
        guard try copy.hasTable("event") else { return (0, nil) }
        return (
          try copy.value(of: "SELECT count(*) FROM account WHERE version > 0") ?? 0,
          try copy.value(of: "SELECT recorded_at FROM event ORDER BY sequence DESC LIMIT 1")
        )
      }
      return LedgerBackup(
        file: partial.file, bytes: 0, users: users, newestEntry: newest.map { Date(millisecondsSince1970: $0) })
    } catch let failure as Failure {
      throw failure
    } catch {
      throw .ledger(LedgerInspection.openError(error, path: path))
    }
  }

  /// A failure here concerns the copy, unless SQLite attributes it to the ledger.
  private static func copyPages(of source: SQLiteConnection, to copy: SQLiteConnection, _ partial: PartialFile) throws {
    do { try source.read { try source.copyPages(to: copy) } } catch let error as SQLiteError {
      switch error.kind {
      case .corrupt, .notADatabase, .busy, .locked: throw error
      case .full: throw Failure.file(path: partial.file, problem: LedgerFile.problem(ENOSPC))
      default:
        throw Failure.file(path: partial.file, problem: "it could not be written (SQLite \(error.code))")
      }
    }
  }
}

/// A file that gets its name once it is complete. Readable by its owner only, whatever the umask.
private final class PartialFile {
  /// The final name.
  let file: String
  /// The name until then.
  var path: String { file + ".partial" }
  private let descriptor: Int32
  private var isPublished = false

  private init(file: String, descriptor: Int32) {
    self.file = file
    self.descriptor = descriptor
  }

  deinit { LedgerFile.unlock(descriptor) }

  static func create(for file: String) throws(LedgerBackup.Failure) -> PartialFile {
    func failure(_ problem: String) -> LedgerBackup.Failure { .file(path: file, problem: problem) }
    guard !file.isEmpty, !file.hasSuffix("/"), !file.utf8.contains(0) else { throw failure("the path names no file") }
    var status = stat()
    guard lstat(file, &status) != 0 else { throw failure(exists) }
    guard errno == ENOENT else { throw failure(LedgerFile.problem(errno)) }
    // A leftover of an interrupted copy is overwritten; a copy in progress holds the lock.
    let descriptor = open(file + ".partial", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else { throw failure(LedgerFile.problem(errno)) }
    do throws(LedgerBackup.Failure) {
      // In a directory writable by others, the file may belong to another user.
      guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
        status.st_nlink == 1
      else { throw failure("\(file).partial is somebody else's; remove it") }
      guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw failure("another backup to it is under way") }
      guard fchmod(descriptor, 0o600) == 0, ftruncate(descriptor, 0) == 0 else {
        throw failure(LedgerFile.problem(errno))
      }
    } catch {
      _ = close(descriptor)
      throw error
    }
    let partial = PartialFile(file: file, descriptor: descriptor)
    partial.removeCompanions()
    return partial
  }

  private static let exists = "there is a file of that name already, and it was not touched; name another"

  /// Syncs the file and gives it its final name, if that is still free.
  /// - Returns: its size in bytes.
  func publish() throws(LedgerBackup.Failure) -> Int64 {
    func failure(_ problem: String) -> LedgerBackup.Failure { .file(path: file, problem: problem) }
    var status = stat()
    guard fsync(descriptor) == 0, fstat(descriptor, &status) == 0 else { throw failure(LedgerFile.problem(errno)) }
    if link(path, file) != 0 {
      guard errno != EEXIST else { throw failure(Self.exists) }
      // Without hard links, check and rename: nothing is lost by a name that was free a moment ago.
      var other = stat()
      guard lstat(file, &other) != 0 else { throw failure(Self.exists) }
      guard rename(path, file) == 0 else { throw failure(LedgerFile.problem(errno)) }
    }
    _ = unlink(path)
    isPublished = true
    do throws(LedgerOpenError) { try LedgerFile.syncDirectory(of: file) } catch {
      throw failure("its directory could not be synced")
    }
    return Int64(status.st_size)
  }

  /// Removes an unpublished file.
  func discard() {
    guard !isPublished else { return }
    removeCompanions()
    _ = unlink(path)
  }

  private func removeCompanions() {
    for suffix in ["-journal", "-wal", "-shm"] { _ = unlink(path + suffix) }
  }
}

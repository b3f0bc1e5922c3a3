internal import Dispatch
package import Entitlements
internal import Glibc

/// A ledger on disk, inspected read-only by another process than the service.
package struct LedgerInspection: Hashable, Sendable {
  /// The state of the file.
  package enum State: Hashable, Sendable {
    /// No file exists; the first start creates it.
    case absent
    /// A service has it open, which is the normal state; nothing more was inspected.
    case inUse
    /// Its structure was checked. `isComplete`: the check finished within its time limit.
    case sound(isComplete: Bool)
    /// The service would refuse to open it, or SQLite found damage.
    case unusable(LedgerOpenError)
  }

  package var state: State
  /// Files that others than the owner may read.
  package var exposures: [LedgerExposure] = []
  /// Free bytes for this user on the file system; `nil` if unknown.
  package var freeBytes: UInt64?
  /// Why the file system is unsuitable for a ledger, as the end of a sentence; `nil` if it is suitable.
  package var fileSystemProblem: String?

  /// - Parameter time: the limit for the check of the structure.
  package static func inspect(path: String, within time: Duration) async -> LedgerInspection {
    await blocking { inspectNow(path: path, within: time) }
  }

  /// The most recently stored production receipt; `nil` if there is none or it cannot be read.
  ///
  /// Reading does not block a service that has the ledger open: in a write-ahead log, readers see the last commit.
  package static func newestReceipt(at place: LedgerPlace) async -> String? {
    await value(at: place, of: "proof") { tables in
      let newest: Int64? = try tables.first(
        "SELECT id FROM proof WHERE environment = 'production' ORDER BY id DESC LIMIT 1")
      return try newest.map { try tables.proofs.proof($0).receipt.base64 }
    }
  }

  /// Recorded verdicts that give access, as `Ledger.accessGiven`; `nil` if they cannot be read.
  package static func accessGiven(at place: LedgerPlace) async -> [AccessCount]? {
    await value(at: place, of: "access_count") { try $0.accounts.accessGiven() }
  }

  /// Whether any of Apple's notifications is kept; `nil` if that cannot be read.
  package static func hasNotifications(at place: LedgerPlace) async -> Bool? {
    await value(at: place, of: "notification") { try $0.exists("SELECT 1 FROM notification LIMIT 1") }
  }

  /// The products of subscriptions of which Apple named no end, among those of some thousand users without access; `nil` if
  /// they cannot be read.
  package static func productsWithoutEnd(at place: LedgerPlace) async -> Set<ProductID>? {
    await value(at: place, of: "account") { try $0.accounts.productsWithoutEnd(users: 5_000) }
  }

  /// - Parameter table: a ledger without it is new, and has nothing.
  private static func value<Value: Sendable>(
    at place: LedgerPlace, of table: String, _ operation: @escaping @Sendable (LedgerTables) throws -> Value?
  ) async -> Value? {
    try? await blocking { () throws -> Value? in
      switch place {
      case .database(let url, _): return try operation(LedgerTables(PostgreSQLAddress(url).connect()))
      case .file(let given):
        let path = try LedgerFile.resolve(given)
        guard access(path, R_OK | W_OK) == 0 else { return nil }
        let connection = try SQLiteConnection(path: path, isReadOnly: true)
        defer { connection.close() }
        return try connection.read { try connection.hasTable(table) ? operation(LedgerTables(connection)) : nil }
      }
    }
  }

  private static func inspectNow(path given: String, within time: Duration) -> LedgerInspection {
    do throws(LedgerOpenError) {
      let path = try LedgerFile.resolve(given)
      var inspection = LedgerInspection(state: .absent)
      let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
      inspection.freeBytes = DiskSpace(of: path)?.free
      inspection.lookAtFileSystem(directory)
      inspection.exposures = LedgerExposure.find(at: path)
      inspection.state = try state(path, directory: directory, within: time)
      return inspection
    } catch {
      return LedgerInspection(state: .unusable(error))
    }
  }

  private static func state(_ path: String, directory: String, within time: Duration) throws(LedgerOpenError) -> State {
    guard access(directory, W_OK | X_OK) == 0 else {
      throw .inaccessible(
        path: path, problem: "this user may not write to its directory; run this as the service's user")
    }
    guard access(path, F_OK) == 0 else { return .absent }
    guard access(path, R_OK | W_OK) == 0 else {
      throw .inaccessible(path: path, problem: "this user may not write to it; run this as the service's user")
    }
    if isLocked(path) { return .inUse }
    return try check(path, within: time)
  }

  /// Whether a process has the ledger open: tries the lock and releases it at once.
  private static func isLocked(_ path: String) -> Bool {
    let descriptor = open(path + ".lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return false }
    defer { LedgerFile.unlock(descriptor) }
    return flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK
  }

  private static func check(_ path: String, within time: Duration) throws(LedgerOpenError) -> State {
    do {
      let connection = try SQLiteConnection(path: path, isReadOnly: true, patience: .seconds(2))
      defer { connection.close() }
      try expectOurs(connection, path: path)
      let end = DispatchWorkItem { connection.interrupt() }
      DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(Int(time / .milliseconds(1))), execute: end)
      defer { end.cancel() }
      do {
        try expectSound(connection, path: path)
      } catch let error as SQLiteError where error.kind == .interrupted {
        return .sound(isComplete: false)
      }
      return .sound(isComplete: true)
    } catch {
      throw openError(error, path: path)
    }
  }

  /// Throws unless a file is a ledger of this version or an older one.
  static func expectOurs(_ connection: SQLiteConnection, path: String) throws {
    guard try connection.value(of: "PRAGMA application_id", as: Int.self) == Int(LedgerFile.applicationID) else {
      throw LedgerOpenError.notALedger(path: path)
    }
    guard try !LedgerSchema.present.isSuperseded(in: connection) else {
      throw LedgerOpenError.newerSchema(path: path)
    }
  }

  /// Throws unless the structure is sound: everything but the comparison of indexes with tables, which is much slower.
  static func expectSound(_ connection: SQLiteConnection, path: String) throws {
    let findings = try connection.rows(of: "PRAGMA quick_check(1)") { try $0.get(0, as: String.self) }
    guard findings == ["ok"] else {
      throw LedgerOpenError.damaged(path: path, problem: findings.first ?? "SQLite does not say what is wrong")
    }
  }

  static func openError(_ error: any Error, path: String) -> LedgerOpenError {
    if let error = error as? LedgerOpenError { return error }
    if (error as? SQLiteError)?.kind == .notADatabase { return .notALedger(path: path) }
    let failure = LedgerFailure(error)
    return failure.reach == .process
      ? .damaged(path: path, problem: failure.sentence) : .inaccessible(path: path, problem: failure.sentence)
  }

  private mutating func lookAtFileSystem(_ directory: String) {
    var status = stat()
    guard stat(directory, &status) == 0, let mounts = Self.mounts() else { return }
    fileSystemProblem = Self.fileSystem(of: UInt64(status.st_dev), in: mounts).flatMap(Self.problem)
  }

  /// The name of the file system that has a device's number, from proc(5)'s `mountinfo`:
  ///
  ///     36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/root rw,errors=continue
  ///           ────                                    ────
  static func fileSystem(of device: UInt64, in mounts: String) -> String? {
    // Decoded as glibc's gnu_dev_major and gnu_dev_minor do.
    let major = device >> 8 & 0xfff | device >> 32 & ~0xfff
    let minor = device & 0xff | device >> 12 & ~0xff
    for line in mounts.split(separator: "\n") {
      let fields = line.split(separator: " ")
      guard fields.dropFirst(2).first.map({ $0 == "\(major):\(minor)" }) == true,
        let dash = fields.firstIndex(of: "-")
      else { continue }
      return fields.dropFirst(dash + 1).first.map(String.init)
    }
    return nil
  }

  static func problem(fileSystem name: String) -> String? {
    switch name {
    case "nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs":
      "is \(name), over a network, on which SQLite's locks and fsync cannot be relied on; use a local disk"
    case "tmpfs", "ramfs":
      "is \(name), in memory, and gone when the machine stops; use a disk"
    case "overlay":
      "is a container's own layer, and gone with the container; mount a volume"
    default: nil
    }
  }

  private static func mounts() -> String? {
    let descriptor = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { _ = close(descriptor) }
    var text: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 16 << 10)
    while text.count < 1 << 20 {
      let count = read(descriptor, &part, part.count)
      guard count >= 0 else { return nil }
      if count == 0 { break }
      text += part.prefix(count)
    }
    return String(decoding: text, as: UTF8.self)
  }
}

internal import Dispatch
internal import Glibc
internal import Synchronization

import struct FoundationEssentials.UUID

/// A connection that is made anew when it breaks, and its thread. All but the queue is used on that thread alone.
final class PostgreSQLSession: @unchecked Sendable {
  let queue: DispatchQueue
  /// The session's row in `ledger_commit`.
  let name = UUID().uuidString
  private var number: Int64 = 0
  private let address: PostgreSQLAddress
  private var connection: PostgreSQLConnection?
  private var known: LedgerTables?

  private struct Activity {
    var since: ContinuousClock.Instant?
    /// The connection's; `nil` without one.
    var socket: Int32?
  }

  /// For other threads.
  private let activity = Mutex(Activity())

  init(_ address: PostgreSQLAddress, number: Int) {
    self.address = address
    queue = DispatchQueue(label: "ledger.\(number)")
  }

  func disconnect() {
    known = nil
    activity.withLock { $0.socket = nil }
    connection = nil
  }

  /// Notes that an operation begins, or is over.
  func note(isBusy: Bool) { activity.withLock { $0.since = isBusy ? .now : nil } }

  /// From another thread: breaks the connection where an operation takes longer. It then fails as if the server had gone away.
  func breakOff(after longest: Duration) {
    activity.withLock { activity in
      guard let since = activity.since, since.duration(to: .now) > longest, let socket = activity.socket else { return }
      _ = shutdown(socket, Int32(SHUT_RDWR))
      activity.socket = nil
    }
  }

  private func connected() throws -> PostgreSQLConnection {
    if let connection, connection.isUsable { return connection }
    disconnect()
    let new = try address.connectForOperations()
    connection = new
    activity.withLock { $0.socket = new.socket }
    return new
  }

  func tables() throws -> LedgerTables {
    let tables = try known ?? LedgerTables(connected())
    known = tables
    return tables
  }

  /// The number of the next transaction that writes.
  func nextNumber() -> Int64 {
    number += 1
    return number
  }

  /// Begins a transaction.
  func begin(_ statements: [String]) throws { try connected().begin(statements) }

  func commit() throws {
    guard let connection else { throw PostgreSQLError(state: PostgreSQLError.lost, message: "There is no connection") }
    try connection.commit()
  }

  /// Runs a transaction, and again after a conflict or on a new connection.
  ///
  /// - Parameters:
  ///   - onRetry: called before another attempt: whether there was a conflict, and not a lost connection.
  ///   - body: is given how many conflicts there were.
  func attempt<Value>(
    within patience: Duration, onRetry: (_ isConflict: Bool) -> Void, _ body: (Int) throws -> Value
  ) -> Result<Value, LedgerError> {
    let end = ContinuousClock.now + patience
    var conflicts = 0
    var losses = 0
    while true {
      do {
        return .success(try body(conflicts))
      } catch {
        if let connection, connection.isUsable, connection.isInTransaction { try? connection.rollBack() }
        if let error = error as? PostgreSQLError, error.endsConnection { disconnect() }
        guard let error = error as? PostgreSQLError, ContinuousClock.now < end else {
          return .failure(LedgerFailure(error).error)
        }
        // A unique violation that repeats is no race: the last attempt had the ledger to itself.
        if error.isConflict, error.state != "23505" || conflicts < 5 {
          conflicts += 1
          onRetry(true)
          pause(atMost: .milliseconds(min(50, 2 << min(conflicts, 5))))
        } else if error.endsConnection {
          losses += 1
          onRetry(false)
          pause(atMost: .milliseconds(min(250, 10 << min(losses, 5))))
        } else {
          let failure = LedgerFailure(error)
          return .failure(error.state == "23505" ? .unusable(failure.sentence) : failure.error)
        }
      }
    }
  }

  /// Whether a transaction has happened whose COMMIT was not answered.
  ///
  /// The statement waits for the transaction's own lock on the row, so that it is never asked too early.
  func hasCommitted(_ number: Int64, within patience: Duration) throws -> Bool {
    let end = ContinuousClock.now + patience
    var losses = 0
    while true {
      disconnect()
      do {
        let kept = try connected().run(
          """
          INSERT INTO ledger_commit AS kept (session, number) VALUES ('\(name)', 0)
            ON CONFLICT (session) DO UPDATE SET number = kept.number RETURNING number
          """)
        return kept == String(number)
      } catch let error as PostgreSQLError {
        guard error.endsConnection || error.isConflict else { throw LedgerFailure.unknownOutcome }
      }
      losses += 1
      guard ContinuousClock.now < end else { throw LedgerFailure.unknownOutcome }
      pause(atMost: .milliseconds(min(250, 10 << min(losses, 5))))
    }
  }

  private func pause(atMost duration: Duration) {
    let most = UInt32(clamping: duration.components.attoseconds / 1_000_000_000_000)
    usleep(UInt32.random(in: most / 2...max(most, 1)))
  }
}

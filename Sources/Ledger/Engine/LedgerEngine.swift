/// A database engine under the ledger: where its tables are, and how an operation becomes a transaction.
///
/// The ledger's operations and their SQL know no engine; `LedgerTables` runs them on a connection that the engine lends.
/// An operation may run more than once, and must do nothing but read and write the ledger.
protocol LedgerEngine: AnyObject, Sendable {
  /// Whether other processes may write the same ledger: what this one remembers may be outdated, and work has to be
  /// claimed.
  var isShared: Bool { get }
  var statistics: Ledger.Statistics { get }
  /// Whether the ledger was closed, or is being closed.
  var isClosed: Bool { get }
  /// Whether there was none before it was opened.
  var isNew: Bool { get }
  /// Files that others than the owner could read when the ledger was opened.
  var exposures: [LedgerExposure] { get }

  /// Runs an operation in one transaction. A caller resumes only after its commit is durable, cancelled or not.
  func submit<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value

  /// Runs an operation soon.
  /// - Parameter orElse: called when it failed.
  func submitLater(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Void, orElse: @escaping @Sendable () -> Void)

  /// Reads one snapshot of the ledger, however long it takes. Cancellation does not end it: there is no error for it.
  func read<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value

  /// As `read`, for short and frequent reads.
  func readShort<Value: Sendable>(
    _ operation: @escaping @Sendable (LedgerTables) throws -> Value
  ) async throws(LedgerError) -> Value

  /// Reads, and writes one row durably.
  func check() async throws(LedgerError)

  /// Leaves nothing of what was deleted in the ledger's own files, as far as the engine can.
  func emptyLog() async throws(LedgerError)

  /// Ends the operations that were begun; later ones throw `.closed`.
  func close() async
}

internal import Dispatch

/// A connection with a thread of its own, which does all its work in turn.
final class SQLiteQueue: Sendable {
  /// A serial queue has a thread beside those of Swift's tasks, few as they are, for as long as it works.
  private let thread = DispatchQueue(label: "ledger", qos: .userInitiated)
  private let connection: SQLiteConnection

  init(_ connection: SQLiteConnection) { self.connection = connection }

  func sync<Result>(_ body: (SQLiteConnection) throws -> Result) rethrows -> Result {
    try thread.sync { try body(connection) }
  }

  func async(_ body: @escaping @Sendable (SQLiteConnection) -> Void) {
    thread.async { [connection] in body(connection) }
  }
}

/// A step on the ledger, as a value that its caller makes. It runs in one transaction, or as one read.
package protocol LedgerOperation<Outcome>: Sendable {
  associatedtype Outcome: Sendable

  func run(_ tables: LedgerTables) throws -> Outcome
}

extension Ledger {
  /// Runs an operation in one transaction. It is durable when this returns.
  package func run<Operation: LedgerOperation>(_ operation: Operation) async throws(LedgerError) -> Operation.Outcome {
    try await engine.submit { tables in try operation.run(tables) }
  }

  /// Runs a short read on one snapshot.
  package func read<Operation: LedgerOperation>(_ operation: Operation) async throws(LedgerError) -> Operation.Outcome {
    try await readShort { tables in try operation.run(tables) }
  }

  /// Runs a read on one snapshot, however long it takes.
  package func readLong<Operation: LedgerOperation>(
    _ operation: Operation
  ) async throws(LedgerError) -> Operation.Outcome {
    try await read { tables in try operation.run(tables) }
  }
}

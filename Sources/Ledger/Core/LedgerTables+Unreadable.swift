/// Rows that hold values which cannot be read, and that stop no work on others.
extension LedgerTables {
  /// Runs a body with each item, and goes on after one that cannot be read.
  /// - Returns: the items that cannot be read.
  func skippingUnreadable<Item>(_ items: [Item], _ body: (Item) throws -> Void) throws -> [Item] {
    try items.filter { item in
      do { try body(item) } catch {
        guard concernsOneItem(error) else { throw error }
        return true
      }
      return false
    }
  }

  /// As `skippingUnreadable`, for a body that writes before it has read everything: the writes for an item that cannot be read
  /// are undone.
  func undoingUnreadable<Item>(_ items: [Item], _ body: (Item) throws -> Void) throws -> [Item] {
    try skippingUnreadable(items) { item in
      try execute("SAVEPOINT part")
      do { try body(item) } catch {
        // After other errors the transaction may be gone, and the savepoint with it.
        guard concernsOneItem(error) else { throw error }
        try execute("ROLLBACK TO part")
        try execute("RELEASE part")
        throw error
      }
      try execute("RELEASE part")
    }
  }

  /// Whether an error concerns one item. None of PostgreSQL's does: it has ended the transaction.
  private func concernsOneItem(_ error: any Error) -> Bool {
    !(error is PostgreSQLError) && LedgerFailure(error).reach == .entry
  }
}

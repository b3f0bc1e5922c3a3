internal import Entitlements

/// The erasure of users.
extension Ledger {
  /// Erases a user in one transaction, and then everything that is named the same elsewhere.
  ///
  /// The user's own rows are found by the indexes. Where others' purchases, events and notes name the user is read before,
  /// page by page, so that the transaction is short; and once more after it, for what came meanwhile. A failure in
  /// between leaves the user erased, and the next call does the rest.
  ///
  /// - Returns: what was done, durably. `removeTraces` has to follow.
  package func erase(_ erasure: Erasure) async throws(LedgerError) -> ErasureReport {
    let (_, known) = try await read { tables in try tables.erasure.names(of: erasure.user) }
    let names = ErasedNames(known)
    var report = try await run(EraseUser(erasure: erasure, known: known, traces: try await traces(of: names)))
    for _ in 0..<Self.rounds {
      let traces = try await traces(of: names)
      guard traces != NameTraces() else { break }
      report.add(try await run(EraseUser(erasure: erasure, known: known, traces: traces)))
    }
    return report
  }

  /// The most rounds in which rows are looked for that came during an erasure.
  private static let rounds = 3

  private func traces(of names: ErasedNames) async throws(LedgerError) -> NameTraces {
    var traces = NameTraces()
    var place: ErasureTable.TracePlace? = .first(names)
    while let start = place {
      let found = traces
      (traces, place) = try await read { tables in
        var found = found
        let next = try tables.erasure.findTraces(names, from: start, into: &found)
        return (found, next)
      }
    }
    return traces
  }

  /// Leaves nothing of what was erased in the ledger's own files, as far as the engine can: SQLite's log is copied into the
  /// main file and emptied, for which writers wait, and readers that began before are waited for.
  ///
  /// - Throws: `unavailable` where a reader of before goes on for too long. What was erased is erased, and this can be
  ///   called again.
  package func removeTraces() async throws(LedgerError) {
    for _ in 0..<Self.rounds {
      do throws(LedgerError) { return try await engine.emptyLog() } catch {
        guard case .unavailable = error else { throw error }
      }
    }
    try await engine.emptyLog()
  }
}

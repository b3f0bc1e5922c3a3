package import struct FoundationEssentials.Date

extension SQLiteLedger {
  package func startRun(_ order: RunOrder, key: String?, at now: Date) async throws(LedgerError) -> RunStart {
    try await queue.submit { tables in try tables.startRun(order, key: key, at: now) }
  }

  package func countDue(_ order: RunOrder, at now: Date) async throws(LedgerError) -> Int {
    try await read { tables in try tables.countDue(order, at: now) }
  }

  package func run(_ id: RunID) async throws(LedgerError) -> Run? {
    try await read { tables in try tables.run(id) }
  }

  package func activeRun() async throws(LedgerError) -> Run? {
    try await read { tables in try tables.activeRun() }
  }

  package func claimRunItems(
    of run: RunID, dueAt now: Date, until lease: Date, limit: Int
  ) async throws(LedgerError) -> RunClaim {
    let isIdle = try await read { tables in try !tables.hasRunItems(of: run, dueAt: now) }
    guard !isIdle else { return RunClaim(items: [], isExhausted: true) }
    return try await queue.submit { tables in
      try tables.claimRunItems(of: run, dueAt: now, until: lease, limit: limit)
    }
  }

  package func settle(_ item: RunItem, _ outcome: RunOutcome) async throws(LedgerError) {
    try await queue.submit { tables in try tables.settleRunItem(item.id, of: item.run, outcome) }
  }

  package func retry(_ item: RunItem, at due: Date, isCounted: Bool) async throws(LedgerError) {
    try await queue.submit { tables in try tables.retry(item, at: due, isCounted: isCounted) }
  }

  package func giveBack(_ items: [RunItem]) async throws(LedgerError) {
    guard !items.isEmpty else { return }
    try await queue.submit { tables in try tables.giveBack(items) }
  }

  package func finishRun(_ id: RunID, at now: Date) async throws(LedgerError) -> Run? {
    try await queue.submit { tables in try tables.finishRun(id, at: now) }
  }

  package func stopRun(_ id: RunID, _ reason: RunStop, at now: Date) async throws(LedgerError) -> Run? {
    try await queue.submit { tables in try tables.stopRun(id, reason, at: now) }
  }
}

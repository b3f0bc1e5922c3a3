package import Entitlements
internal import GRDB

extension SQLiteLedger: SupportLedger {
  package func keepNote(_ note: Note, about user: UserID) async throws(LedgerError) -> NoteID {
    try await queue.submit { tables in try tables.keep(note, about: tables.name(of: user)) }
  }

  package func receipts(of user: UserID, limit: Int) async throws(LedgerError) -> [OwnedReceipt] {
    try await read { tables in try tables.receipts(of: user, limit: limit) }
  }

  package func timeline(
    of user: UserID, before: TimelinePosition?, limit: Int
  ) async throws(LedgerError) -> TimelinePage {
    try await read { tables in try tables.timeline(of: tables.name(of: user), before: before, limit: limit) }
  }

  package func ownedPurchases(_ id: OriginalTransactionID) async throws(LedgerError) -> [OwnedPurchase] {
    try await read { tables in try tables.ownedPurchases(id) }
  }

  package func transfer(_ transfer: Transfer) async throws(LedgerError) -> TransferOutcome {
    try await queue.submit { tables in try TransferOperation(transfer: transfer, tables: tables).run() }
  }
}

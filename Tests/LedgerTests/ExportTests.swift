import Access
import Entitlements
import LedgerFixtures
import Testing

@testable import Ledger

/// The records of a user, read page by page.
@Suite struct ExportTests {
  @Test func `an export has what is kept, and nothing of it is left after an erasure`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await Anna.fill(ledger)
      let record = try await ledger.record(of: Anna.alias)
      #expect(record.user == Anna.id && record.ids == [Anna.alias, Anna.id])
      #expect(record.grants.count == 2 && record.trials.count == 1 && record.devices.count == 2)
      #expect(record.totals == ["children": 2, "questions": 3] && record.timeZone == "Europe/Berlin")
      #expect(record.progress != nil)
      #expect(record.exposures.map { "\($0.experiment) \($0.variant)" } == ["cta start", "paywall family"])
      #expect(record.attributes["$email"]?.value == Anna.email)
      #expect(record.waitingReceipts.map(\.base64) == [Anna.receipt] && record.reports.count == 2)
      #expect(record.update?.state == "waiting" && record.firstSeenAt != nil)
      let keys = try await ledger.accountKeys(of: Anna.id)
      #expect(keys == [annasAccount, Anna.alias.rawValue])
      let purchases = try await ledger.exportedPurchases(ofKey: annasAccount, from: 0, limit: 10)
      #expect(Set(purchases.map(\.evidence.key.originalTransactionID)) == ["1", "2", "4", "play_store:GPA.1"])
      #expect(purchases.contains { $0.proof?.receipt.base64 == Anna.receipt })
      #expect(purchases.contains { $0.notifications.map(\.uuid) == ["n1"] })
      #expect(purchases.contains { $0.events.count == 1 })
      let first = try await ledger.exportedConsumptions(ofKey: annasAccount, after: nil, limit: 2)
      let rest = try await ledger.exportedConsumptions(ofKey: annasAccount, after: first.last, limit: 2)
      #expect(first.count == 2 && rest.count == 1)
      #expect(try await ledger.timeline(ofKey: Anna.alias.rawValue, before: nil, limit: 10).events.count > 1)

      _ = try await ledger.erase(Anna.erasure(hasRows: false))
      let after = try await ledger.record(of: Anna.id)
      #expect(after.profile == nil && after.firstSeenAt == nil && after.update == nil)
      #expect(after.grants.isEmpty && after.trials.isEmpty && after.devices.isEmpty && after.totals.isEmpty)
      #expect(after.exposures.isEmpty)
      #expect(after.attributes.isEmpty && after.waitingReceipts.isEmpty && after.reports.isEmpty)
      #expect(try await ledger.exportedPurchases(ofKey: annasAccount, from: 0, limit: 10).isEmpty)
    }
  }
}

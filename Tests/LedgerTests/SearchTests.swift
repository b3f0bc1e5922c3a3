import Entitlements
import LedgerFixtures
import Testing

@testable import Ledger

/// The owner of a transaction that no index knows, and whether a user was ever seen.
@Suite struct SearchTests {
  private static let never = ContinuousClock.now + .seconds(3600)

  private static func purchase(_ id: String, _ transaction: String, reported: Double = 0) -> SubscriptionEvidence {
    part(id, transaction, reported: reported)
  }

  @Test func `a later transaction is found wherever it is kept, in pages of any size`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 1...9 {
        _ = try await ledger.record(
          entry(UserID("user-\(number)"), [Self.purchase("10\(number)0", "10\(number)7")], receipt: "receipt-\(number)")
        )
      }
      _ = try await ledger.run(notification("n", [Self.purchase("2000", "2007")]))
      for page in [1, 2, 3, 9, 100] {
        for number in 1...9 {
          let found = try await ledger.purchases(with: TransactionID("10\(number)7"), until: Self.never, page: page)
          #expect(found == TransactionSearch(keys: [key("10\(number)0")]))
        }
        let unowned = try await ledger.purchases(with: "2007", until: Self.never, page: page)
        #expect(unowned == TransactionSearch(keys: [key("2000")]))
        // The original ID is another member, and a part of an ID is none.
        for id in ["1010", "101", "7", "1017 ", "", "\"", "10_7"] {
          #expect(
            try await ledger.purchases(with: TransactionID(id), until: Self.never, page: page) == TransactionSearch(),
            "\(id)")
        }
      }
    }
  }

  @Test func `a search whose time is over says that it has not seen all`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [Self.purchase("1000", "1007")]))
      #expect(try await ledger.purchases(with: "1007", until: .now) == TransactionSearch(isComplete: false))
    }
  }

  @Test func `a purchase that nobody owns is found by its original ID`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n", [Self.purchase("2000", "2007")]))
      #expect(try await ledger.unclaimedPurchases("2000").map(\.key) == [key("2000")])
      #expect(try await ledger.unclaimedPurchases("2007").isEmpty)
    }
  }

  @Test func `a user is known by a verdict, a receipt that waits or a note, and by nothing else`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      _ = try await ledger.postpone(pending("cmVjZWlwdA==", of: "ben"))
      _ = try await ledger.keepNote(
        Note(author: "desk", text: "why", requestID: "request", recordedAt: clock(0)), about: "carla")
      for user in ["anna", "ben", "carla"] { #expect(try await ledger.isKnown(UserID(user)), "\(user)") }
      for user in ["ann", "Anna", "1", "desk"] { #expect(try await !ledger.isKnown(UserID(user)), "\(user)") }
    }
  }
}

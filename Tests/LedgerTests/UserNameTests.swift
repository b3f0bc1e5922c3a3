import Entitlements
import Ledger
import LedgerFixtures
import Testing

/// A UUID is one user in capitals and in small letters.
@Suite struct UserNameTests {
  static let small = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  static let capitals = small.uppercased()

  @Test(arguments: [(small, capitals), (capitals, small)])
  func `a user is known by the name that came first, and found by both`(first: String, second: String) async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry(UserID(first), [evidence("1")], rules: rules))
      // The same purchase is theirs, and another one is added.
      let outcome = try await ledger.record(
        entry(UserID(second), [evidence("1"), evidence("2", expires: 2_000)], receipt: "both", rules: rules))
      #expect(outcome.recorded?.losers == [])
      for name in [first, second].map({ UserID($0) }) {
        let profile = try #require(try await ledger.profile(of: name))
        #expect(profile.version == 2)
        #expect(profile.evidence.map(\.key) == [key("1"), key("2")])
        #expect(try await ledger.wholeHistory(of: name).count == 2)
        #expect(try await ledger.receipts(of: name, limit: 9).count == 1)
        #expect(try await ledger.knowledge(of: "both", for: name).proves == [key("1"), key("2")])
        #expect(try await ledger.timeline(of: name, before: nil, limit: 9).events.count == 4)
        // The app's own row is found by the name that it always had.
        #expect(try await ledger.waitingUpdate(of: name)?.user.rawValue == first)
      }
      #expect(try await scratch.fetch("SELECT coalesce(spelling, key) FROM account", as: String.self) == [first])
      #expect(try await scratch.fetch("SELECT DISTINCT user_id FROM purchase", as: String.self) == [Self.small])
    }
  }

  @Test func `mixed letters are written small`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let mixed = UserID(Self.small.replacing("f", with: "F"))
      _ = try await ledger.record(entry(mixed, [evidence("1")], rules: rules))
      #expect(try await scratch.fetch("SELECT coalesce(spelling, key) FROM account", as: String.self) == [Self.small])
    }
  }

  @Test func `a name that is no UUID means its letters`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("Anna", [evidence("1")], rules: rules))
      #expect(try await ledger.profile(of: "anna") == nil)
      #expect(try await ledger.record(entry("anna", [evidence("1")], rules: rules)).recorded == nil)
    }
  }

  @Test func `a notification and a transfer find the user whom they name in small letters`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(posted(UserID(Self.capitals), [part("1")]))
      let reported = notification(
        "n1", [part("2", account: Self.small)], proof: proof("jws"), for: UserID(Self.small), makesClaimant: false)
      #expect(try await ledger.run(reported).recorded?.user == UserID(Self.capitals))
      _ = try await ledger.record(posted("ben", [part("3")], jws: "third"))
      #expect(try await ledger.run(moving("3", to: UserID(Self.small), at: 10)) == .moved(from: "ben"))
      #expect(try await ledger.profile(of: UserID(Self.small))?.evidence.count == 3)
      #expect(
        try await scratch.fetch("SELECT coalesce(spelling, key) FROM account ORDER BY 1", as: String.self)
          == [Self.capitals, "ben"])
    }
  }
}

import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

/// Periods that were given, as they are recorded.
@Suite struct GivenTests {
  private func giving(
    _ user: UserID = "anna", tier: Tier = "pro", from start: Double = 0, for length: Double = 100,
    note: String? = "why", key: String? = nil
  ) -> Give {
    Give(
      user: user, kind: .support, tier: tier, startsAt: at(start), endsAt: at(start + length), author: "desk",
      note: note, requestID: "grant", idempotencyKey: key, evaluationContext: reevaluated(at: start))
  }

  private func give(_ ledger: Ledger, _ giving: Give) async throws -> GivenRecord {
    guard case .given(let record) = try await ledger.run(giving) else { throw Unexpected() }
    return record
  }

  private func note(at seconds: Double) -> Note {
    Note(author: "desk", text: "a mistake", requestID: "end", recordedAt: clock(seconds))
  }

  @Test func `a user whom nobody knows is given a tier, with the note and the row's update`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let record = try await give(ledger, giving())
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.tier == "pro" && profile.entitlement.reason == .granted)
      #expect(profile.given == [record.period])
      #expect(try await ledger.waitingUpdate(of: "anna")?.entitlement.tier == "pro")
      #expect(try await ledger.given(to: "anna", limit: 10) == [record])
      #expect(record.note == "why" && record.author == "desk" && record.endedAt == nil)
    }
  }

  @Test func `each note is in the history once, with the verdict at that time, changed or not`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 1_000)], rules: rules))
      // The purchase gives the same tier, and lasts longer.
      let record = try await give(ledger, giving())
      _ = try await ledger.run(EndGiven(record.period.id, of: "anna", note: note(at: 5), reevaluated(at: 5)))
      let told = try await ledger.timeline(of: "anna", before: nil, limit: 10).events.map { event in
        guard case .verdict(let entry, _, let note) = event else { return "another event" }
        return "\(entry.entitlement.tier) \(entry.changed) \(note?.text ?? "-")"
      }
      #expect(told.prefix(2) == ["pro false a mistake", "pro false why"], "\(told)")
      #expect(!told.dropFirst(2).contains { $0.hasSuffix("why") || $0.hasSuffix("a mistake") }, "\(told)")
    }
  }

  @Test func `an answer of Apple's, whose clock is behind ours, takes away nothing that was given`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await give(ledger, giving(tier: "premium", from: 10, for: 10_000))
      let outcome = try await ledger.record(
        entry("anna", [evidence("1", time: 9, expires: 1_000)], rules: rules))
      let verdict = try #require(outcome.recorded).entitlement
      #expect(verdict.tier == "premium" && verdict.reason == .granted)
      #expect(verdict.explanation.evaluatedAt == at(10) && verdict.evidenceTime == at(9))
      #expect(try await ledger.waitingUpdate(of: "anna")?.entitlement.tier == "premium")
    }
  }

  @Test func `whoever loses a purchase by such an answer keeps the grant`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", time: 5, expires: 1_000)], rules: rules))
      _ = try await give(ledger, giving(tier: "premium", from: 10, for: 10_000))
      let outcome = try await ledger.record(
        entry("ben", [evidence("1", time: 9, expires: 1_000)], ownership: .transfer, rules: rules))
      #expect(try #require(outcome.recorded).losers == ["anna"])
      let row = try await ledger.waitingUpdate(of: "anna")?.entitlement
      #expect(row?.tier == "premium" && row?.reason == .granted)
    }
  }

  @Test func `a grant ends by itself, once, and leaves purchases alone`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 1_000)], rules: rules))
      _ = try await give(ledger, giving(tier: "premium", from: 10))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "premium")
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 109)) == 0)
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 110)) == 1)
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.tier == "pro" && profile.entitlement.reason == .renewing)
      #expect(profile.given.isEmpty)
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 111)) == 0)
      #expect(try await ledger.profile(of: "anna")?.version == profile.version)
      #expect(try await ledger.given(to: "anna", limit: 10).count == 1)
    }
  }

  @Test func `the grant of a user who cannot be read does not end, and those of others do`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 1_000)], rules: rules))
      let record = try await give(ledger, giving())
      _ = try await give(ledger, giving("ben"))
      let row = try #require(try await scratch.rows("SELECT evidence FROM purchase").first)
      let text = try #require(row.first ?? nil)
      try await scratch.change("UPDATE purchase SET evidence = '[]'")
      for ended in [1, 0] {
        var unreadable: [GivenPeriod.ID] = []
        #expect(try await ledger.endOverdueGiven(reevaluated(at: 110)) { unreadable += $0 } == ended)
        #expect(unreadable == [record.period.id])
      }
      #expect(try await ledger.profile(of: "ben")?.entitlement.tier == "free")
      try await scratch.change("UPDATE purchase SET evidence = '\(text)'")
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 111)) == 1)
      let ends = try await ledger.changeEvents(after: 0, limit: 10).filter { $0.type == "grant.ended" }
      #expect(ends.map(\.user) == ["ben", "anna"])
    }
  }

  @Test func `a grant that a clock ahead has ended goes on until its end, once the clock is right`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let record = try await give(ledger, giving(for: 10_000))
      let other = try await give(ledger, giving("ben", for: 10_000))
      _ = try await ledger.run(EndGiven(other.period.id, of: "ben", note: note(at: 5), reevaluated(at: 5)))
      _ = try await give(ledger, giving("carl", for: 700))
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 20_000)) == 2)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      // Carl's is over within what two right clocks may differ by.
      for count in [1, 0] {
        #expect(try await ledger.correctGiven(reevaluated(at: 500), tolerance: .seconds(300)) == count)
      }
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.tier == "pro" && profile.given == [record.period])
      for user in ["ben", "carl"] as [UserID] {
        #expect(try await ledger.profile(of: user)?.entitlement.tier == "free")
      }
      let events = try await ledger.changeEvents(after: 0, limit: 20).filter { $0.user == "anna" }
      #expect(events.map(\.type) == ["grant.started", "grant.ended", "grant.started"])
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 9_999)) == 0)
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 10_000)) == 1)
    }
  }

  @Test func `where a clock was wrong, the grant of a user who cannot be read holds up no other`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 1_000)], rules: rules))
      let record = try await give(ledger, giving(for: 10_000))
      _ = try await give(ledger, giving("ben", for: 10_000))
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 20_000)) == 2)
      let row = try #require(try await scratch.rows("SELECT evidence FROM purchase").first)
      let text = try #require(row.first ?? nil)
      try await scratch.change("UPDATE purchase SET evidence = '[]'")
      for count in [1, 0] {
        var unreadable: [GivenPeriod.ID] = []
        let corrected = try await ledger.correctGiven(reevaluated(at: 500), tolerance: .seconds(300)) {
          unreadable += $0
        }
        #expect(corrected == count && unreadable == [record.period.id])
      }
      #expect(try await ledger.profile(of: "ben")?.entitlement.tier == "pro")
      try await scratch.change("UPDATE purchase SET evidence = '\(text)'")
      #expect(try await ledger.correctGiven(reevaluated(at: 501), tolerance: .seconds(300)) == 1)
      #expect(try await ledger.profile(of: "anna")?.given == [record.period])
    }
  }

  @Test func `a grant that a clock ahead has given begins at once, when the clock is right`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await give(ledger, giving(from: 7_200, for: 10_000))
      for count in [1, 0] {
        #expect(try await ledger.correctGiven(reevaluated(at: 10), tolerance: .seconds(300)) == count)
      }
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.tier == "pro")
      #expect(profile.given.map(\.startsAt) == [at(10)] && profile.given.map(\.endsAt) == [at(17_200)])
      #expect(try await ledger.given(to: "anna", limit: 10).map(\.period) == profile.given)
      #expect(try await ledger.changeEvents(after: 0, limit: 10).map(\.type) == ["grant.started"])
    }
  }

  @Test func `an answer of Apple's leaves a given tier, and its end needs no Apple`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await give(ledger, giving(tier: "premium", for: 1_000))
      _ = try await ledger.record(entry("anna", [evidence("1", time: 5, expires: 500)], rules: rules))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "premium")
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 1_000)) == 1)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier != "premium")
    }
  }

  @Test func `a person ends it early, once, and nobody else's`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let record = try await give(ledger, giving())
      let id = record.period.id
      #expect(try await ledger.run(EndGiven(id, of: "ben", note: note(at: 5), reevaluated(at: 5))) == .unknown)
      #expect(try await ledger.run(EndGiven(id + 1, of: "anna", note: note(at: 5), reevaluated(at: 5))) == .unknown)
      guard
        case .ended(let ended) = try await ledger.run(EndGiven(id, of: "anna", note: note(at: 5), reevaluated(at: 5)))
      else { throw Unexpected() }
      #expect(ended.endedAt == at(5) && ended.endsAt == at(5) && ended.period.endsAt == at(100))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      let version = try await ledger.profile(of: "anna")?.version
      #expect(try await ledger.run(EndGiven(id, of: "anna", note: note(at: 6), reevaluated(at: 6))) == .over(ended))
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 200)) == 0)
      #expect(try await ledger.profile(of: "anna")?.version == version)
    }
  }

  @Test func `an idempotency key gives once, and stands for one request`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let first = try await give(ledger, giving(key: "k"))
      for start in 0..<5 {
        #expect(try await ledger.run(giving(from: Double(start), key: "k")) == .repeated(first))
      }
      #expect(try await ledger.run(giving(for: 200, key: "k")) == .mismatch)
      #expect(try await ledger.run(giving(tier: "premium", key: "k")) == .mismatch)
      #expect(try await ledger.run(giving(note: nil, key: "k")) == .mismatch)
      // Another user's key is another key.
      _ = try await give(ledger, giving("ben", key: "k"))
      #expect(try await ledger.given(to: "anna", limit: 10).count == 1)
      #expect(try await ledger.profile(of: "anna")?.version == 1)
    }
  }

  @Test func `under an ID that was joined a grant is given once, listed and ended as the user's`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let alias: UserID = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
      _ = try await ledger.run(JoinCustomer(alias, to: "anna", requestID: "join", reevaluated(at: 0)))
      let first = try await give(ledger, giving(alias, key: "k"))
      #expect(first.user == "anna")
      for user in [alias, "anna"] {
        #expect(try await ledger.run(giving(user, key: "k")) == .repeated(first))
        #expect(try await ledger.given(to: user, limit: 10) == [first])
      }
      let end = EndGiven(first.period.id, of: alias, note: note(at: 5), reevaluated(at: 5))
      guard case .ended(let ended) = try await ledger.run(end) else { throw Unexpected() }
      #expect(ended.user == "anna" && ended.endedAt == at(5))
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `a grant survives closing and opening, and the ledger verifies`() async throws {
    let scratch = try Scratch()
    var ledger = try await scratch.open()
    _ = try await give(ledger, giving())
    await ledger.close()
    ledger = try await scratch.open()
    #expect(try await ledger.profile(of: "anna")?.given.count == 1)
    #expect(try await scratch.verify().findings == [])
    #expect(try await ledger.endOverdueGiven(reevaluated(at: 100)) == 1)
    await ledger.close()
    #expect(try await scratch.verify().findings == [])
  }

  @Test(
    .ofTheFile,
    arguments: [
      "UPDATE account SET given = NULL", "UPDATE given_period SET is_over = 1",
      "UPDATE given_period SET ends_at = ends_at + 1",
      "UPDATE given_period SET user_id = 'nobody'",
    ])
  func `an account that lists another period than there is is found`(change: String) async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    _ = try await give(ledger, giving())
    await ledger.close()
    try await scratch.change(change)
    #expect(try await !scratch.verify().findings.isEmpty)
  }
}

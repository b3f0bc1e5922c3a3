import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

@Suite struct ProfileUpdateTests {
  private let everything = at(1e6)

  private func claim(_ ledger: Ledger, at now: Double = 1e6, limit: Int = 10) async throws -> [WaitingUpdate] {
    try await ledger.claimUpdates(dueAt: clock(now), until: at(now + 30), limit: limit)
  }

  // MARK: What waits

  @Test func `a verdict leaves its user waiting, by the version of Apple's clock`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let recorded = try #require(try await ledger.record(entry("anna", [evidence("1", time: 7)])).recorded)
      #expect(recorded.write == .waiting)
      let update = try #require(try await ledger.waitingUpdate(of: "anna"))
      #expect(
        update
          == WaitingUpdate(
            user: "anna", version: milliseconds(7), entitlement: recorded.entitlement, waitingSince: at(5_000),
            attempts: 0, state: .waiting))
      #expect(try await ledger.profile(of: "anna")?.write == .waiting)
      #expect(try await ledger.waitingUpdate(of: "nobody") == nil)
    }
  }

  /// Who lost a purchase has their row written first, by whoever recorded that.
  @Test func `rows are left to who records a verdict, for as long as they are claimed`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]).with { $0.rowsClaimedUntil = at(10) })
      #expect(try await claim(ledger, at: 9.999).isEmpty)
      #expect(try await claim(ledger, at: 10).map(\.user) == ["anna"])

      var reported = notification("n1", [part("2", account: bensAccount)], for: "ben")
      reported.rowsClaimedUntil = at(100)
      #expect(try await ledger.run(reported).recorded?.user == "ben")
      #expect(try await claim(ledger, at: 99.999).map(\.user) == ["anna"])
      #expect(try await claim(ledger, at: 100).map(\.user) == ["ben"])

      var move = moving("1", to: "carl", at: 1)
      move.rowsClaimedUntil = at(1_000)
      _ = try await ledger.run(move)
      #expect(try await claim(ledger, at: 999.999).map(\.user) == ["ben"])
      #expect(Set(try await claim(ledger, at: 1_000).map(\.user)) == ["anna", "carl"])
    }
  }

  @Test func `a verdict without evidence has a version too`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", []))
      #expect(try await ledger.waitingUpdate(of: "anna")?.version == 1)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 7)]))
      #expect(try await ledger.waitingUpdate(of: "anna")?.version == milliseconds(7))
    }
  }

  @Test func `a verdict on older evidence has a higher version all the same`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", time: 7)]))
      _ = try await ledger.record(entry("anna", [evidence("2", time: 3)]))
      #expect(try await ledger.waitingUpdate(of: "anna")?.version == milliseconds(7) + 1)
    }
  }

  @Test func `an update goes on above a version that no evidence can have, and so do later ones`() async throws {
    try await Scratch.withLedger { ledger, _ in
      func version() async throws -> Int64? { try await ledger.waitingUpdate(of: "anna")?.version }
      _ = try await ledger.record(entry("anna", [evidence("1", time: 7)]))
      // Somebody has recorded another verdict since, or the row is not ahead after all.
      try await ledger.raiseUpdate(of: "anna", version: milliseconds(6), above: 9_999_999_999_999_999)
      try await ledger.raiseUpdate(of: "anna", version: milliseconds(7), above: 5)
      #expect(try await version() == milliseconds(7))
      // No room for later ones.
      try await ledger.raiseUpdate(of: "anna", version: milliseconds(7), above: .max)
      #expect(try await version() == milliseconds(7))
      try await ledger.raiseUpdate(of: "anna", version: milliseconds(7), above: 9_999_999_999_999_999)
      #expect(try await version() == 10_000_000_000_000_000)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 8, order: 8)]))
      #expect(try await version() == 10_000_000_000_000_001)
      try await ledger.settleUpdate(of: "anna", version: 10_000_000_000_000_001, isDoubtful: false, confirmingAt: nil)
      try await ledger.raiseUpdate(of: "anna", version: 10_000_000_000_000_001, above: 10_000_000_000_000_009)
      #expect(try await version() == nil)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 9, expires: 1)]))
      #expect(try await version() == 10_000_000_000_000_002)
    }
  }

  @Test func `a post without news leaves the row as written`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let same = entry("anna", [evidence("1")])
      _ = try await ledger.record(same)
      try await ledger.settleUpdate(of: "anna", version: milliseconds(0), isDoubtful: false, confirmingAt: nil)
      #expect(try await ledger.record(same).recorded?.write == .written)
      #expect(try await ledger.waitingUpdate(of: "anna") == nil)
      #expect(try await claim(ledger).isEmpty)
    }
  }

  @Test func `the newest verdict waits, since the first that did not get through`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for time in 1...3 {
        _ = try await ledger.record(
          entry("anna", [evidence("1", time: Double(time), expires: 100 * Double(time))]).with {
            $0.recordedAt = clock(Double(time))
          })
      }
      let due = try await claim(ledger)
      #expect(due.map(\.version) == [milliseconds(3)])
      #expect(due.map(\.entitlement.expiresAt) == [at(300)])
      #expect(due.map(\.waitingSince) == [at(1)])
      try await ledger.settleUpdate(of: "anna", version: milliseconds(3), isDoubtful: false, confirmingAt: nil)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 4)]).with { $0.recordedAt = clock(4) })
      #expect(try await ledger.waitingUpdate(of: "anna")?.waitingSince == at(4))
    }
  }

  @Test func `an update waits for the user who loses a purchase as for the one who gains it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      try await ledger.settleUpdate(of: "anna", version: milliseconds(0), isDoubtful: false, confirmingAt: nil)
      _ = try await ledger.record(entry("ben", [evidence("1", time: 9)], ownership: .transfer))
      let due = try await claim(ledger)
      #expect(Set(due.map(\.user)) == ["anna", "ben"])
      #expect(due.map(\.version) == [milliseconds(9), milliseconds(9)])
      #expect(due.first { $0.user == "anna" }?.entitlement.tier == "free")
    }
  }

  @Test func `an entry that is not recorded leaves nothing waiting`() async throws {
    try await Scratch.withLedger { ledger, _ in
      await #expect(throws: LedgerError.self) {
        _ = try await ledger.record(entry("anna", [evidence("1")], receipt: ""))  // SQLite refuses it, last of all
      }
      _ = try await ledger.record(entry("ben", [evidence("2")]).with { $0.approves = { _, _ in false } })
      #expect(try await claim(ledger).isEmpty)
      #expect(try await ledger.profile(of: "ben") == nil)
    }
  }

  // MARK: How it ends

  @Test(arguments: [true, false])
  func `the end of an older version does not hide a newer one`(isMissing: Bool) async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      let old = try #require(try await claim(ledger).first)
      let new = try #require(try await ledger.record(entry("anna", [evidence("1", time: 5, order: 5)])).recorded)
      if isMissing {
        try await ledger.missUpdate(of: "anna", version: old.version, retryAt: at(60))
      } else {
        try await ledger.settleUpdate(of: "anna", version: old.version, isDoubtful: false, confirmingAt: nil)
      }
      #expect(try await ledger.waitingUpdate(of: "anna")?.entitlement == new.entitlement)
      #expect(try await claim(ledger).map(\.version) == [milliseconds(5)], "due at once, whatever was claimed")
    }
  }

  @Test func `the failure of an older version does not put off a newer one`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      let old = try #require(try await claim(ledger).first)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 5, order: 5)]))
      try await ledger.retryUpdate(of: "anna", version: old.version, at: at(1e9), problem: "x", isDoubtful: false)
      let due = try await claim(ledger)
      #expect(due.map(\.attempts) == [0])
    }
  }

  @Test func `a row that was not there is looked for again when it is due, and with the next verdict`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      try await ledger.missUpdate(of: "anna", version: milliseconds(0), retryAt: at(60))
      #expect(try await ledger.claimUpdates(dueAt: clock(59), until: at(90), limit: 10).isEmpty)
      let first = try await ledger.claimUpdates(dueAt: clock(60), until: at(90), limit: 10)
      #expect(first.map(\.state) == [.missing])
      #expect(first.map(\.attempts) == [1])
      try await ledger.missUpdate(of: "anna", version: milliseconds(0), retryAt: at(180))
      #expect(try await ledger.claimUpdates(dueAt: clock(179), until: at(200), limit: 10).isEmpty)
      #expect(try await ledger.claimUpdates(dueAt: clock(180), until: at(200), limit: 10).map(\.attempts) == [2])
      #expect(try await ledger.backlog(at: everything).missingProfiles == 1)
      #expect(try await ledger.record(entry("anna", [evidence("1")])).recorded?.write == .missing)
      #expect(try await ledger.record(entry("anna", [evidence("1", time: 5)])).recorded?.write == .waiting)
      #expect(try await claim(ledger).map(\.version) == [milliseconds(5)])
      #expect(try await ledger.backlog(at: everything).missingProfiles == 0)
    }
  }

  // MARK: Writes that may be carried out late

  @Test func `an update written after a write without an answer is written once more`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      let old = try #require(try await claim(ledger).first)
      try await ledger.retryUpdate(of: "anna", version: old.version, at: at(5), problem: "timed_out", isDoubtful: true)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 5)]))
      try await ledger.settleUpdate(of: "anna", version: milliseconds(5), isDoubtful: false, confirmingAt: at(60))
      #expect(
        try await ledger.profile(of: "anna")?.write == .written, "an app that reads its row is not told otherwise")
      #expect(try await ledger.backlog(at: everything).updates == 0)
      #expect(try await ledger.claimUpdates(dueAt: clock(59), until: at(90), limit: 10).isEmpty)
      let again = try await ledger.claimUpdates(dueAt: clock(60), until: at(90), limit: 10)
      #expect(again.map(\.version) == [milliseconds(5)])
      #expect(again.map(\.state) == [.written])
      try await ledger.settleUpdate(of: "anna", version: milliseconds(5), isDoubtful: false, confirmingAt: at(120))
      #expect(try await ledger.waitingUpdate(of: "anna") == nil)
      #expect(try await claim(ledger).isEmpty)
    }
  }

  @Test func `the doubt about an old write outlives a newer verdict that is recorded before it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      let old = try #require(try await claim(ledger).first)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 5)]))
      // The failure of the old one is heard of late.
      try await ledger.retryUpdate(of: "anna", version: old.version, at: at(5), problem: "timed_out", isDoubtful: true)
      try await ledger.settleUpdate(of: "anna", version: milliseconds(5), isDoubtful: false, confirmingAt: at(60))
      // While it is to be written once more, a third comes.
      _ = try await ledger.record(entry("anna", [evidence("1", time: 9)]))
      #expect(try await ledger.profile(of: "anna")?.write == .waiting)
      try await ledger.settleUpdate(of: "anna", version: milliseconds(9), isDoubtful: false, confirmingAt: at(70))
      #expect(
        try await ledger.claimUpdates(dueAt: clock(70), until: at(90), limit: 10).map(\.version) == [milliseconds(9)])
    }
  }

  @Test func `a doubtful write without a failure before is confirmed too`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      try await ledger.settleUpdate(of: "anna", version: milliseconds(0), isDoubtful: true, confirmingAt: at(60))
      #expect(try await ledger.claimUpdates(dueAt: clock(60), until: at(90), limit: 10).count == 1)
    }
  }

  @Test func `without doubt, and where the store refuses what is older, it is written once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      try await ledger.settleUpdate(of: "anna", version: milliseconds(0), isDoubtful: false, confirmingAt: at(60))
      _ = try await ledger.record(entry("ben", [evidence("2")]))
      try await ledger.retryUpdate(of: "ben", version: milliseconds(0), at: at(5), problem: "x", isDoubtful: true)
      try await ledger.settleUpdate(of: "ben", version: milliseconds(0), isDoubtful: false, confirmingAt: nil)
      #expect(try await claim(ledger).isEmpty)
    }
  }

  @Test func `an update that cannot be read holds up no other, and is looked at again a day later`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for (user, due) in [("anna", 1), ("ben", 2)] as [(UserID, Double)] {
        _ = try await ledger.record(entry(user, [evidence(user.rawValue)]).with { $0.rowsClaimedUntil = at(due) })
      }
      try await scratch.change("UPDATE outbox SET reset = '[]' WHERE key = 'anna'")
      func claim(at seconds: Double) async throws -> (due: [UserID], unreadable: [UserID]) {
        var unreadable: [UserID] = []
        let due = try await ledger.claimUpdates(dueAt: clock(seconds), until: at(seconds + 30), limit: 10) {
          unreadable += $0
        }
        return (due.map(\.user), unreadable)
      }
      let first = try await claim(at: 5_000)
      #expect(first.due == ["ben"] && first.unreadable == ["anna"])
      #expect(try await ledger.backlog(at: clock(5_000)).lastProblem == "unreadable")
      let second = try await claim(at: 5_030)
      #expect(second.due == ["ben"] && second.unreadable.isEmpty)
      #expect(try await claim(at: 91_400).unreadable == ["anna"])
    }
  }

  @Test func `a start makes due what was put off, and nothing that another replica may have claimed`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for user in ["anna", "ben", "carl", "dora"] as [UserID] {
        _ = try await ledger.record(entry(user, [evidence(user.rawValue)]))
      }
      let version = milliseconds(0)
      for (user, due) in [("anna", 86_400), ("dora", 0)] as [(UserID, Double)] {
        try await ledger.missUpdate(of: user, version: version, retryAt: at(due))
      }
      try await ledger.retryUpdate(of: "ben", version: version, at: at(120), problem: "23514", isDoubtful: false)
      #expect(Set(try await claim(ledger, at: 0).map(\.user)) == ["carl", "dora"])
      try await ledger.releaseUpdates(putOffBeyond: at(30))
      #expect(Set(try await claim(ledger, at: 1).map(\.user)) == ["anna", "ben"])
      #expect(Set(try await claim(ledger, at: 30).map(\.user)) == ["carl", "dora"])
    }
  }

  @Test func `updates that were claimed and not tried are due at once, and no others`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for user in ["a", "b", "c", "d"] as [UserID] {
        _ = try await ledger.record(entry(user, [evidence(user.rawValue)]))
      }
      #expect(try await ledger.claimUpdates(dueAt: clock(1), until: at(31), limit: 10).count == 4)
      try await ledger.settleUpdate(of: "a", version: milliseconds(0), isDoubtful: false, confirmingAt: nil)
      try await ledger.retryUpdate(of: "b", version: milliseconds(0), at: at(9), problem: "x", isDoubtful: false)
      try await ledger.returnUpdates(of: ["a", "b", "c", "d"], claimedUntil: at(31))
      #expect(Set(try await ledger.claimUpdates(dueAt: clock(2), until: at(32), limit: 10).map(\.user)) == ["c", "d"])
    }
  }

  @Test func `an update tried in vain is counted, and due when it was said to be`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      try await ledger.retryUpdate(
        of: "anna", version: milliseconds(0), at: at(60), problem: "timeout", isDoubtful: false)
      #expect(try await claim(ledger, at: 59.999).isEmpty)
      #expect(try await ledger.backlog(at: clock(0)).lastProblem == "timeout")
      #expect(try await claim(ledger, at: 60).map(\.attempts) == [1])
    }
  }

  // MARK: Claims

  @Test func `a claimed update is nobody else's until the lease is over`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      #expect(try await claim(ledger, at: 0).count == 1)
      #expect(try await claim(ledger, at: 29.999).isEmpty)
      #expect(try await claim(ledger, at: 30).map(\.attempts) == [0])
    }
  }

  @Test func `the longest waiting are claimed first, and no more than asked for`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for (index, user) in ["c", "a", "d", "b"].enumerated() {
        _ = try await ledger.record(
          entry(UserID(user), [evidence(user)]).with { $0.recordedAt = clock(Double(index)) })
      }
      #expect(try await claim(ledger, at: 0, limit: 3).map(\.user) == ["c", "a", "d"])
      #expect(try await claim(ledger, at: 0, limit: 3).map(\.user) == ["b"])
      #expect(try await claim(ledger, at: 50, limit: -1).isEmpty)
    }
  }

  @Test func `an update that fails for ever does not keep the others waiting`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for user in ["a", "b", "c"] { _ = try await ledger.record(entry(UserID(user), [evidence(user)])) }
      var written: [UserID] = []
      for round in 0..<6 {
        for update in try await claim(ledger, at: Double(round), limit: 1) {
          if update.user == "a" {
            try await ledger.retryUpdate(
              of: "a", version: update.version, at: at(Double(round) + 1), problem: "no", isDoubtful: false)
          } else {
            written.append(update.user)
            try await ledger.settleUpdate(
              of: update.user, version: update.version, isDoubtful: false, confirmingAt: nil)
          }
        }
      }
      #expect(written == ["b", "c"])
    }
  }

  @Test(.ofTheFile) func `a claim ends with the process that made it`() async throws {
    let scratch = try Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let first = try await scratch.open()
    _ = try await first.record(entry("anna", [evidence("1")]))
    #expect(try await claim(first, at: 0).count == 1)
    await first.close()
    let second = try await scratch.open()
    #expect(try await claim(second, at: 1).count == 1)
    await second.close()
  }

  @Test func `an update that a clock a year ahead put off is due when the clock is right again`() async throws {
    let year = 365 * 86_400.0
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      _ = try await ledger.postpone(pending("x", of: "anna", at: year))
      #expect(try await claim(ledger, at: year).count == 1)
      try await ledger.retryUpdate(
        of: "anna", version: milliseconds(0), at: at(year + 2), problem: "timeout", isDoubtful: false)
      #expect(try await claim(ledger, at: 1).isEmpty)
      #expect(try await ledger.pendingReceipts(dueAt: clock(1), limit: 10).isEmpty)
      try await ledger.releaseClaims()
      #expect(try await claim(ledger, at: 1).map(\.attempts) == [1])
      #expect(try await ledger.pendingReceipts(dueAt: clock(1), limit: 10).map(\.base64) == ["x"])
    }
  }

  @Test(.ofTheFile) func `a receipt that was acknowledged under a clock a year ahead is due after a restart`()
    async throws
  {
    let scratch = try Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let first = try await scratch.open()
    _ = try await first.postpone(pending("x", of: "anna", at: 365 * 86_400))
    await first.close()
    let second = try await scratch.open()
    #expect(try await second.pendingReceipts(dueAt: clock(0), limit: 10).map(\.base64) == ["x"])
    await second.close()
  }

  @Test func `to look for work where there is none writes nothing`() async throws {
    try await Scratch.withLedger { (ledger, _) async throws -> Void in
      for second in 0..<5 {
        #expect(try await claim(ledger, at: Double(second)).isEmpty)
        #expect(try await ledger.claimRechecks(dueAt: clock(Double(second)), limit: 10).isEmpty)
        #expect(try await ledger.endProvisional(reevaluated(at: Double(second))) == 0)
      }
      #expect(ledger.statistics.commits == 0)
    }
  }

  // MARK: For operators

  @Test func `the backlog counts what waits and says since when`() async throws {
    try await Scratch.withLedger { ledger, _ in
      #expect(try await ledger.backlog(at: everything) == LedgerBacklog())
      for (index, user) in ["a", "b", "c"].enumerated() {
        _ = try await ledger.record(
          entry(UserID(user), [evidence(user, expires: 100)], rules: checkedRules).with {
            $0.recordedAt = clock(Double(10 + index))
          })
      }
      try await ledger.retryUpdate(of: "a", version: milliseconds(0), at: at(20), problem: "older", isDoubtful: false)
      try await ledger.retryUpdate(of: "b", version: milliseconds(0), at: at(21), problem: "newer", isDoubtful: false)
      try await ledger.missUpdate(of: "c", version: milliseconds(0), retryAt: at(60))
      for second in [31.0, 30] { _ = try await ledger.postpone(pending("r\(second)", of: "d", at: second)) }
      var expected = LedgerBacklog()
      expected.updates = 2
      expected.oldestUpdate = at(10)
      expected.lastProblem = "newer"
      expected.missingProfiles = 1
      expected.pendingReceipts = 2
      expected.oldestPendingReceipt = at(31)  // that came first, by a clock that was put right in between
      #expect(try await ledger.backlog(at: clock(99)) == expected)
      expected.rechecksDue = 3
      expected.oldestRecheck = at(100)
      #expect(try await ledger.backlog(at: clock(160)) == expected)
    }
  }
}

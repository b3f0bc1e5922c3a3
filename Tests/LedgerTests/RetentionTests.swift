import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import TestSupport
import Testing

@testable import Ledger

/// Histories from which retention takes out what nobody needs: see `HistoryThinning`.
@Suite struct RetentionTests {
  /// A purchase is bought, renewed, over, looked at, bought again, and renewed.
  private static let story: [(at: Double, expires: Double)] = [
    (0, 100), (50, 200), (60, 300), (70, 400), (500, 400), (600, 400), (700, 900), (800, 1_000), (850, 1_100),
    (2_000, 3_000),
  ]

  private static func record(
    _ ledger: Ledger, at seconds: Double, expires: Double, user: UserID = "anna", note: NoteID? = nil,
    by rules: StandInRules = standIn
  ) async throws {
    let entry = entry(
      user, [evidence("of \(user)", time: seconds, expires: expires, order: Int(seconds))], evaluatedAt: seconds,
      request: "r\(Int(seconds))")
    _ = try await ledger.record(
      entry.with {
        $0.recordedAt = clock(seconds)
        if note != nil { ($0.origin, $0.note) = (.recheck(nil), note) }
        $0.rules = rules
      })
  }

  /// A ledger with the story of each user, who are told of no more.
  private static func withStory(
    of users: [UserID] = ["anna"], body: (Ledger, Scratch) async throws -> Void
  ) async throws {
    try await Scratch.withLedger { ledger, scratch in
      for one in story {
        for user in users { try await record(ledger, at: one.at, expires: one.expires, user: user) }
      }
      _ = try await ledger.pruneChangeEvents(before: at(5_000), limit: 1_000)
      try await body(ledger, scratch)
    }
  }

  @discardableResult
  private static func thin(_ ledger: Ledger, before moment: Double, limit: Int = 3) async throws -> Int {
    var removed = 0
    while true {
      let turn = try await ledger.thinHistory(before: at(moment), limit: limit)
      removed += turn.removed
      guard turn.examined == limit else { return removed }
    }
  }

  private static func words(_ ledger: Ledger, pages limit: Int = 100, of user: UserID = "anna") async throws -> [String]
  {
    var words: [String] = []
    var place: TimelinePosition?
    repeat {
      let page = try await ledger.timeline(of: user, before: place, limit: limit)
      words += page.events.map { event in
        switch event {
        case .verdict(let entry, let before, _):
          "\(entry.requestID) \(before?.tier.rawValue ?? "-")>\(entry.entitlement.tier)"
        case .ownership: "owner"
        case .inquiry(let note): note.text
        case .removed(let stretch): "\(stretch.events) gone"
        }
      }
      place = page.next
    } while place != nil
    return words
  }

  private static let thinned = [
    "r2000 pro>pro", "r850 pro>pro", "1 gone", "r700 free>pro", "1 gone", "r500 pro>free", "3 gone", "r0 ->pro",
    "owner",
  ]

  @Test(arguments: [1, 2, 3, 7, 100])
  func `renewals of long ago go, and what changed stays`(limit: Int) async throws {
    try await Self.withStory { ledger, scratch in
      let before = try await ledger.profile(of: "anna")
      #expect(try await Self.thin(ledger, before: 900, limit: limit) == 5)
      for pages in 1...9 { #expect(try await Self.words(ledger, pages: pages) == Self.thinned, "\(pages)") }
      #expect(try await ledger.profile(of: "anna")?.entitlement == before?.entitlement)
      var verification = try await scratch.verify()
      #expect(verification.findings == [] && verification.removed == 5 && verification.events == 6)
      // Once more is nothing, and later the rest goes the same way.
      #expect(try await Self.thin(ledger, before: 900, limit: limit) == 0)
      try await Self.record(ledger, at: 2_500, expires: 4_000)
      _ = try await ledger.pruneChangeEvents(before: at(5_000), limit: 1_000)
      #expect(try await Self.thin(ledger, before: 2_100, limit: limit) == 1)
      #expect(try await Self.words(ledger).prefix(4) == ["r2500 pro>pro", "r2000 pro>pro", "2 gone", "r700 free>pro"])
      verification = try await scratch.verify()
      #expect(verification.findings == [] && verification.removed == 6)
      #expect(try await scratch.rows("SELECT text FROM memo WHERE name = 'retention'").first?.first != nil)
    }
  }

  @Test func `a page that began before goes on after what went meanwhile`() async throws {
    try await Self.withStory { ledger, _ in
      let page = try await ledger.timeline(of: "anna", before: nil, limit: 8)
      #expect(page.events.count == 8)
      try await Self.thin(ledger, before: 900)
      let rest = try await ledger.timeline(of: "anna", before: page.next, limit: 8)
      #expect(rest.events.count == 2 && rest.next == nil, "the first verdict, and the owner")
      #expect(try await ledger.timeline(of: "ben", before: page.next, limit: 8).events.isEmpty)
    }
  }

  @Test func `an event that others still wait for keeps its verdicts`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for one in Self.story { try await Self.record(ledger, at: one.at, expires: one.expires, by: rules) }
      #expect(try await Self.thin(ledger, before: 900) == 0)
      _ = try await ledger.pruneChangeEvents(before: at(400), limit: 1_000)
      #expect(try await Self.thin(ledger, before: 900) > 0)
      let told = try await ledger.changeEvents(after: 0, limit: 100)
      #expect(!told.isEmpty && told.allSatisfy { $0.entitlement != nil && $0.former != nil })
    }
  }

  @Test func `notes go with what they were the reasons of, and stay where anything names them`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      func note(_ text: String, _ seconds: Double) -> Note {
        Note(author: "desk", text: text, requestID: text, recordedAt: clock(seconds))
      }
      try await Self.record(ledger, at: 0, expires: 100)
      let idle = try await ledger.keepNote(note("idle", 10), about: "anna")
      try await Self.record(ledger, at: 20, expires: 200, note: idle)
      let ends = try await ledger.keepNote(note("ends", 490), about: "anna")
      try await Self.record(ledger, at: 500, expires: 200, note: ends)
      _ = try await ledger.keepNote(note("nothing came of it", 510), about: "anna")
      try await Self.record(ledger, at: 600, expires: 900)
      _ = try await ledger.run(
        TransferPurchase(
          key: key("of anna"), to: "ben", note: note("moved", 650),
          evaluationContext: EvaluationContext(evaluatedAt: clock(650), recordedAt: clock(650), rules: standIn)))
      try await Self.record(ledger, at: 5_000, expires: 9_000, user: "ben")
      _ = try await ledger.pruneChangeEvents(before: at(9_000), limit: 1_000)
      try await Self.thin(ledger, before: 4_000)
      let notes = try await scratch.rows("SELECT text FROM event WHERE kind = 'note' ORDER BY sequence")
      #expect(notes == [["ends"], ["moved"]])
      #expect(try await scratch.verify().findings == [])
      #expect(try await ledger.ownedPurchases("of anna").first?.changes.map { $0.note?.text } == ["moved", nil])
    }
  }

  @Test(arguments: [
    "DELETE FROM event WHERE sequence = 2", "DELETE FROM event", "DELETE FROM thinned",
    "UPDATE thinned SET events = 0", "UPDATE thinned SET oldest = oldest - 1", "UPDATE event SET previous = NULL",
  ])
  func `nothing else is removed, and the record of it stays`(sql: String) async throws {
    try await Self.withStory { ledger, scratch in
      try await Self.thin(ledger, before: 900)
      await #expect(throws: (any Error).self) { try await scratch.change(sql) }
      #expect(try await Self.words(ledger) == Self.thinned)
    }
  }

  @Test func `a user who is erased afterwards is nowhere`() async throws {
    try await Self.withStory(of: ["anna", "ben"]) { ledger, scratch in
      try await Self.thin(ledger, before: 900)
      let report = try await ledger.erase(Anna.erasure("anna", hasRows: false))
      #expect(report.events == 6)
      #expect(try await scratch.verify().findings == [])
      let names = try await scratch.rows("SELECT DISTINCT user_id FROM thinned ORDER BY user_id").map {
        $0.first ?? nil
      }
      #expect(names.count == 2 && names.contains("ben") && !names.contains("anna"))
      #expect(try await Self.words(ledger, of: "ben") == Self.thinned)
      #expect(try await Self.words(ledger) == [])
    }
  }

  @Test func `a report says what would go, and what is gone`() async throws {
    try await Self.withStory(of: ["anna", "ben"]) { ledger, scratch in
      let place: LedgerPlace =
        TestEngine.isPostgreSQL ? .database(url: try await scratch.url(), connections: 1) : .file(scratch.path)
      var report = try await RetentionReport.read(at: place, before: at(900))
      #expect(report.events == 22 && report.old == 20 && report.needless == 10 && report.users == 2)
      #expect(report.removed == 0)
      #expect(try await Self.thin(ledger, before: 900) == 10)
      report = try await RetentionReport.read(at: place, before: at(900))
      #expect(report.events == 12 && report.old == 10 && report.needless == 0 && report.removed == 10)
    }
  }

  // MARK: Against a backup

  private static func against(
    _ tampering: String? = nil, ofBackup: Bool = false, then: (Ledger) async throws -> Void = { _ in }
  ) async throws -> LedgerVerification {
    var verification = LedgerVerification()
    try await withStory(of: ["anna", "ben"]) { ledger, scratch in
      try await thin(ledger, before: 65)
      let backup = scratch.path + "-backup"
      _ = try await LedgerBackup.make(of: scratch.path, to: backup)
      try await thin(ledger, before: 900)
      try await then(ledger)
      await ledger.close()
      if let tampering {
        let file = try SQLiteFile(ofBackup ? backup : scratch.path)
        try file.transaction {
          for trigger in ["event_no_update", "event_no_delete", "thinned_only_grows", "thinned_no_delete"] {
            try file.run("DROP TRIGGER \(trigger)")
          }
          try file.run(tampering)
        }
        file.close()
      }
      verification = try await LedgerVerification.verify(path: scratch.path, against: backup)
    }
    return verification
  }

  @Test(.ofTheFile) func `a backup proves the removed lines`() async throws {
    let verification = try await Self.against()
    #expect(verification.findings == [] && verification.removed == 10)
    #expect(verification.compared == 20 && verification.comparedRemoved == 8)
    let erased = try await Self.against { ledger in
      _ = try await ledger.erase(Anna.erasure("anna", hasRows: false))
    }
    #expect(erased.findings == [] && erased.comparedRemoved == 8)
  }

  @Test(
    .ofTheFile,
    arguments: [
      ("DELETE FROM thinned WHERE user_id = 'anna'", false, "is missing"),
      ("UPDATE thinned SET verdicts = verdicts - 1", false, "version"),
      ("UPDATE thinned SET digest = zeroblob(32)", false, "other events"),
      ("DELETE FROM event WHERE user_id = 'ben' AND version = 5", false, "is missing"),
      ("UPDATE event SET changed = 1 - changed WHERE user_id = 'ben' AND version = 7", false, "is not as it was"),
      (
        "UPDATE event SET recorded_at = recorded_at + 1 WHERE user_id = 'ben' AND version IN (4, 6)", true,
        "other events"
      ),
      ("INSERT INTO thinned VALUES ('carl', 1, 1, NULL, 1, 1, 0, 0, zeroblob(32))", false, "belong to a user's chain"),
    ])
  func `a history that went otherwise is found`(tampering: String, ofBackup: Bool, finding: String) async throws {
    let verification = try await Self.against(tampering, ofBackup: ofBackup)
    #expect(verification.findings.contains { $0.contains(finding) }, "\(verification.findings)")
  }
}

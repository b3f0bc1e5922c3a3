import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

/// The story of a user: verdicts, changes of owner, and what people asked for, page by page.
@Suite struct TimelineTests {
  private static func note(_ text: String, at seconds: Double = 5_000) -> Note {
    Note(author: "desk", text: text, requestID: "request-\(text)", recordedAt: clock(seconds))
  }

  private static func transfer(_ id: String, to user: UserID, _ text: String, at seconds: Double = 6_000)
    -> TransferPurchase
  {
    TransferPurchase(
      key: key(id), to: user, note: note(text, at: seconds),
      evaluationContext: EvaluationContext(evaluatedAt: clock(0), recordedAt: clock(seconds), rules: standIn))
  }

  private static func words(_ events: [TimelineEvent]) -> [String] {
    events.map { event in
      switch event {
      case .verdict(let entry, let before, let note):
        "verdict \(entry.requestID) \(before?.tier.rawValue ?? "-")>\(entry.entitlement.tier)"
          + (note.map { " (\($0.author): \($0.text))" } ?? "")
      case .ownership(let change):
        "owner \(change.from?.rawValue ?? "-")>\(change.to)" + (change.note.map { " (\($0.author): \($0.text))" } ?? "")
      case .inquiry(let note): "asked (\(note.author): \(note.text))"
      case .removed(let stretch): "\(stretch.events) removed"
      }
    }
  }

  /// Reads from the newest to the oldest in pages of one size.
  private static func all(_ ledger: Ledger, of user: UserID, pages limit: Int) async throws -> [String] {
    var reported: [String] = []
    var position: TimelinePosition?
    for _ in 0..<1_000 {
      let page = try await ledger.timeline(of: user, before: position, limit: limit)
      #expect(page.events.count <= limit)
      reported += words(page.events)
      guard let next = page.next else { return reported }
      #expect(page.events.count == limit)
      position = next
    }
    Issue.record("the pages do not end")
    return reported
  }

  @Test func `a story is told newest first, each verdict with the one before, in pages of any size`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 100)], request: "first"))
      let note = try await ledger.keepNote(Self.note("by mail"), about: "anna")
      _ = try await ledger.record(
        entry("anna", [evidence("1", time: 200, expires: 100)], request: "second").with {
          ($0.origin, $0.note) = (.recheck(nil), note)
        })
      _ = try await ledger.keepNote(Self.note("called again", at: 5_001), about: "anna")
      _ = try await ledger.record(entry("ben", [evidence("2")], request: "other"))
      let story = [
        "asked (desk: called again)", "verdict second pro>free (desk: by mail)", "asked (desk: by mail)",
        "verdict first ->pro", "owner ->anna",
      ]
      for limit in 1...6 { #expect(try await Self.all(ledger, of: "anna", pages: limit) == story, "\(limit)") }
    }
  }

  @Test func `a story goes on from its own events, and from no other place`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for time in 0..<12 {
        let user: UserID = time.isMultiple(of: 3) ? "ben" : "anna"
        _ = try await ledger.record(
          entry(user, [evidence(user.rawValue, time: Double(time), order: time)], request: "r\(time)"))
      }
      let story = try await Self.all(ledger, of: "anna", pages: 100)
      let verdicts = story.filter { $0.hasPrefix("verdict") }.map { $0.split(separator: " ")[1] }
      #expect(verdicts == ["r11", "r10", "r8", "r7", "r5", "r4", "r2", "r1"])
      var places: [Int64] = []
      func page(before place: Int64?, limit: Int) async throws -> TimelinePage {
        try await ledger.timeline(of: "anna", before: place.map { TimelinePosition($0) }, limit: limit)
      }
      while let next = try await page(before: places.last, limit: 1).next { places.append(next.sequence) }
      #expect(places.count == story.count - 1)
      for place in [Int64.min, Int64.max] + Array(-1...20) {
        let rest = places.firstIndex(of: place).map { story.dropFirst($0 + 1) } ?? []
        for limit in [1, 3, 100] {
          let events = try await page(before: place, limit: limit).events
          #expect(Self.words(events) == Array(rest.prefix(limit)), "\(place), \(limit)")
        }
      }
    }
  }

  @Test func `events between two pages neither repeat nor hide an entry`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for step in 0..<5 {
        _ = try await ledger.record(entry("anna", [evidence("1", time: Double(step), order: step)], request: "\(step)"))
      }
      let first = try await ledger.timeline(of: "anna", before: nil, limit: 3)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 9, order: 9)], request: "new"))
      _ = try await ledger.keepNote(Self.note("new", at: 9_000), about: "anna")
      let rest = try await ledger.timeline(of: "anna", before: first.next, limit: 10)
      #expect(rest.next == nil)
      #expect(
        Self.words(first.events + rest.events) == [
          "verdict 4 pro>pro", "verdict 3 pro>pro", "verdict 2 pro>pro", "verdict 1 pro>pro", "verdict 0 ->pro",
          "owner ->anna",
        ])
    }
  }

  @Test func `a clock that was put back hides nothing`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for (step, seconds) in [5_000.0, 100, 7_000, 50].enumerated() {
        _ = try await ledger.record(
          entry("anna", [evidence("1", time: Double(step), order: step)], request: "\(step)")
            .with { $0.recordedAt = clock(seconds) })
        _ = try await ledger.keepNote(Self.note("\(step)", at: seconds), about: "anna")
      }
      for limit in 1...10 {
        let reported = try await Self.all(ledger, of: "anna", pages: limit)
        #expect(reported.count == 9 && Set(reported).count == 9, "\(limit): \(reported)")
        let verdicts = reported.filter { $0.hasPrefix("verdict") }.map { $0.split(separator: " ")[1] }
        #expect(verdicts == ["3", "2", "1", "0"])
      }
    }
  }

  @Test func `a transfer is told to both, with the note, and judges both`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")], request: "bought"))
      _ = try await ledger.record(entry("ben", [evidence("2", expires: -1)], request: "elsewhere"))
      let outcome = try await ledger.run(Self.transfer("1", to: "ben", "wrong account"))
      #expect(outcome == .moved(from: "anna"))
      #expect(try await ledger.keys(of: "anna").isEmpty)
      #expect(try await ledger.keys(of: "ben") == [key("1"), key("2")])
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      #expect(try await ledger.profile(of: "ben")?.entitlement.tier == "pro")
      #expect(
        try await Self.all(ledger, of: "anna", pages: 2) == [
          "verdict request-wrong account pro>free (desk: wrong account)", "owner anna>ben (desk: wrong account)",
          "verdict bought ->pro", "owner ->anna",
        ])
      #expect(
        try await Self.all(ledger, of: "ben", pages: 2) == [
          "verdict request-wrong account free>pro (desk: wrong account)", "owner anna>ben (desk: wrong account)",
          "verdict elsewhere ->free", "owner ->ben",
        ])
      // The app's own rows of both have to hear of it.
      for user in ["anna", "ben"] as [UserID] {
        #expect(try await ledger.waitingUpdate(of: user)?.entitlement == ledger.profile(of: user)?.entitlement)
      }
      try await ledger.verifyIntegrity()
    }
  }

  @Test func `a transfer to the owner writes nothing, and one of what is unknown does not either`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      _ = try await ledger.run(Self.transfer("1", to: "ben", "once"))
      let story = try await Self.all(ledger, of: "ben", pages: 10)
      let version = try await ledger.profile(of: "ben")?.version
      #expect(try await ledger.run(Self.transfer("1", to: "ben", "twice")) == .unchanged)
      #expect(try await ledger.run(Self.transfer("9", to: "ben", "nothing there")) == .unknown)
      #expect(try await Self.all(ledger, of: "ben", pages: 10) == story)
      #expect(try await ledger.profile(of: "ben")?.version == version)
    }
  }

  @Test func `a purchase goes to a user who was never seen`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1"), evidence("2")], receipt: "both"))
      #expect(try await ledger.run(Self.transfer("1", to: "new", "new account")) == .moved(from: "anna"))
      #expect(try await ledger.profile(of: "new")?.version == 1)
      #expect(try await ledger.profile(of: "new")?.entitlement.tier == "pro")
      // The receipt goes on proving what stayed.
      #expect(try await ledger.receipts(of: "anna", limit: 9).map(\.key) == [key("2")])
      #expect(try await ledger.receipts(of: "new", limit: 9).map(\.key) == [key("1")])
      let purchase = try #require(try await ledger.ownedPurchases("1").first)
      #expect(purchase.owner == "new")
      #expect(purchase.changes.map(\.to) == ["new", "anna"])
      #expect(purchase.changes.map(\.note?.text) == ["new account", nil])
      #expect(purchase.changes.map(\.recordedAt) == [at(6_000), at(5_000)])
    }
  }

  @Test func `a grant on a signature does not stay with the loser`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 100)], rules: rules))
      let renewal = signed("1", time: 150, expires: 10_000, until: 9_000)
      _ = try await ledger.run(
        Postpone(
          pending("renewal", of: "anna", at: 150), provisional: [renewal], reevaluated(at: 150)))
      #expect(try await ledger.profile(of: "anna")?.entitlement.isProvisional == true)
      var transfer = Self.transfer("1", to: "ben", "wrong account")
      transfer.evaluationContext = reevaluated(at: 160)
      _ = try await ledger.run(transfer)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      #expect(try await ledger.profile(of: "anna")?.evidence == [])
    }
  }

  @Test func `each kept receipt is handed out once, the one with the newest evidence first`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1"), evidence("2", time: 1)], receipt: "two"))
      _ = try await ledger.record(entry("anna", [evidence("3", time: 9)], receipt: "newest"))
      _ = try await ledger.record(entry("anna", [evidence("4", environment: .sandbox)], receipt: "oldest"))
      _ = try await ledger.record(entry("ben", [evidence("5", time: 5)], receipt: "other"))
      let receipts = try await ledger.receipts(of: "anna", limit: 9)
      #expect(receipts.map(\.receipt.base64) == ["newest", "two", "oldest"])
      #expect(receipts.map(\.key) == [key("3"), key("2"), key("4", .sandbox)])
      #expect(receipts.allSatisfy { $0.receipt.owner == "anna" })
      #expect(try await ledger.receipts(of: "anna", limit: 2).count == 2)
    }
  }

  @Test func `a receipt that came to prove two purchases one after the other is handed out once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for id in ["1", "2"] {
        _ = try await ledger.record(entry("anna", [evidence(id)], receipt: "old-\(id)"))
        _ = try await ledger.record(entry("anna", [evidence(id, time: 1)], receipt: "both"))
      }
      #expect(try await ledger.receipts(of: "anna", limit: 9).map(\.receipt.base64) == ["both"])
      #expect(try await ledger.knowledge(of: "both", for: "anna").proves == [key("1"), key("2")])
    }
  }

  @Test func `a note on a user never seen is kept, and survives`() async throws {
    let scratch = try Scratch()
    let first = try await scratch.open()
    _ = try await first.keepNote(Self.note("who is this?"), about: "nobody")
    await first.close()
    let second = try await scratch.open()
    #expect(try await Self.all(second, of: "nobody", pages: 5) == ["asked (desk: who is this?)"])
    #expect(try await second.profile(of: "nobody") == nil)
    await second.close()
  }

  @Test func `both stores may know one ID`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("1")]))
      _ = try await ledger.record(entry("ben", [evidence("1", environment: .sandbox)], receipt: "test"))
      let purchases = try await ledger.ownedPurchases("1")
      #expect(purchases.map(\.owner) == ["anna", "ben"])
      #expect(purchases.map(\.evidence.key) == [key("1"), key("1", .sandbox)])
      #expect(try await ledger.ownedPurchases("2").isEmpty)
    }
  }
}

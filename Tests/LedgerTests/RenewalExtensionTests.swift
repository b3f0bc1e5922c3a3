import Entitlements
import Ledger
import LedgerFixtures
import Testing

/// Extensions of renewal dates that Apple was asked for.
@Suite struct RenewalExtensionTests {
  private static func asked(
    _ subject: ExtensionRecord.Subject = .purchase("7"), days: Int = 14, request: String, key: String? = nil,
    note: String? = "why", at now: Double = 100, until lease: Double? = nil
  ) -> AskExtension {
    AskExtension(
      environment: .production, subject: subject,
      terms: RenewalExtension(days: days, reason: .serviceIssue, requestIdentifier: request), author: "desk",
      note: note, requestID: "req", idempotencyKey: key, now: clock(now), claimedUntil: lease.map(at))
  }

  private static func ask(_ ledger: Ledger, _ asked: AskExtension) async throws -> ExtensionRecord {
    switch try await ledger.run(asked) {
    case .asked(let record), .known(let record): return record
    case .mismatch, .waiting: throw CancellationError()
    }
  }

  private static func claim(
    _ ledger: Ledger, _ now: Double, until lease: Double = 500, in environment: StoreEnvironment? = nil
  ) async throws -> [ExtensionRecord] {
    try await ledger.claimExtensions(in: environment, dueAt: clock(now), until: at(lease), limit: 9)
  }

  @Test func `one is recorded before Apple is asked, and claimed by one at a time`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let record = try await Self.ask(ledger, Self.asked(request: "r1", until: 200))
      #expect(record.state == .due && record.terms.requestIdentifier == "r1" && record.askedAt == at(100))
      #expect(try await Self.claim(ledger, 199).isEmpty, "the caller has it")
      #expect(try await Self.claim(ledger, 200, in: .sandbox).isEmpty)
      #expect(try await Self.claim(ledger, 200, in: .production) == [record])
      #expect(try await Self.claim(ledger, 499, until: 900).isEmpty)
      try await ledger.returnExtensions([record], claimedUntil: at(500))
      #expect(try await Self.claim(ledger, 201).count == 1)
      _ = try await ledger.settle(record, .due(at: at(800), attempts: 1, problem: "away"), at: clock(210))
      #expect(try await Self.claim(ledger, 799).isEmpty)
      #expect(try await Self.claim(ledger, 800).map(\.problem) == ["away"])
    }
  }

  @Test func `an extension that waits for an answer is not asked for twice, and no other of its purchase beside it`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      let first = try await Self.ask(ledger, Self.asked(request: "r1"))
      #expect(try await ledger.run(Self.asked(request: "r2")) == .known(first))
      #expect(try await ledger.run(Self.asked(days: 15, request: "r3")) == .waiting(first))
      _ = try await ledger.settle(first, .refused("no"), at: clock(110))
      guard case .asked(let second) = try await ledger.run(Self.asked(request: "r4")) else {
        Issue.record("one that is over does not stand in the way")
        return
      }
      #expect(try await ledger.extensions(of: first.key ?? key("7"), limit: 9).map(\.id) == [second.id, first.id])
    }
  }

  @Test func `an idempotency key finds its extension, also after the end, and no other`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let first = try await Self.ask(ledger, Self.asked(request: "r1", key: "k"))
      _ = try await ledger.settle(first, .refused("no"), at: clock(110))
      guard case .known(let known) = try await ledger.run(Self.asked(request: "r2", key: "k")) else {
        Issue.record("the key is known")
        return
      }
      #expect(known.id == first.id && known.state == .refused && known.problem == "no")
      #expect(try await ledger.run(Self.asked(days: 3, request: "r3", key: "k")) == .mismatch)
      #expect(try await ledger.run(Self.asked(request: "r4", key: "k", note: "other")) == .mismatch)
      #expect(try await Self.ask(ledger, Self.asked(.purchase("8"), request: "r5", key: "k")).id != first.id)
    }
  }

  @Test func `a success is settled once, with a note in the owner's history and a check that is due`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("7", expires: 5_000)]))
      let record = try await Self.ask(ledger, Self.asked(request: "r1"))
      let note = Note(author: "desk", text: "extended", requestID: "req", recordedAt: clock(150))
      #expect(try await ledger.settle(record, .extended(expiresAt: at(9_000), note: note), at: clock(150)) != nil)
      #expect(try await ledger.settle(record, .extended(expiresAt: at(9_999), note: note), at: clock(160)) == nil)
      let settled = try #require(try await ledger.extensionRecord(record.id))
      #expect(settled.state == .done && settled.expiresAt == at(9_000) && settled.closedAt == at(150))
      let notes = try await ledger.timeline(of: "anna", before: nil, limit: 9).events.filter {
        if case .inquiry(let said) = $0 { said.text == "extended" } else { false }
      }
      #expect(notes.count == 1)
      #expect(try await ledger.claimRechecks(dueAt: clock(151), limit: 9).count == 1)
    }
  }

  @Test func `an extension of a product is counted as Apple reports, and ends by its summary`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("7", expires: 5_000)]))
      let product = ExtendedProduct(productID: pro, storefronts: ["USA"])
      let record = try await Self.ask(ledger, Self.asked(.product(product), request: "outage"))
      #expect(record.subject.product == product && record.expected == 0)
      _ = try await ledger.settle(record, .running(lookAt: at(200), attempts: 0, problem: nil), at: clock(120))
      #expect(try await Self.claim(ledger, 200).map(\.state) == [.running])
      func take(_ uuid: String, extended: Bool) async throws {
        var entry = notification(uuid, [part("7")], received: 200)
        entry.environment = .production
        entry.hasExtended = extended
        var notice = StoreNotice(uuid: uuid, type: "RENEWAL_EXTENDED")
        notice.productID = pro.rawValue
        entry.notice = notice
        _ = try await ledger.run(entry)
      }
      for uuid in ["a", "a", "b"] { try await take(uuid, extended: true) }
      try await take("c", extended: false)
      #expect(try await ledger.extensionRecord(record.id).map { [$0.succeeded, $0.failed] } == [2, 1])
      let other = ExtensionSummary(requestIdentifier: "other", succeeded: 9, failed: 9)
      #expect(try await ledger.complete(other, at: clock(200)) == nil)
      #expect(try await ledger.extensionRecord(record.id)?.state == .running)
      let summary = ExtensionSummary(requestIdentifier: "outage", succeeded: 5, failed: 2)
      #expect(try await ledger.complete(summary, at: clock(200))?.state == .done)
      #expect(try await ledger.complete(summary, at: clock(210)) == nil, "once")
      _ = try await ledger.settle(record, .running(lookAt: at(900), attempts: 1, problem: nil), at: clock(220))
      let done = try #require(try await ledger.extensions(ofProducts: true, limit: 9).first)
      #expect(done.state == .done && done.succeeded == 5 && done.failed == 2 && done.closedAt == at(200))
      #expect(try await ledger.extensions(ofProducts: false, limit: 9).isEmpty)
    }
  }

  @Test func `an erasure forgets the extensions of the user's purchases alone`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [evidence("7", expires: 5_000)]))
      _ = try await ledger.record(entry("bert", [evidence("8", expires: 5_000)]))
      for id in ["7", "8"] {
        _ = try await Self.ask(ledger, Self.asked(.purchase(OriginalTransactionID(id)), request: id))
      }
      _ = try await ledger.erase(Erasure(user: "anna", reset: nil, evaluationContext: reevaluated(at: 300)))
      #expect(try await ledger.extensions(ofProducts: false, limit: 9).map(\.terms.requestIdentifier) == ["8"])
    }
  }

  @Test func `an erasure takes the name out of what is said of another user's extension, also by one under way`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      let anna: UserID = "6F0C2F3E-0D3E-4F83-9A52-2A1C9D6F6A11"
      _ = try await ledger.record(entry(anna, [evidence("7", expires: 5_000)]))
      _ = try await ledger.record(entry("bert", [evidence("8", expires: 5_000)]))
      // Two keys that differ in the name's spelling alone.
      for (request, name) in [("r1", anna.rawValue), ("r2", anna.rawValue.lowercased())] {
        let record = try await Self.ask(
          ledger, Self.asked(.purchase("8"), request: request, key: "fix-\(name)", note: "brother of \(name)"))
        if request == "r1" { _ = try await ledger.settle(record, .refused("no"), at: clock(110)) }
      }
      let read = try #require(try await Self.claim(ledger, 200).first)
      _ = try await ledger.erase(Erasure(user: anna, reset: nil, evaluationContext: reevaluated(at: 300)))
      let note = Note(author: "desk", text: "Extended. \(read.note ?? "")", requestID: "req", recordedAt: clock(400))
      #expect(try await ledger.settle(read, .extended(expiresAt: at(9_000), note: note), at: clock(400)) != nil)
      let said =
        "\(try await ledger.extensions(ofProducts: false, limit: 9))"
        + "\(try await ledger.timeline(of: "bert", before: nil, limit: 9).events)"
      #expect(said.contains("brother of") && !said.lowercased().contains(anna.rawValue.lowercased()))
    }
  }

  @Test func `after a clock that was ahead is corrected, what it postponed is due`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let record = try await Self.ask(ledger, Self.asked(request: "r1", at: 90_000))
      _ = try await ledger.settle(record, .due(at: at(99_000), attempts: 1, problem: "away"), at: clock(90_010))
      #expect(try await Self.claim(ledger, 200).isEmpty)
      try await ledger.releaseClaims()
      #expect(try await Self.claim(ledger, 200).map(\.attempts) == [1])
    }
  }

  @Test func `an answer of before does not undo what is under way`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let record = try await Self.ask(ledger, Self.asked(.product(ExtendedProduct(productID: pro)), request: "r1"))
      _ = try await ledger.settle(record, .running(lookAt: at(200), attempts: 0, problem: nil), at: clock(120))
      _ = try await ledger.settle(record, .refused("late"), at: clock(130))
      #expect(try await ledger.extensionRecord(record.id)?.state == .running)
    }
  }
}

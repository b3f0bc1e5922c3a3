import Access
import Entitlements
import Foundation
import LedgerFixtures
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// The erasure of a user: what goes, what stays under a pseudonym, and what comes afterwards.
@Suite struct ErasureTests {
  private func erased(_ body: (Ledger, Scratch, ErasureReport) async throws -> Void) async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await Anna.fill(ledger)
      #expect(try await scratch.traces(of: Anna.names).count > 5, "or there is nothing to test")
      let report = try await ledger.erase(Anna.erasure(hasRows: false))
      try await ledger.removeTraces()
      try await body(ledger, scratch, report)
    }
  }

  /// Neither the ID nor an alias is anywhere in the files, once a ledger has removed its traces.
  private func expectNoTraces(
    _ scratch: Scratch, of ledger: Ledger? = nil, _ location: SourceLocation = #_sourceLocation
  ) async throws {
    try await ledger?.removeTraces()
    let traces = try await scratch.traces(of: Anna.names)
    #expect(traces == [], sourceLocation: location)
  }

  // MARK: What goes

  @Test func `neither the file nor its log holds the ID or an alias, in plain or in base64`() async throws {
    try await erased { ledger, scratch, _ in
      try await expectNoTraces(scratch)
      // Later writes bring nothing back.
      _ = try await ledger.record(entry("carl", [evidence("77")], rules: rules))
      try await expectNoTraces(scratch, of: ledger)
      try await isSound(scratch)
      try await ledger.verifyIntegrity()
    }
  }

  /// PostgreSQL has no such pages, and takes long; `COUNTERSIGN_CASES=full` plays it there, too.
  @Test(.enabled(if: !TestEngine.isPostgreSQL || SeededRandom.triesAll))
  func `pages that were split and emptied before hold nothing either`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await Anna.fill(ledger)
      for number in 0..<600 {
        let user: UserID = number.isMultiple(of: 3) ? Anna.id : UserID("user-\(number)")
        _ = try await ledger.record(
          entry(
            user, [evidence("\(1_000 + number)", time: Double(number), expires: 50_000)],
            receipt: Data(repeating: UInt8(number % 251), count: 300 + number * 7).base64EncodedString(),
            rules: rules))
        if number.isMultiple(of: 5) {
          _ = try await ledger.run(
            consuming(Anna.meter, by: user, with: "pro", at: 100 + Double(number), key: "key-\(number)"))
        }
        if number.isMultiple(of: 50) {
          for update in try await ledger.claimUpdates(dueAt: clock(1e6), until: at(2e6), limit: 20) {
            try await ledger.settleUpdate(
              of: update.user, version: update.version, isDoubtful: false, confirmingAt: nil)
          }
        }
      }
      let report = try await ledger.erase(Anna.erasure(hasRows: false))
      #expect(report.purchases > 200 && report.events > 400)
      try await expectNoTraces(scratch, of: ledger)
      try await isSound(scratch)
    }
  }

  @Test func `an anonymous ID erases the user whom it means`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await Anna.fill(ledger)
      let report = try await ledger.erase(Anna.erasure(Anna.alias, hasRows: false))
      #expect(report.user == Anna.id)
      try await expectNoTraces(scratch, of: ledger)
    }
  }

  @Test func `the report says what was done, and a second erasure finds nothing`() async throws {
    try await erased { ledger, scratch, report in
      #expect(report.purchases == 4, "1, 2 and 4, and the one at Google's")
      #expect(report.receipts == 3, "those; Ben was given no purchase that names her")
      #expect(report.notes == 5 && report.waitingReceipts == 1 && report.devices == 2 && report.trials == 1)
      #expect(report.grants == 2 && report.usage == 6 && report.customers == 2 && report.notifications >= 6)
      #expect(report.events > 10 && !report.resetsRow)
      let again = try await ledger.erase(Anna.erasure(hasRows: false))
      var nothing = ErasureReport(of: Anna.id)
      nothing.user = again.user
      #expect(again == nothing)
      // Nobody can tell her from somebody who was never here.
      var other = try await ledger.erase(Anna.erasure("nobody", hasRows: false))
      other.user = again.user
      #expect(other == nothing)
      #expect(try await ledger.profile(of: Anna.id) == nil)
      #expect(try await !ledger.isKnown(Anna.id))
      #expect(try await ledger.timeline(of: Anna.id, before: nil, limit: 10).events.isEmpty)
      #expect(try await ledger.given(to: Anna.id, limit: 10).isEmpty)
      try await isSound(scratch)
    }
  }

  @Test func `other users who had to do with an erased user keep what is theirs`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await Anna.fill(ledger)
      let before = try #require(try await ledger.profile(of: "ben"))
      let bens = try await ledger.receipts(of: "ben", limit: 10)
      let events = try await ledger.timeline(of: "ben", before: nil, limit: 100).events.count
      _ = try await ledger.erase(Anna.erasure(hasRows: false))
      let after = try #require(try await ledger.profile(of: "ben"))
      #expect(after.entitlement == before.entitlement && after.version == before.version)
      #expect(after.evidence.map(\.key) == before.evidence.map(\.key))
      #expect(after.evidence.flatMap(\.purchases).allSatisfy { $0.appAccountToken == nil })
      let history = try await ledger.timeline(of: "ben", before: nil, limit: 100).events
      #expect(history.count == events)
      var inquiries: [String] = []
      for event in history {
        if case .inquiry(let note) = event { inquiries.append(note.text) }
        if case .ownership(let change) = event, change.from != "ben", let from = change.from { #expect(from.isErased) }
      }
      #expect(inquiries == ["see also (erased)."])
      // The receipt that they shared is needed to ask Apple about Ben's purchase; it names her, so it is gone too.
      let kept = try await ledger.receipts(of: "ben", limit: 10)
      #expect(bens.count == kept.count || kept.allSatisfy { $0.receipt.isErased })
      try await isSound(scratch)
    }
  }

  @Test func `a receipt with purchases of two users stays with the other one`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(
        entry("anna", [evidence("1"), evidence("2")], receipt: "c2hhcmVk", rules: rules))
      _ = try await ledger.run(moving("2", to: "ben", at: 1))
      let report = try await ledger.erase(Anna.erasure("anna"))
      #expect(report.receipts == 0 && report.purchases == 1)
      #expect(try await ledger.receipts(of: "ben", limit: 5).map(\.receipt.base64) == ["c2hhcmVk"])
      let owned = try await ledger.receipts(mentioning: "1")
      #expect(owned.map(\.isErased) == [true] && owned.first?.owner?.isErased == true)
      try await isSound(scratch)
    }
  }

  @Test func `a short name is not taken for a part of others' words`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("1", [evidence("11")], rules: rules))
      _ = try await ledger.record(entry("anna", [evidence("12")], rules: rules))
      _ = try await ledger.keepNote(
        Note(author: "desk", text: "gave 1 month to annabel, not to anna", requestID: "n", recordedAt: clock(1)),
        about: "ben")
      _ = try await ledger.erase(Anna.erasure("1"))
      _ = try await ledger.erase(Anna.erasure("anna"))
      let texts = try await scratch.fetch("SELECT text FROM event WHERE kind = 'note'", as: String.self)
      #expect(texts == ["gave 1 month to annabel, not to (erased)"])
    }
  }

  @Test func `a job's progress loses the name, and keeps a member of the same name`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("place", [evidence("11")], rules: rules))
      try await ledger.keepMemo("job", #"{"place":"place","users":["place","places"]}"#)
      _ = try await ledger.erase(Anna.erasure("place"))
      #expect(try await ledger.memo("job") == #"{"place":"pl","users":["pl","places"]}"#)
    }
  }

  // MARK: What stays

  @Test(arguments: OwnershipPolicy.allCases)
  func `an erased user's purchase goes to the user who proves it, not to one who knows its ID`(
    policy: OwnershipPolicy
  ) async throws {
    try await erased { ledger, scratch, _ in
      let named = evidence("2", time: 9_500, expires: 20_000, account: annasAccount)
      let guess = entry("carl", [named], receipt: "bmV3", rules: rules).with { $0.origin = .askedByID }
      #expect(try await ledger.record(guess).isRefused)
      let question = entry("carl", [named], receipt: "bmV3", rules: rules).with { $0.origin = .recheck(nil) }
      #expect(try await ledger.record(question).isRefused)
      #expect(try await ledger.ownedPurchases("2").first?.owner.isErased == true)
      // She is back under another ID, with the receipt of the same Apple account, which names who she was.
      let proof = entry("carl", [named], receipt: "bmV3", ownership: policy, rules: rules)
        .with { $0.keysNamingOthers = [key("2")] }
      let recorded = try #require(try await ledger.record(proof).recorded)
      #expect(recorded.entitlement.tier == "pro" && recorded.losers.allSatisfy(\.isErased))
      #expect(try await ledger.ownedPurchases("2").first?.owner == "carl")
      #expect(try await ledger.receipts(of: "carl", limit: 5).map(\.receipt.base64) == ["bmV3"])
      #expect(try await ledger.waitingUpdate(of: "carl")?.entitlement.tier == "pro")
      // It has an owner again.
      let next = try await ledger.record(entry("dora", [named], receipt: "bmV3", rules: rules))
      #expect(next.isRefused)
      try await isSound(scratch)
    }
  }

  @Test func `an erased user's purchase that nobody proves is moved by support alone`() async throws {
    try await erased { ledger, scratch, _ in
      let owner = try #require(try await ledger.ownedPurchases("2").first?.owner)
      #expect(owner.isErased && owner.shown == "(erased)" && UserID(valid: owner.rawValue) == nil)
      #expect(owner.rawValue.contains("/"), "nobody can have that name")
      #expect(try await ledger.run(moving("2", to: Anna.id, at: 9_600)) == .moved(from: owner))
      #expect(try await ledger.profile(of: Anna.id)?.entitlement.tier == "pro")
      #expect(try await ledger.waitingUpdate(of: Anna.id)?.entitlement.tier == "pro")
      #expect(try await ledger.waitingUpdate(of: owner) == nil, "a pseudonym has no row")
      let again = try await ledger.record(
        entry(Anna.id, [evidence("2", time: 9_700, expires: 20_000)], receipt: "bmV3", rules: rules))
      #expect(again.recorded?.entitlement.tier == "pro")
      #expect(try await ledger.receipts(of: Anna.id, limit: 5).map(\.receipt.base64) == ["bmV3"])
      try await isSound(scratch)
      // And once more.
      #expect(try await ledger.erase(Anna.erasure(hasRows: false)).purchases == 1)
      try await expectNoTraces(scratch, of: ledger)
      #expect(try await ledger.ownedPurchases("2").first?.owner.isErased == true)
      try await isSound(scratch)
    }
  }

  @Test func `a purchase that was hers by name alone goes to the next who presents it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n1", [part("1", account: annasAccount)], for: Anna.id))
      #expect(try await ledger.ownedPurchases("1").first?.owner == Anna.id)
      _ = try await ledger.erase(Anna.erasure())
      let outcome = try await ledger.record(posted("carl", [part("1", reported: 10)]))
      #expect(outcome.recorded != nil)
      #expect(try await ledger.ownedPurchases("1").first?.owner == "carl")
    }
  }

  @Test func `her devices get no second trial, and neither does she`() async throws {
    try await erased { ledger, scratch, _ in
      #expect(
        try await scratch.fetch("SELECT push_token FROM device WHERE push_token IS NOT NULL", as: String.self) == [])
      #expect(try await ledger.run(Anna.trial("carl", at: 9_100)) == .used(.device))
      #expect(try await ledger.run(Anna.trial(Anna.id, at: 9_100)) == .used(.device))
      let elsewhere = Anna.trial(Anna.id, on: "33333333-3333-4333-8333-333333333333", at: 9_100)
      // By its push token it is her phone's successor.
      #expect(try await ledger.run(elsewhere) == .used(.device))
      let there = try #require(try await ledger.trial(on: Anna.phone, of: nil))
      #expect(there.user.isErased && there.endsAt <= at(9_000))
      #expect(try await ledger.profile(of: Anna.id) == nil)
    }
  }

  @Test func `notifications afterwards update the purchase, and name nobody`() async throws {
    try await erased { ledger, scratch, _ in
      let renewed = part("2", "t9", reported: 9_500, expires: 99_000, account: annasAccount)
      let outcome = try await ledger.run(
        notification(
          "n9", [renewed], proof: proof(Anna.jws(naming: annasAccount)), for: Anna.id, received: 9_500,
          payload: Anna.jws(naming: annasAccount)))
      let user = try #require(outcome.recorded?.user)
      #expect(user.isErased && outcome.recorded?.recorded.entitlement.tier == "pro")
      let kept = try #require(try await ledger.ownedPurchases("2").first)
      #expect(kept.evidence.purchases.contains { $0.transactionID == "t9" })
      // One that nobody has seen, and that names her: it makes no user of that name.
      let bought = part("500", reported: 9_600, expires: 99_000, account: annasAccount)
      let other = try await ledger.run(
        notification(
          "n10", [bought], proof: proof(Anna.jws(naming: annasAccount)), for: Anna.id, received: 9_600,
          payload: Anna.jws(naming: annasAccount)))
      #expect(other.recorded?.user == user)
      // RevenueCat's, about a purchase of hers and about a new one.
      _ = try await ledger.run(Anna.event("e9", at: 9_700))
      var new = RevenueCatReport.purchase(
        RevenueCatReport.event(.period, id: "e10", at: 9_800, user: UserID(annasAccount), until: 99_000),
        of: RevenueCatReport.Store("play_store").key(.production, "GPA.9"))
      new.payload = #"{"event":{"app_user_id":"\#(annasAccount)"}}"#
      new.users = [UserID(annasAccount)]
      _ = try await ledger.run(new)
      #expect(try await ledger.profile(of: Anna.id) == nil)
      let updates = try await ledger.claimUpdates(dueAt: clock(1e6), until: at(2e6), limit: 50)
      #expect(updates.allSatisfy { $0.user.mayHaveRow })
      try await expectNoTraces(scratch, of: ledger)
      try await isSound(scratch)
    }
  }

  @Test func `Apple's answers about another's purchase bring the name back to nobody`() async throws {
    try await erased { ledger, scratch, _ in
      let answer = part("5", "t8", reported: 9_500, expires: 99_000, account: annasAccount, source: .serverAPI)
      let recorded = try await ledger.record(
        posted("ben", [answer], jws: Anna.jws(naming: annasAccount)).with { $0.keepsReceipts = false }
      ).recorded
      #expect(recorded?.entitlement.tier == "pro")
      try await expectNoTraces(scratch, of: ledger)
      try await isSound(scratch)
    }
  }

  @Test func `a receipt that was being settled meanwhile makes no user of her`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.postpone(pending("cmVjZWlwdA==", of: Anna.id))
      let waiting = try #require(try await ledger.pendingReceipts(dueAt: clock(1), limit: 1).first)
      _ = try await ledger.erase(Anna.erasure())
      let outcome = try await ledger.record(
        entry(Anna.id, [evidence("1")], rules: rules).with { $0.origin = .settlement(waiting.id, .keep) })
      if case .heldBack = outcome {} else { Issue.record("\(outcome)") }
      #expect(try await ledger.profile(of: Anna.id) == nil)
    }
  }

  @Test func `an erased purchase is due as before, with nothing to show`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(
        entry(Anna.id, [evidence("1", expires: 1_000)], rules: checkedRules))
      _ = try await ledger.erase(Anna.erasure())
      let due = try await ledger.claimRechecks(dueAt: clock(100_000), limit: 10)
      #expect(due.map(\.receipt.isErased) == [true] && due.map(\.owner.isErased) == [true])
      let answer = entry(
        try #require(due.first?.owner), [evidence("1", time: 2_000, expires: 200_000)],
        receipt: Anna.jws(naming: annasAccount), rules: rules
      ).with {
        $0.origin = .recheck(nil)
        $0.keepsReceipts = true
      }
      #expect(try await ledger.record(answer).recorded?.entitlement.tier == "pro")
      #expect(try await ledger.receipts(mentioning: "1").map(\.isErased) == [true])
      try await isSound(scratch)
    }
  }

  // MARK: The app's row

  @Test func `the outbox keeps the ID until the row is reset`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await Anna.fill(ledger)
      let former = try #require(try await ledger.waitingUpdate(of: Anna.id))
      let generation = ledger.generation(of: Anna.id)
      let report = try await ledger.erase(Anna.erasure())
      #expect(report.resetsRow)
      #expect(ledger.generation(of: Anna.id) > generation && ledger.generation(of: "anybody") > 0)
      let update = try #require(try await ledger.waitingUpdate(of: Anna.id))
      #expect(update.isReset && update.user.rawValue == Anna.id.rawValue, "as the row has it")
      #expect(update.entitlement.reason == .noPurchases && update.version > former.version)
      try await ledger.removeTraces()
      #expect(
        try await scratch.fetch("SELECT key FROM outbox WHERE reset IS NOT NULL", as: String.self) == [annasAccount])
      try await isSound(scratch)
      // A second erasure changes nothing about that, and neither does a crash.
      let again = try await ledger.erase(Anna.erasure())
      #expect(again.resetsRow && again.events == 0)
      await ledger.close()
      let reopened = try await scratch.open()
      let claimed = try await reopened.claimUpdates(dueAt: clock(1e6), until: at(2e6), limit: 50)
      #expect(claimed.filter(\.isReset).map(\.user) == [Anna.id])
      try await reopened.settleUpdate(of: Anna.id, version: update.version, isDoubtful: false, confirmingAt: nil)
      try await expectNoTraces(scratch, of: reopened)
      try await isSound(scratch)
      await reopened.close()
    }
  }

  @Test func `where there is no row, nothing waits for one`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry(Anna.id, [evidence("1")], rules: rules))
      _ = try await ledger.erase(Anna.erasure())
      let update = try #require(try await ledger.waitingUpdate(of: Anna.id))
      try await ledger.missUpdate(of: Anna.id, version: update.version, retryAt: at(1e6))
      #expect(try await ledger.waitingUpdate(of: Anna.id) == nil)
      try await expectNoTraces(scratch, of: ledger)
    }
  }

  @Test func `an erased user who comes back is a new user, whose row goes on from the reset`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry(Anna.id, [evidence("1", time: 100)], rules: rules))
      _ = try await ledger.erase(Anna.erasure())
      let reset = try #require(try await ledger.waitingUpdate(of: Anna.id))
      _ = try await ledger.run(
        Give(
          user: Anna.id, kind: .support, tier: "pro", startsAt: at(9_500), endsAt: at(99_000), author: "desk",
          requestID: "give", evaluationContext: reevaluated(at: 9_500)))
      let update = try #require(try await ledger.waitingUpdate(of: Anna.id))
      #expect(!update.isReset && update.entitlement.tier == "pro" && update.version > reset.version)
      #expect(try await ledger.profile(of: Anna.id)?.version == 1, "the history begins anew")
      #expect(try await ledger.timeline(of: Anna.id, before: nil, limit: 10).events.count == 1)
      try await isSound(scratch)
    }
  }

  // MARK: The history

  @Test func `but for an erasure the history cannot be changed, and in one its facts cannot`() async throws {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    _ = try await ledger.record(entry("anna", [evidence("1")], rules: rules))
    await ledger.close()
    let erasing = "BEGIN; INSERT INTO memo (name, text) VALUES ('erasing', '');"
    for sql in [
      "UPDATE event SET user_id = 'x'", "\(erasing) UPDATE event SET entitlement = '{}'; COMMIT",
      "\(erasing) UPDATE event SET recorded_at = 0; COMMIT", "\(erasing) UPDATE event SET version = 7; COMMIT",
      "\(erasing) DELETE FROM event; COMMIT",
    ] {
      let error = await #expect(throws: (any Error).self, "\(sql)") { try await scratch.change(sql) }
      #expect(error.map { "\($0)" }?.contains("append-only") == true)
    }
    try await scratch.change(
      "\(erasing) UPDATE event SET user_id = 'x', request_id = 'y'; DELETE FROM memo WHERE name = 'erasing'; COMMIT")
    #expect(try await scratch.rows("SELECT DISTINCT user_id FROM event") == [["x"]])
  }
}

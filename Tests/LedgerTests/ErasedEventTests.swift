import Entitlements
import LedgerFixtures
import Testing

@testable import Ledger

/// The events for others of a user who is erased.
@Suite struct ErasedEventTests {
  private static let opened = AppEvent(user: Anna.id, type: "opened", at: at(1), properties: "{}")

  @Test func `no receiver gets an erased user's events any more, and others' events do not name her`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await Anna.fill(ledger)
      let before = try await ledger.changeEvents(after: 0, limit: 100)
      let hers = before.filter { $0.user == Anna.id || $0.user == Anna.alias }
      #expect(hers.count > 5 && before.contains { $0.user == "ben" && $0.detail.to == Anna.id })
      let report = try await ledger.erase(Anna.erasure(hasRows: false))
      #expect(report.changeEvents == hers.count)
      let after = try await ledger.changeEvents(after: 0, limit: 100)
      #expect(after.map(\.sequence) == before.filter { !hers.contains($0) }.map(\.sequence))
      for event in after {
        let names = [event.user, event.detail.from, event.detail.to].compactMap(\.self)
        #expect(!names.contains(Anna.id) && !names.contains(Anna.alias))
      }
      let invited = try #require(after.first { $0.type == "invited" })
      #expect(invited.detail.properties == #"{"whom":"(erased)","by":"app/(erased)"}"#)
      let work = try await ledger.webhookWork(of: "shop", dueAt: clock(1_000), due: 100, fresh: 100)
      #expect(work.fresh.isEmpty && work.due.allSatisfy { $0.event.user != Anna.id } && !work.due.isEmpty)
      #expect(try await ledger.webhookStatus("shop")?.waiting == after.count)
    }
  }

  @Test func `a number is not given again, though its event was hers`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      try await ledger.record([Self.opened], at: clock(1))
      _ = try await ledger.erase(Anna.erasure(hasRows: false))
      #expect(try await ledger.changeEvents(after: 0, limit: 10).isEmpty)
      #expect(try await ledger.webhookStatus("shop")?.oldest == nil)
      try await ledger.record([AppEvent(user: "ben", type: "opened", at: at(2), properties: "{}")], at: clock(2))
      #expect(try await ledger.changeEvents(after: 0, limit: 10).map(\.sequence) == [2])
      // With another one after it there is nothing to keep.
      _ = try await ledger.erase(Anna.erasure(hasRows: false))
      _ = try await ledger.erase(Anna.erasure("ben", hasRows: false))
      #expect(try await ledger.newestChangeEvent() == 2)
    }
  }

  @Test func `an event that was being sent meanwhile is not kept to be sent again`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      try await ledger.record([Self.opened], at: clock(1))
      let sent = try #require(try await ledger.webhookWork(of: "shop", dueAt: clock(2), due: 1, fresh: 1).fresh.first)
      _ = try await ledger.erase(Anna.erasure(hasRows: false))
      try await ledger.settleWebhook(
        "shop", [WebhookResult(of: sent, .failed(attempts: 1, due: at(3), problem: "answered 503"))],
        through: sent.sequence, isGone: false, at: clock(2))
      let status = try #require(try await ledger.webhookStatus("shop"))
      #expect(status.waiting == 0 && status.dead == 0)
      #expect(try await ledger.redeliver(.event(sent.place), to: "shop") == .unknown)
    }
  }

  @Test func `later changes of an erased user's purchase make no event, until another user owns it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry(Anna.id, [evidence("1", expires: 1_000)], rules: rules))
      _ = try await ledger.erase(Anna.erasure(hasRows: false))
      _ = try await ledger.run(
        notification("n1", [part("1", "t2", reported: 9_500, expires: 99_000)], received: 9_500))
      let kept = try #require(try await ledger.ownedPurchases("1").first)
      #expect(kept.evidence.purchases.contains { $0.transactionID == "t2" })
      #expect(try await ledger.changeEvents(after: 0, limit: 10).isEmpty)
      _ = try await ledger.run(moving("1", to: "ben", at: 9_600))
      let told = try await ledger.changeEvents(after: 0, limit: 10)
      #expect(told.allSatisfy { $0.user == "ben" })
      #expect(told.first { $0.type == "subscription.transferred" }?.detail.from?.isErased == true)
    }
  }
}

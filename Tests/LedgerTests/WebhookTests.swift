import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

/// The events that receivers were told, and those that wait.
@Suite struct WebhookTests {
  /// Events `e1`, `e2`, … of users, at seconds 1, 2, …
  private func events(_ ledger: Ledger, of users: UserID...) async throws {
    let first = try await ledger.newestChangeEvent()
    for (index, user) in users.enumerated() {
      let number = Int(first) + index + 1
      try await ledger.record(
        [AppEvent(user: user, type: "e\(number)", at: at(Double(number)), properties: "{}")], at: clock(Double(number)))
    }
  }

  private func work(_ ledger: Ledger, at seconds: Double = 100, due: Int = 10, fresh: Int = 10) async throws
    -> WebhookWork
  {
    try await ledger.webhookWork(of: "shop", dueAt: clock(seconds), due: due, fresh: fresh)
  }

  private func settle(
    _ ledger: Ledger, _ results: [WebhookResult], through: Int64? = nil, isGone: Bool = false, at seconds: Double = 100
  ) async throws {
    try await ledger.settleWebhook("shop", results, through: through, isGone: isGone, at: clock(seconds))
  }

  @Test func `a new receiver is told of what comes, page by page`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await events(ledger, of: "anna")
      #expect(try await !work(ledger).isEnabled)
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      #expect(try await work(ledger).fresh.isEmpty)
      try await events(ledger, of: "anna", "ben", "carl")
      let page = try await work(ledger, fresh: 2)
      #expect(page.isEnabled && page.fresh.map(\.type) == ["e2", "e3"] && page.blocked.isEmpty && page.due.isEmpty)
      #expect(try await ledger.webhookStatus("shop")?.oldest == at(2))
      try await settle(ledger, page.fresh.map { WebhookResult(of: $0, .delivered) }, through: 3)
      #expect(try await work(ledger, fresh: 2).fresh.map(\.type) == ["e4"])
      // An older record of the same changes nothing.
      try await settle(ledger, [], through: 1)
      #expect(try await work(ledger, fresh: 2).fresh.map(\.type) == ["e4"])
    }
  }

  @Test func `an event says when its period began, and its price and offer, as known then`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      for (number, source) in [EvidenceSource.verifyReceipt, .serverAPI, .serverAPI].enumerated() {
        var one = evidence("1", time: Double(number) * 900, expires: Double(number + 1) * 1_000)
        (one.source, one.purchases[0].purchaseDate) = (source, at(Double(number) * 1_000 - 100))
        if source == .serverAPI {
          one.purchases[0].sale = Purchase.Sale(
            price: Int64(number) * 4_990, currency: "EUR", storefront: "DEU", offerType: 2, offerPeriod: "P1M",
            offerID: "spring", revocationPercentage: 45_000)
        }
        _ = try await ledger.record(entry("anna", [one], rules: rules))
      }
      _ = try await ledger.record(entry("ben", [evidence("2", expires: 1_000)], rules: rules))
      try await events(ledger, of: "anna")
      func begins() async throws -> [Date?] {
        let work = try await work(ledger)
        return (work.due.map(\.event) + work.fresh).map(\.purchasedAt)
      }
      #expect(try await begins() == [at(-100), at(900), at(1_900), at(-100), nil])
      let sales = try await work(ledger).fresh.map(\.sale)
      #expect(sales.map { $0?.price } == [nil, 4_990, 9_980, nil, nil])
      #expect(sales[1]?.offerID == "spring" && sales[1]?.revocationPercentage == 45_000)
      let first = try #require(try await work(ledger).fresh.first)
      try await settle(
        ledger, [WebhookResult(of: first, .failed(attempts: 1, due: at(100), problem: "http_500"))],
        through: first.sequence)
      #expect(try await begins().first == at(-100))
    }
  }

  @Test func `a user's first undelivered event goes first, when it is due`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      try await events(ledger, of: "anna", "anna", "ben", "anna")
      let all = try await work(ledger).fresh
      try await settle(
        ledger,
        [
          WebhookResult(of: all[0], .failed(attempts: 1, due: at(200), problem: "http_500")),
          WebhookResult(of: all[1], .waits), WebhookResult(of: all[2], .delivered),
        ], through: 3)
      var now = try await work(ledger)
      #expect(now.due.isEmpty && now.fresh.map(\.type) == ["e4"] && now.blocked == ["anna"])
      try await settle(ledger, [WebhookResult(of: all[3], .waits)], through: 4)
      #expect(try await work(ledger, at: 199).due.isEmpty)
      now = try await work(ledger, at: 200)
      #expect(now.due.map(\.event.type) == ["e1"] && now.due.first?.attempts == 1)
      #expect(try await ledger.webhookStatus("shop")?.waiting == 3)
      #expect(try await ledger.webhookStatus("shop")?.problem == "http_500")
      #expect(try await ledger.webhookStatus("shop")?.oldest == at(1))
      // An event that is given up holds up nothing.
      try await settle(ledger, [WebhookResult(of: all[0], .dead(attempts: 10, problem: "timed_out"))], at: 300)
      #expect(try await work(ledger, at: 300).due.map(\.event.type) == ["e2"])
      let dead = try await ledger.deadLetters(of: "shop", after: 0, limit: 10)
      #expect(dead.map(\.event.type) == ["e1"] && dead.first?.attempts == 10 && dead.first?.problem == "timed_out")
      #expect(dead.first?.failedAt == at(300))
      #expect(try await ledger.deadLetters(of: "shop", after: 1, limit: 10).isEmpty)
      // An event that was not given up cannot be discarded.
      #expect(try await ledger.redeliver(.discard(all[1].place), to: "shop") == .unknown)
      // Redelivered it is the first again.
      #expect(try await ledger.redeliver(.dead, to: "shop") == .begun(1))
      let again = try await work(ledger, at: 300).due
      #expect(again.map(\.event.type) == ["e1"] && again.first?.attempts == 0)
      for event in all.filter({ $0.user == "anna" }) {
        try await settle(ledger, [WebhookResult(of: event, .delivered)])
      }
      #expect(try await ledger.webhookStatus("shop") == WebhookStatus())
    }
  }

  @Test func `an event that cannot be read is among the others, and can be given up and discarded`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      try await events(ledger, of: "anna", "ben", "carl")
      for (column, sequence) in [("data", 1), ("sale", 2)] {
        let text = column == "data" ? #"{"given":1}"# : "[{}]"
        try await scratch.change("UPDATE change_event SET \(column) = '\(text)' WHERE sequence = \(sequence)")
      }
      let fresh = try await work(ledger).fresh
      #expect(fresh.map(\.type) == ["e1", "e2", "e3"] && fresh.map(\.isUnreadable) == [true, true, false])
      try await settle(
        ledger, fresh.prefix(2).map { WebhookResult(of: $0, .failed(attempts: 1, due: at(50), problem: "x")) },
        through: 3)
      #expect(try await work(ledger).due.map(\.event.isUnreadable) == [true, true])
      try await settle(
        ledger, fresh.prefix(2).map { WebhookResult(of: $0, .dead(attempts: 1, problem: "unreadable")) })
      #expect(try await work(ledger).due.isEmpty)
      #expect(try await ledger.deadLetters(of: "shop", after: 0, limit: 10).map(\.event.user) == ["anna", "ben"])
      #expect(try await ledger.redeliver(.discard(fresh[0].place), to: "shop") == .begun(0))
      // An export is whole, or none.
      await #expect(throws: LedgerError.self) { try await ledger.changeEvents(ofKey: "anna", after: 0) }
      #expect(try await ledger.changeEvents(ofKey: "carl", after: 0).events.count == 1)
    }
  }

  @Test func `an event that was given up is discarded for one receiver, which that does not enable`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      try await events(ledger, of: "anna")
      let event = try #require(try await work(ledger).fresh.first)
      try await settle(
        ledger, [WebhookResult(of: event, .dead(attempts: 10, problem: "http_400"))], through: 1, isGone: true)
      for outcome in [Redelivery.Outcome.begun(0), .unknown] {
        #expect(try await ledger.redeliver(.discard(event.place), to: "shop") == outcome)
      }
      let status = try #require(try await ledger.webhookStatus("shop"))
      #expect(status.dead == 0 && status.waiting == 0 && !status.isEnabled)
    }
  }

  @Test func `a receiver that is gone gets nothing, until it is redelivered to or has another URL`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      try await events(ledger, of: "anna")
      try await settle(ledger, [], isGone: true)
      #expect(try await work(ledger).isEnabled == false)
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      #expect(try await work(ledger).isEnabled == false)
      try await ledger.keepWebhooks(["shop": "https://shop.example/new"])
      #expect(try await work(ledger).fresh.map(\.type) == ["e1"])
      try await settle(ledger, [], isGone: true)
      #expect(try await ledger.redeliver(.nothing, to: "shop") == .begun(0))
      #expect(try await work(ledger).fresh.map(\.type) == ["e1"])
      let place = try #require(try await ledger.changeEvents(after: 0, limit: 1).first?.place)
      #expect(try await ledger.redeliver(.event(place), to: "shop") == .begun(1))
      #expect(try await work(ledger).due.map(\.event.type) == ["e1"])
      // An event that the receiver does not take is not promised, and enables nothing.
      try await settle(ledger, [], isGone: true)
      #expect(try await ledger.redeliver(.event(place), to: "shop") { $0 != "e1" } == .untaken(type: "e1"))
      #expect(try await work(ledger).isEnabled == false)
      // Another number, and another event of the same number.
      for id in ["evt_\(place.recordedAt)_9", "evt_2_1"] {
        let other = try #require(ChangeEvent.Place(id: id))
        #expect(try await ledger.redeliver(.event(other), to: "shop") == .unknown)
      }
    }
  }

  @Test func `a receiver that is named no longer is forgotten, and so is what is no longer kept`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.keepWebhooks(["shop": "https://shop.example/", "other": "https://other.example/"])
      try await events(ledger, of: "anna", "ben", "carl")
      let all = try await work(ledger).fresh
      try await settle(ledger, all.map { WebhookResult(of: $0, .dead(attempts: 10, problem: "x")) }, through: 3)
      #expect(try await ledger.pruneChangeEvents(before: at(2), limit: 10) == 1)
      #expect(try await ledger.deadLetters(of: "shop", after: 0, limit: 10).map(\.event.type) == ["e2", "e3"])
      let forgotten = try await ledger.keepWebhooks(["other": "https://other.example/"])
      #expect(forgotten.mapValues(\.dead) == ["shop": 2])
      #expect(try await scratch.fetch("SELECT name FROM webhook", as: String.self) == ["other"])
      #expect(try await scratch.fetch("SELECT count(*) FROM webhook_delivery", as: Int.self) == [0])
      #expect(try await ledger.webhookStatus("shop") == nil)
    }
  }

  @Test func `undelivered events are counted up to a thousand, tried or not, as far as the receiver takes them`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.keepWebhooks(["shop": "https://shop.example/"])
      try await events(ledger, of: "anna", "ben", "anna", "carl", "ben")
      let all = try await work(ledger).fresh
      try await settle(
        ledger, [WebhookResult(of: all[0], .failed(attempts: 1, due: at(200), problem: "http_500"))], through: 1)
      #expect(try await ledger.webhookStatus("shop")?.waiting == 5)
      let some = try #require(try await ledger.webhookStatus("shop") { $0 >= "e4" })
      #expect(some.waiting == 3 && some.oldest == at(1), "what was tried waits, whatever is wanted by now")
      try await settle(ledger, [WebhookResult(of: all[0], .delivered)])
      let wanted = try #require(try await ledger.webhookStatus("shop") { $0 >= "e4" })
      #expect(wanted.waiting == 2 && wanted.oldest == at(4))
      let unwanted = try #require(try await ledger.webhookStatus("shop") { _ in false })
      #expect(unwanted.waiting == 0 && unwanted.oldest == nil)
      try await ledger.record(
        (0..<1_200).map { _ in AppEvent(user: "dora", type: "e", at: at(9), properties: "{}") }, at: clock(9))
      #expect(try await ledger.webhookStatus("shop")?.waiting == 1_000)
    }
  }
}

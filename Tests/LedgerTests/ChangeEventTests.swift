import Access
import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

/// Events for others, as they are recorded.
@Suite struct ChangeEventTests {
  private func lines(_ ledger: Ledger, after sequence: Int64 = 0) async throws -> [String] {
    try await ledger.changeEvents(after: sequence, limit: 1_000).map { "\($0.user) \($0.type)" }
  }

  private func record(
    _ ledger: Ledger, _ user: UserID = "anna", _ evidence: SubscriptionEvidence..., ownership: OwnershipPolicy = .keep
  ) async throws {
    _ = try await ledger.record(entry(user, evidence, ownership: ownership, rules: rules))
  }

  @Test func `a purchase, its renewal and its end make one event each, with both verdicts`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await record(ledger, "anna", evidence("1", expires: 1_000))
      try await record(ledger, "anna", evidence("1", expires: 1_000))
      try await record(ledger, "anna", evidence("1", time: 900, expires: 2_000))
      var over = evidence("1", time: 2_100, expires: 2_000)
      over.renewals = [RenewalInfo(originalTransactionID: "1", autoRenews: false, expirationIntent: 1)]
      try await record(ledger, "anna", over)
      let events = try await ledger.changeEvents(after: 0, limit: 10)
      #expect(events.map(\.type) == ["subscription.started", "subscription.renewed", "subscription.expired"])
      #expect(events.map(\.entitlement?.expiresAt) == [at(1_000), at(2_000), at(2_000)])
      #expect(events.map(\.former?.expiresAt) == [nil, at(1_000), at(2_000)])
      #expect(events.map(\.entitlement?.tier) == ["pro", "pro", "free"])
      #expect(events.allSatisfy { $0.at == at(5_000) && $0.recordedAt == at(5_000) })
      #expect(try await ledger.changeEvents(after: events[1].sequence, limit: 10) == [events[2]])
      #expect(try await ledger.changeEvents(after: 0, limit: 1) == [events[0]])
      #expect(try await ledger.newestChangeEvent() == events[2].sequence)
    }
  }

  @Test func `the newest events of some types are read backwards, page by page`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 1...5 {
        let user = UserID("user-\(number)")
        try await record(ledger, user, evidence("\(number)", expires: 1_000))
        try await ledger.record([AppEvent(user: user, type: "seen", at: at(5_000), properties: "{}")], at: clock(5_000))
      }
      let types: [EventType] = [.subscriptionStarted, .trialStarted]
      var (seen, place) = ([String](), Int64?.none)
      repeat {
        let page = try await ledger.newestChangeEvents(of: types, before: place, limit: 2)
        seen += page.events.map(\.user.rawValue)
        place = page.before
      } while place != nil
      #expect(seen == ["user-5", "user-4", "user-3", "user-2", "user-1"])
      let refunds = try await ledger.newestChangeEvents(of: [.subscriptionRefunded], before: nil, limit: 2)
      #expect(refunds.events.isEmpty && refunds.before == nil)
      let first = try await ledger.newestChangeEvents(of: types, before: 1, limit: 2)
      #expect(first.events.isEmpty && first.before == nil)
    }
  }

  @Test func `a look for the newest events goes back some thousands, and says where to go on`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await record(ledger, "anna", evidence("1", expires: 1_000))
      let events = (0..<50).map { _ in AppEvent(user: "ben", type: "seen", at: at(5_000), properties: "{}") }
      for _ in 0..<(Int(NewestChanges.reach) / 50) { try await ledger.record(events, at: clock(5_000)) }
      let near = try await ledger.newestChangeEvents(of: [.subscriptionStarted], before: nil, limit: 1)
      #expect(near.events.isEmpty && near.before == 2)
      let far = try await ledger.newestChangeEvents(of: [.subscriptionStarted], before: near.before, limit: 1)
      #expect(far.events.map(\.user) == ["anna"] && far.before == nil)
    }
  }

  @Test func `an ID names its event`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await record(ledger, "anna", evidence("1"))
      let event = try #require(try await ledger.changeEvents(after: 0, limit: 1).first)
      #expect(event.id == "evt_\(milliseconds(5_000))_1")
      #expect(ChangeEvent.Place(id: event.id) == event.place)
      let others = [
        "", "1", "evt_1", "evt_x_1", "evt_1_x", "evt_1_2_3", "evt_1_+2", "evt_01_2", "msg_1_2", "evt_1_0", "evt_1_-5",
        "evt_0_\(Int64.min)",
      ]
      for id in others {
        #expect(ChangeEvent.Place(id: id) == nil)
      }
    }
  }

  @Test func `a place that another ledger gave is none, and one that is not kept any more goes on`() async throws {
    try await Scratch.withLedger { ledger, _ in
      func report(at seconds: Double) async throws {
        try await ledger.record([AppEvent(user: "ben", type: "seen", at: at(0), properties: "{}")], at: clock(seconds))
      }
      for seconds in [1.0, 2, 3] { try await report(at: seconds) }
      func follow(_ number: Int64, recordedAt seconds: Double) async throws -> [Int64]? {
        let place = try #require(ChangeEvent.Place(id: "evt_\(milliseconds(seconds))_\(number)"))
        return try await ledger.changeEvents(following: place, limit: 10)?.map(\.sequence)
      }
      #expect(try await follow(1, recordedAt: 1) == [2, 3])
      #expect(try await follow(3, recordedAt: 3) == [])
      // The ledger was restored: the number is another event's, or not given again yet.
      #expect(try await follow(2, recordedAt: 2.001) == nil)
      #expect(try await follow(4, recordedAt: 4) == nil)
      #expect(try await ledger.pruneChangeEvents(before: at(3), limit: 10) == 2)
      #expect(try await follow(1, recordedAt: 1) == [3])
    }
  }

  /// A restore, then the erasure of an event that came after it.
  @Test func `a place in a gap is another ledger's where the event before it was recorded later`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for seconds in [1.0, 20, 40, 60] {
        try await ledger.record([AppEvent(user: "ben", type: "seen", at: at(0), properties: "{}")], at: clock(seconds))
      }
      func follow(_ number: Int64, recordedAt milliseconds: Int64) async throws -> [Int64]? {
        let place = try #require(ChangeEvent.Place(id: "evt_\(milliseconds)_\(number)"))
        return try await ledger.changeEvents(following: place, limit: 10)?.map(\.sequence)
      }
      try await scratch.change("DELETE FROM change_event WHERE sequence = 3")
      #expect(try await follow(3, recordedAt: milliseconds(40)) == [4])
      // Two clocks differ.
      #expect(try await follow(3, recordedAt: milliseconds(10)) == [4])
      for lost in [milliseconds(9.999), 1, .min] { #expect(try await follow(3, recordedAt: lost) == nil) }
      #expect(try await follow(3, recordedAt: .max) == [4])
      // Nothing older is kept.
      try await scratch.change("DELETE FROM change_event WHERE sequence < 3")
      #expect(try await follow(2, recordedAt: milliseconds(1)) == [4])
    }
  }

  @Test func `an event that is reported again counts no bytes, and is refused on no full day`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      func report(_ id: String, _ length: Int = 0) async throws -> Int {
        let properties = #"{"a":"\#(String(repeating: "a", count: length))"}"#
        return try await ledger.record(
          [AppEvent(user: "ben", type: "seen", at: at(0), properties: properties, id: id)], at: clock(0))
      }
      func bytes() async throws -> [Int] { try await scratch.fetch("SELECT bytes FROM reported_bytes") }
      #expect(try await report("1", AppEvent.mostBytes / 2) == 0)
      let first = try await bytes()
      #expect(try await report("1", AppEvent.mostBytes / 2) == 0)
      #expect(try await bytes() == first)
      #expect(try await report("2", AppEvent.mostBytes) == 1)
      #expect(try await report("1", AppEvent.mostBytes) == 0)
      #expect(try await ledger.changeEvents(after: 0, limit: 10).map(\.detail.reportedID) == ["1"])
    }
  }

  @Test func `a purchase that decides again was told, one that ran beside another was not`() async throws {
    try await Scratch.withLedger { ledger, _ in
      func month(_ id: String, time: Double = 0) -> SubscriptionEvidence {
        var evidence = evidence(id, time: time, expires: 10_000)
        evidence.purchases[0].sale = Purchase.Sale(price: 4_990, currency: "USD")
        return evidence
      }
      func life(_ id: String, time: Double, refundedAt: Double? = nil) -> SubscriptionEvidence {
        var evidence = evidence(id, time: time, cancelled: refundedAt, product: forever)
        evidence.renewals = []
        evidence.purchases[0].expiresDate = nil
        evidence.purchases[0].sale = Purchase.Sale(price: 99_990, currency: "USD")
        return evidence
      }
      try await record(ledger, "anna", month("1"))
      try await record(ledger, "anna", life("2", time: 5))
      try await record(ledger, "anna", life("2", time: 20, refundedAt: 20))
      try await record(ledger, "ben", month("3"), life("4", time: 5))
      try await record(ledger, "ben", life("4", time: 20, refundedAt: 20))
      let events = try await ledger.changeEvents(after: 0, limit: 10)
      #expect(
        events.map { "\($0.user) \($0.type) \($0.detail.isTold ?? false)" } == [
          "anna subscription.started false", "anna subscription.product_changed false",
          "anna subscription.product_changed true", "ben subscription.started false",
          "ben subscription.product_changed false",
        ])
    }
  }

  @Test func `a refund is an event of its own, and nothing ends besides`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await record(ledger, "anna", evidence("1"))
      try await record(ledger, "anna", evidence("1", time: 10, cancelled: 5))
      #expect(try await lines(ledger) == ["anna subscription.started", "anna subscription.refunded"])
    }
  }

  @Test func `a purchase that goes to another user makes one event for each of both`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await record(ledger, "anna", evidence("1"))
      try await record(ledger, "ben", evidence("1", time: 1), ownership: .transfer)
      let events = try await ledger.changeEvents(after: 1, limit: 10)
      #expect(
        events.map { "\($0.user) \($0.type)" }.sorted() == [
          "anna subscription.transferred", "ben subscription.transferred",
        ])
      for event in events {
        #expect(event.detail.from == "anna" && event.detail.to == "ben")
        #expect(event.detail.purchase == key("1"))
      }
      _ = try await ledger.run(moving("1", to: "anna", at: 9))
      #expect(
        try await lines(ledger, after: 3).sorted() == [
          "anna subscription.transferred", "ben subscription.transferred",
        ])
    }
  }

  @Test func `a purchase that waits for its user, and is claimed, starts`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n1", [part("1", reported: 1)]))
      #expect(try await lines(ledger) == [])
      try await record(ledger, "anna", evidence("1", time: 2))
      #expect(try await lines(ledger) == ["anna subscription.started"])
    }
  }

  private func giving(_ tier: Tier = "pro", from start: Double = 0, for length: Double = 100) -> Give {
    Give(
      user: "anna", kind: .support, tier: tier, startsAt: at(start), endsAt: at(start + length), author: "desk",
      requestID: "grant", evaluationContext: reevaluated(at: start))
  }

  @Test func `a grant begins and ends, whether it decides or not`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await record(ledger, "anna", evidence("1", expires: 1_000))
      guard case .given(let record) = try await ledger.run(giving()) else { throw Unexpected() }
      _ = try await ledger.run(
        EndGiven(
          record.period.id, of: "anna", note: Note(author: "desk", text: "x", requestID: "r", recordedAt: clock(5)),
          reevaluated(at: 5)))
      _ = try await ledger.run(giving("premium", from: 10))
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 110)) == 1)
      let events = try await ledger.changeEvents(after: 0, limit: 10)
      #expect(
        events.map(\.type) == ["subscription.started", "grant.started", "grant.ended", "grant.started", "grant.ended"])
      #expect(events.map(\.detail.given?.tier) == [nil, "pro", "pro", "premium", "premium"])
      #expect(events[2].detail.endedAt == at(5) && events[4].detail.endedAt == nil)
      // An end says what the user still has.
      #expect(events.map(\.entitlement?.tier) == ["pro", nil, "pro", nil, "pro"])
    }
  }

  @Test func `a change that a grant of a higher tier covers is recorded all the same, and once`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await record(ledger, "anna", evidence("1", expires: 1_000))
      _ = try await ledger.run(giving("premium", for: 5_000))
      try await record(ledger, "anna", evidence("1", time: 900, expires: 2_000))
      var over = evidence("1", time: 2_100, expires: 2_000)
      over.renewals = [RenewalInfo(originalTransactionID: "1", autoRenews: false, expirationIntent: 1)]
      try await record(ledger, "anna", over)
      #expect(try await scratch.fetch("SELECT user_id FROM covered_verdict") == ["anna"])
      _ = try await ledger.endOverdueGiven(reevaluated(at: 5_000))
      #expect(
        try await lines(ledger) == [
          "anna subscription.started", "anna grant.started", "anna subscription.renewed", "anna subscription.expired",
          "anna grant.ended",
        ])
      let expired = try await ledger.changeEvents(after: 3, limit: 1).first
      #expect(expired?.detail.covered?.reason == .voluntary && expired?.detail.formerlyCovered?.expiresAt == at(2_000))
      #expect(try await scratch.fetch("SELECT user_id FROM covered_verdict", as: String.self) == [])
    }
  }

  private func start(
    _ ledger: Ledger, _ user: UserID = "anna", on device: DeviceID = "d1", of tier: Tier = "pro", at seconds: Double = 0
  ) async throws -> StartTrial.Outcome {
    try await ledger.run(
      StartTrial(
        TrialTerms(name: "week", tier: tier, length: .seconds(1_000)), user: user, device: Device(id: device),
        author: "the app", requestID: "r",
        evaluationContext: reevaluated(at: seconds)))
  }

  @Test func `a trial starts, and ends by its time`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await start(ledger)
      _ = try await start(ledger, at: 5)
      _ = try await ledger.endOverdueGiven(reevaluated(at: 1_000))
      let events = try await ledger.changeEvents(after: 0, limit: 10)
      #expect(events.map(\.type) == ["trial.started", "trial.expired"])
      #expect(events.map(\.detail.trial) == ["week", "week"] && events.map(\.detail.device) == ["d1", "d1"])
      #expect(events.map(\.detail.given?.endsAt) == [at(1_000), at(1_000)])
    }
  }

  @Test func `a purchase converts a trial, whose end then makes no event`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await start(ledger)
      try await record(ledger, "anna", evidence("1", time: 100, begin: 100, expires: 9_000))
      _ = try await ledger.endOverdueGiven(reevaluated(at: 1_000))
      #expect(try await lines(ledger) == ["anna trial.started", "anna trial.converted"])
    }
  }

  @Test func `a trial whose user has less after it ends with an event, whatever was bought or renewed`() async throws {
    try await Scratch.withLedger { ledger, _ in
      func bought(
        _ id: String, _ product: ProductID = pro, until end: Double = 9_000, cancelled: Double? = nil
      ) -> SubscriptionEvidence {
        evidence(id, time: 100, begin: 50, expires: end, cancelled: cancelled, product: product)
      }
      try await record(ledger, "renewed", evidence("1", expires: 60))
      var life = bought("5", forever)
      (life.renewals, life.purchases[0].expiresDate) = ([], nil)
      let cases: [(user: UserID, evidence: SubscriptionEvidence, hasBought: Bool)] = [
        ("renewed", bought("1"), false), ("lower", bought("2"), true), ("refunded", bought("3", cancelled: 80), false),
        ("lapsed", bought("4", until: 200), true), ("life", life, true),
      ]
      for (number, one) in cases.enumerated() {
        _ = try await start(ledger, one.user, on: DeviceID("d\(number)"), of: "premium")
        try await record(ledger, one.user, one.evidence)
        let known = try await ledger.profile(of: one.user)?.evidence ?? []
        let whole = try await ledger.includingPast(known, of: one.user)
        #expect(reevaluated(at: 100).hasBought(one.user, whole, since: at(0)) == one.hasBought, "\(one.user)")
      }
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 1_000)) == 5)
      let events = try await ledger.changeEvents(after: 0, limit: 50).filter { $0.type == "trial.expired" }
      #expect(Set(events.map(\.user)) == ["renewed", "lower", "refunded", "lapsed"])
    }
  }

  @Test func `a purchase that gives no access, or that a family member paid, leaves a trial its end`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await start(ledger)
      var coins = evidence("1", time: 100, begin: 100, product: "com.example.app.coins")
      coins.purchases[0].expiresDate = nil
      var shared = evidence("2", time: 100, begin: 100, expires: 200)
      shared.purchases[0].ownership = .familyShared
      try await record(ledger, "anna", coins, shared)
      _ = try await ledger.endOverdueGiven(reevaluated(at: 1_000))
      let lines = try await lines(ledger)
      #expect(lines.last == "anna trial.expired" && !lines.contains("anna trial.converted"), "\(lines)")
    }
  }

  @Test func `a refused trial makes one event a day of each user`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await start(ledger)
      for seconds in [1.0, 2, 86_400] { _ = try await start(ledger, "ben", at: seconds) }
      #expect(try await lines(ledger) == ["anna trial.started", "ben trial.refused"])
      _ = try await start(ledger, "ben", at: 86_401)
      _ = try await start(ledger, "carl", at: 86_401)
      let events = try await ledger.changeEvents(after: 2, limit: 10)
      #expect(events.map { "\($0.user) \($0.type)" } == ["ben trial.refused", "carl trial.refused"])
      #expect(events.allSatisfy { $0.detail.refusedBy == "device" && $0.detail.trial == "week" })
    }
  }

  @Test func `a reached limit makes one event in its window, and other refusals write nothing`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let feature = Feature(
        name: "questions", kind: .meter,
        values: ["free": .meter(try MeterRule.rules(["1 per day"])), "pro": .meter([])],
        tiers: ["free", "pro"])
      _ = try await ledger.run(consuming(feature))
      #expect(try await lines(ledger) == [])
      for seconds in [1.0, 2, 3] { _ = try await ledger.run(consuming(feature, at: seconds)) }
      let events = try await ledger.changeEvents(after: 0, limit: 10)
      #expect(events.map(\.type) == ["limit.reached"])
      let detail = try #require(events.first?.detail)
      #expect(detail.feature == "questions" && detail.tier == "free" && detail.current == 1 && detail.limit == 1)
      // The next day.
      for seconds in [86_400.0, 86_401] { _ = try await ledger.run(consuming(feature, at: seconds)) }
      #expect(try await lines(ledger) == ["anna limit.reached", "anna limit.reached"])
    }
  }

  @Test func `the bell rings after a commit with an event, and after no other`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let rings = ledger.bell.rings
      async let woken: Void = ledger.bell.wait(after: rings)
      try await record(ledger, "anna", evidence("1"))
      await woken
      #expect(ledger.bell.rings == rings + 1)
      try await record(ledger, "anna", evidence("1"))
      try await ledger.keepMemo("x", "y")
      #expect(ledger.bell.rings == rings + 1)
      // Too late to wait for.
      await ledger.bell.wait(after: rings)
      let waiting = Task { await ledger.bell.wait(after: rings + 1) }
      waiting.cancel()
      await waiting.value
    }
  }

  @Test func `the app's own events are kept in their order, by the name of the user`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.record(
        [
          AppEvent(user: "anna", type: "paywall_viewed", at: at(-60), properties: #"{"source":"home"}"#),
          AppEvent(user: "anna", type: "plan_selected", at: at(-50), properties: "{}"),
        ], at: clock(0))
      let events = try await ledger.changeEvents(after: 0, limit: 10)
      #expect(events.map(\.type) == ["paywall_viewed", "plan_selected"])
      #expect(events.map(\.at) == [at(-60), at(-50)] && events.allSatisfy { $0.recordedAt == at(0) })
      #expect(events.first?.detail.properties == #"{"source":"home"}"#)
      try await ledger.record([], at: clock(1))
      #expect(try await ledger.newestChangeEvent() == 2)
    }
  }

  @Test func `an event that is reported again is kept once, as long as it is kept`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      func report(_ user: UserID, _ type: String, _ id: String?) -> AppEvent {
        AppEvent(user: user, type: type, at: at(0), properties: "{}", id: id)
      }
      let batch = [
        report("anna", "paywall_viewed", "1"), report("anna", "plan_selected", "2"), report("anna", "again", "1"),
        report("anna", "unnamed", nil),
      ]
      try await ledger.record(batch, at: clock(0))
      try await ledger.record(batch + [report("ben", "paywall_viewed", "1")], at: clock(5))
      #expect(
        try await lines(ledger) == [
          "anna paywall_viewed", "anna plan_selected", "anna unnamed", "anna unnamed", "ben paywall_viewed",
        ])
      #expect(try await ledger.changeEvents(after: 0, limit: 3).map(\.detail.reportedID) == ["1", "2", nil])
      // An event that an anonymous customer's app reported before the sign-in comes again after it.
      let anonymous: UserID = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
      try await ledger.record([report(anonymous, "opened", "3")], at: clock(6))
      _ = try await ledger.run(JoinCustomer(anonymous, to: "anna", requestID: "join", reevaluated(at: 6)))
      try await ledger.record([report("anna", "opened", "3"), report(anonymous, "opened", "3")], at: clock(7))
      #expect(try await lines(ledger).count == 6)
      // The event is forgotten, and its ID with it.
      _ = try await ledger.pruneChangeEvents(before: at(6), limit: 10)
      #expect(try await scratch.rows("SELECT count(*) FROM reported_event") == [["1"]])
      try await ledger.record([report("anna", "paywall_viewed", "1")], at: clock(8))
      #expect(try await lines(ledger).last == "anna paywall_viewed")
    }
  }

  @Test func `money that comes after grace begins access again, of the same subscription`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let day = 86_400.0
      func state(_ time: Double, expires: Double, _ change: (inout RenewalInfo) -> Void) -> SubscriptionEvidence {
        var one = evidence("1", time: time, expires: expires)
        change(&one.renewals[0])
        return one
      }
      func events(at time: Double, _ evidence: SubscriptionEvidence) async throws -> [String] {
        let last = try await ledger.newestChangeEvent()
        _ = try await ledger.record(
          entry("anna", [evidence], rules: rules).with {
            $0.evaluatedAt = at(time); $0.recordedAt = clock(time)
          })
        return try await ledger.changeEvents(after: last, limit: 10).map(\.type)
      }
      #expect(try await events(at: 0, state(0, expires: 30 * day) { _ in }) == ["subscription.started"])
      let retry = { (info: inout RenewalInfo) in
        (info.isInBillingRetry, info.expirationIntent) = (true, 2)
        info.gracePeriodExpiresDate = at(46 * day)
      }
      #expect(
        try await events(at: 31 * day, state(31 * day, expires: 30 * day, retry)) == ["subscription.billing_issue"])
      #expect(try await events(at: 47 * day, state(47 * day, expires: 30 * day, retry)) == ["subscription.grace_ended"])
      #expect(try await events(at: 80 * day, state(80 * day, expires: 110 * day) { _ in }) == ["subscription.started"])
      let event = try #require(try await ledger.changeEvents(after: 3, limit: 1).first)
      #expect(event.former?.originalTransactionID == "1" && event.entitlement?.originalTransactionID == "1")
      // Within grace it is a renewal.
      #expect(
        try await events(
          at: 111 * day,
          state(111 * day, expires: 110 * day) {
            retry(&$0); $0.gracePeriodExpiresDate = at(126 * day)
          })
          == ["subscription.billing_issue"])
      #expect(
        try await events(at: 120 * day, state(120 * day, expires: 150 * day) { _ in }) == ["subscription.renewed"])
    }
  }

  @Test func `old events go, the newest stays, and no number comes twice`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for index in 0..<5 {
        try await ledger.record(
          [AppEvent(user: "anna", type: "e\(index)", at: at(0), properties: "{}")], at: clock(Double(index)))
      }
      #expect(try await ledger.pruneChangeEvents(before: at(0), limit: 10) == 0)
      #expect(try await ledger.pruneChangeEvents(before: at(3), limit: 2) == 2)
      #expect(try await ledger.pruneChangeEvents(before: at(3), limit: 2) == 1)
      #expect(try await lines(ledger) == ["anna e3", "anna e4"])
      #expect(try await ledger.pruneChangeEvents(before: at(100), limit: 10) == 1)
      #expect(try await ledger.pruneChangeEvents(before: at(100), limit: 10) == 0)
      try await ledger.record([AppEvent(user: "anna", type: "e5", at: at(9), properties: "{}")], at: clock(9))
      #expect(try await ledger.changeEvents(after: 0, limit: 10).map(\.sequence) == [5, 6])
    }
  }

  @Test(.ofTheFile) func `a verdict that is rolled back leaves no event`() async throws {
    let scratch = try Scratch()
    await (try await scratch.open()).close()
    let file = try SQLiteConnection(path: scratch.path)
    try file.write {
      try file.run("SAVEPOINT one")
      let answer = entry("anna", [evidence("1")], rules: rules)
      _ = try RecordOperation(prepared: PreparedEntry(answer), tables: LedgerTables(file)).run()
      #expect(try file.value(of: "SELECT count(*) FROM change_event") == 1)
      try file.run("ROLLBACK TO one; RELEASE one")
      #expect(try file.value(of: "SELECT count(*) FROM change_event") == 0)
    }
  }
}

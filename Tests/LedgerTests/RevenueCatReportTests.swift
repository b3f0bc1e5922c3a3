import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

extension RevenueCatReport {
  static let playKey = Store("play_store").key(.production, "GPA.1")

  static func event(
    _ change: StoreEvent.Change, id: String, at seconds: Double, user: UserID = "anna", from begin: Double = 0,
    until end: Double = 1_000
  ) -> StoreEvent {
    var event = StoreEvent(id: id, at: storeTime(seconds), change: change, user: user)
    event.product = pro
    event.transaction = TransactionID("GPA.1..\(Int(begin))")
    event.purchasedAt = storeTime(begin)
    event.expiresAt = storeTime(end)
    return event
  }

  static func report(
    _ content: Content, id: String, at seconds: Double, ownership: OwnershipPolicy = .transfer
  ) -> RevenueCatReport {
    RevenueCatReport(
      id: id, type: "RENEWAL", store: "play_store", environment: .production, at: storeTime(seconds), payload: "{}",
      content: content, ownership: ownership, evaluationContext: reevaluated(at: seconds), provisional: .seconds(60))
  }

  static func temporary(
    id: String, at seconds: Double, user: UserID = "anna", _ more: (inout StoreEvent) -> Void = { _ in }
  )
    -> RevenueCatReport
  {
    var event = StoreEvent(id: id, at: storeTime(seconds), change: .temporary, user: user)
    more(&event)
    return report(.temporary(.production, "play_store", event, nil), id: id, at: seconds)
  }

  static func purchase(_ event: StoreEvent, of key: SubscriptionKey = playKey) -> RevenueCatReport {
    report(.purchase(key, event), id: event.id, at: event.at.timeIntervalSince(storeTime(0)))
  }

  /// One of each kind.
  static var samples: [RevenueCatReport] {
    [
      purchase(event(.period, id: "1", at: 1)),
      report(.hint(key("9000"), event(.period, id: "2", at: 2)), id: "2", at: 2),
      temporary(id: "3", at: 3),
      report(.transfer(from: ["anna"], to: "bert"), id: "4", at: 4),
      report(.nothing, id: "5", at: 5),
    ]
  }
}

/// `at`, which the properties of a report shadow.
func storeTime(_ seconds: Double) -> Date { at(seconds) }

/// Events of RevenueCat's, as they are recorded.
@Suite struct RevenueCatReportTests {
  private func take(_ ledger: Ledger, _ report: RevenueCatReport) async throws -> String {
    switch try await ledger.run(report) {
    case .duplicate: "duplicate"
    case .recorded(let owner, let losers, let isForAnother):
      "recorded \(owner)" + losers.map { " from \($0)" }.joined() + (isForAnother ? " for another" : "")
    case .hint(let hint): "hint \(hint.user)"
    case .noted: "noted"
    }
  }

  @Test func `the newest of Apple's notifications and of RevenueCat's events are told apart`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for (number, seconds) in [10.0, 30].enumerated() {
        _ = try await ledger.run(notification("a\(number)", [part("7")], for: "anna", received: seconds))
      }
      for (number, seconds) in [20.0, 40].enumerated() {
        let event = RevenueCatReport.event(.period, id: "e\(number)", at: seconds)
        _ = try await ledger.run(RevenueCatReport.purchase(event))
      }
      _ = try await ledger.run(notification("z", [part("7")], for: "anna", received: 35))
      let counts = try await ledger.userCounts(at: clock(50))
      #expect(counts.newestNotification == at(35) && counts.newestRevenueCatReport == at(40))
    }
  }

  @Test func `a purchase is recorded with its owner, verdict, row and note of the event`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let report = RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "1", at: 1))
      #expect(try await take(ledger, report) == "recorded anna")
      #expect(try await take(ledger, report) == "duplicate")
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.tier == "pro" && profile.entitlement.source == .revenuecat)
      #expect(profile.version == 1 && profile.evidence.map(\.key) == [RevenueCatReport.playKey])
      #expect(try await ledger.waitingUpdate(of: "anna")?.entitlement.tier == "pro")
      let owned = try await ledger.ownedPurchases(RevenueCatReport.playKey.originalTransactionID)
      #expect(owned.map(\.owner) == ["anna"] && owned.first?.changes.count == 1)
      let lines = try await ledger.notifications(of: RevenueCatReport.playKey, limit: 5)
      #expect(lines.map(\.uuid) == ["revenuecat:1"] && lines.first?.subtype == "play_store")
      #expect(try await ledger.timeline(of: "anna", before: nil, limit: 10).events.count == 2)
      // It is nothing to ask Apple about.
      #expect(try await ledger.claimRechecks(dueAt: clock(1_000_000), limit: 10).isEmpty)
      #expect(try await ledger.receipts(of: "anna", limit: 10).isEmpty)
      try await isSound(scratch)
    }
  }

  @Test func `an event without a readable user counts for the owner, and for nobody where there is none`() async throws
  {
    try await Scratch.withLedger { ledger, scratch in
      let refund = RevenueCatReport.event(.refunded, id: "2", at: 2, user: .nobody)
      #expect(
        try await take(
          ledger, RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "0", at: 0, user: .nobody)))
          == "noted")
      _ = try await take(ledger, RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "1", at: 1)))
      #expect(try await take(ledger, RevenueCatReport.purchase(refund)) == "recorded anna")
      #expect(try await ledger.profile(of: "anna")?.entitlement.reason == .refunded)
      let hint = RevenueCatReport.report(.hint(key("9000"), refund), id: "3", at: 3)
      #expect(try await take(ledger, hint) == "noted")
      _ = try await ledger.record(entry("bert", [evidence("9000", expires: 900)], rules: rules))
      var second = hint
      second.id = "4"
      #expect(try await take(ledger, second) == "hint bert")
      #expect(try await ledger.profile(of: .nobody) == nil)
      try await isSound(scratch)
    }
  }

  @Test func `a purchase beside one at Apple's leaves it alone`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(entry("anna", [evidence("1", expires: 500)], rules: rules))
      _ = try await take(ledger, RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "1", at: 1)))
      #expect(try await ledger.profile(of: "anna")?.entitlement.source == .revenuecat)
      _ = try await ledger.record(entry("anna", [evidence("1", time: 5, expires: 2_000)], rules: rules))
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.source == .verifyReceipt && profile.evidence.count == 2)
      try await isSound(scratch)
    }
  }

  @Test func `any order of arrival gives the same rows, owners included`() async throws {
    var reports = [
      RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "1", at: 1)),
      RevenueCatReport.purchase(RevenueCatReport.event(.renewalOff, id: "2", at: 200)),
      RevenueCatReport.purchase(RevenueCatReport.event(.expired, id: "3", at: 1_001)),
      RevenueCatReport.purchase(
        RevenueCatReport.event(.period, id: "4", at: 1_100, user: "bert", from: 1_100, until: 2_100)),
      RevenueCatReport.report(.transfer(from: ["anna"], to: "carl"), id: "5", at: 1_200),
      RevenueCatReport.purchase(RevenueCatReport.event(.billingIssue, id: "6", at: 2_100, from: 1_100, until: 2_100)),
    ]
    for index in reports.indices { reports[index].evaluationContext = reevaluated(at: 2_200) }
    var states: Set<String> = []
    for _ in 0..<40 {
      let shuffled = (reports + reports.prefix(2)).shuffled()
      states.insert(
        try await Scratch.withLedger { ledger, scratch in
          for report in shuffled { _ = try await take(ledger, report) }
          try await isSound(scratch)
          let owned = try await ledger.ownedPurchases(RevenueCatReport.playKey.originalTransactionID)
          let profile = try await ledger.profile(of: "carl")
          var tiers: [String?] = []
          for user in ["anna", "bert"] as [UserID] {
            tiers.append(try await ledger.profile(of: user)?.entitlement.tier.rawValue)
          }
          let evidence = try #require(owned.first?.evidence)
          return
            "\(owned.map(\.owner)) \(profile.map { "\($0.entitlement.tier) \($0.entitlement.reason)" } ?? "-") "
            + "\(evidence.purchases) \(evidence.renewals) \(tiers.map { $0 == "pro" })"
        })
    }
    #expect(states.count == 1, "\(states)")
    #expect(states.first?.contains("pro billingRetry") == true, "\(states)")
  }

  @Test(
    arguments: [
      (.keep, ["anna", "anna"]), (.transfer, ["bert", "bert"]), (.transferIfInactive, ["anna", "bert"]),
    ] as [(OwnershipPolicy, [UserID])])
  func `a transfer moves what the policy lets it move, whatever came first`(
    policy: OwnershipPolicy, owners: [UserID]
  ) async throws {
    let other = RevenueCatReport.Store("play_store").key(.production, "GPA.2")
    var purchases = [
      RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "1", at: 1)),
      RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "2", at: -500, from: -500, until: -100), of: other),
      RevenueCatReport.purchase(RevenueCatReport.event(.expired, id: "3", at: -99, from: -500, until: -100), of: other),
    ]
    for index in purchases.indices { purchases[index].evaluationContext = reevaluated(at: 600) }
    var transfer = RevenueCatReport.report(
      .transfer(from: ["anna"], to: "bert"), id: "4", at: 500, ownership: policy)
    transfer.evaluationContext = reevaluated(at: 600)
    for reports in [
      purchases + [transfer], [transfer] + purchases, [purchases[2], transfer, purchases[1], purchases[0]],
    ] {
      try await Scratch.withLedger { ledger, scratch in
        for report in reports { _ = try await take(ledger, report) }
        for (key, owner) in zip([RevenueCatReport.playKey, other], owners) {
          #expect(try await ledger.ownedPurchases(key.originalTransactionID).map(\.owner) == [owner])
        }
        let tier = try await ledger.profile(of: "bert")?.entitlement.tier ?? "free"
        #expect(tier == (owners[0] == "bert" ? "pro" : "free"))
        try await isSound(scratch)
      }
    }
  }

  @Test func `a hint counts for nobody until Apple could not be asked, and goes with the answer`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let hint = RevenueCatReport.report(
        .hint(key("9000"), RevenueCatReport.event(.period, id: "1", at: 1)), id: "1", at: 1)
      #expect(try await take(ledger, hint) == "hint anna")
      #expect(try await ledger.profile(of: "anna") == nil)
      #expect(try await ledger.dueReports(at: clock(1), limit: 5).count == 1)
      try await ledger.run(PostponeReport(key("9000"), for: .seconds(60), until: at(30), reevaluated(at: 2)))
      let given = try #require(try await ledger.profile(of: "anna")?.entitlement)
      #expect(given.tier == "pro" && given.isProvisional && given.accessUntil == at(61))
      #expect(try await ledger.dueReports(at: clock(29), limit: 5).isEmpty)
      #expect(try await ledger.dueReports(at: clock(30), limit: 5).count == 1)
      // An event that came after the question keeps the hint.
      try await ledger.run(SettleReport(key("9000"), upTo: at(0.5), reevaluated(at: 31)))
      #expect(try await ledger.dueReports(at: clock(30), limit: 5).count == 1)
      try await ledger.run(SettleReport(key("9000"), upTo: at(1), reevaluated(at: 31)))
      #expect(try await ledger.dueReports(at: clock(1_000), limit: 5).isEmpty)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      try await isSound(scratch)
    }
  }

  @Test func `a hint that has come to its end is asked about when it is due, and not at once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let hint = RevenueCatReport.report(
        .hint(key("9000"), RevenueCatReport.event(.period, id: "1", at: 1)), id: "1", at: 1)
      _ = try await take(ledger, hint)
      for (now, due) in [(2, 30), (61, 90)] as [(Double, Double)] {
        try await ledger.run(PostponeReport(key("9000"), for: .seconds(60), until: at(due), reevaluated(at: now)))
        #expect(try await ledger.dueReports(at: clock(due - 1), limit: 5).isEmpty)
        #expect(try await ledger.dueReports(at: clock(due), limit: 5).count == 1)
      }
    }
  }

  @Test func `a report that cannot be read holds up no other, and is looked at again a day later`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for id in ["9000", "9001"] {
        _ = try await take(
          ledger, .report(.hint(key(id), RevenueCatReport.event(.period, id: id, at: 1)), id: id, at: 1))
      }
      try await scratch.change("UPDATE revenuecat_report SET events = '[{}]' WHERE original_transaction_id = '9000'")
      #expect(try await ledger.hasRevenueCatWork(dueAt: clock(1)))
      for (now, damaged) in [(1, [key("9000")]), (2, []), (86_401, [key("9000")])] {
        var unreadable: [SubscriptionKey] = []
        let due = try await ledger.dueReports(at: clock(Double(now)), limit: 5) { unreadable += $0 }
        #expect(due.count == 1 && unreadable == damaged, "\(now)")
      }
    }
  }

  @Test func `a purchase at another store that cannot be read is put off unread`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      var report = RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "1", at: 1))
      let turn: NextCheck = { _, _ in at(1_000) }
      report.nextTurn = turn
      _ = try await take(ledger, report)
      try await scratch.change("UPDATE revenuecat_purchase SET events = '[{}]'")
      let failure = await #expect(throws: LedgerError.self) {
        try await ledger.followed(RevenueCatReport.playKey, at: clock(1_000), turn)
      }
      guard case .unusable? = failure else {
        Issue.record("\(String(describing: failure))")
        return
      }
      try await ledger.postponeTurn(of: RevenueCatReport.playKey, until: at(2_000))
      #expect(try await ledger.revenueCatTurns(dueAt: clock(1_500), limit: 5).isEmpty)
    }
  }

  @Test func `a transfer that arrives after a later one leads where that one does`() async throws {
    let transfers = [
      RevenueCatReport.report(.transfer(from: ["anna"], to: "bert"), id: "4", at: 4),
      RevenueCatReport.report(.transfer(from: ["bert"], to: "anna"), id: "5", at: 5),
    ]
    for order in [transfers, transfers.reversed()] {
      try await Scratch.withLedger { ledger, scratch in
        _ = try await ledger.record(entry("anna", [evidence("9000")], rules: rules))
        for transfer in order { _ = try await take(ledger, transfer) }
        #expect(try await ledger.profile(of: "anna")?.evidence.map(\.key) == [key("9000")])
        #expect(try await ledger.profile(of: "bert")?.evidence.isEmpty != false)
        try await isSound(scratch)
      }
    }
  }

  @Test func `a hint raises nobody who does not have the purchase`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("bert", [evidence("9000", time: -900, expires: -500)], rules: rules))
      let hint = RevenueCatReport.report(
        .hint(key("9000"), RevenueCatReport.event(.period, id: "1", at: 1)), id: "1", at: 1)
      #expect(try await take(ledger, hint) == "hint bert")
      try await ledger.run(PostponeReport(key("9000"), for: .seconds(60), until: at(30), reevaluated(at: 2)))
      #expect(try await ledger.profile(of: "anna") == nil)
      #expect(try await ledger.profile(of: "bert")?.entitlement.isProvisional == true)
    }
  }

  @Test func `time alone is followed once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      var report = RevenueCatReport.purchase(RevenueCatReport.event(.period, id: "1", at: 1))
      let turn: NextCheck = { evidence, now in now < at(1_000) ? at(1_000) : nil }
      report.nextTurn = turn
      _ = try await take(ledger, report)
      #expect(try await ledger.revenueCatTurns(dueAt: clock(999), limit: 5).isEmpty)
      #expect(
        try await ledger.revenueCatTurns(dueAt: clock(1_000), limit: 5) == [
          RevenueCatTurn(key: RevenueCatReport.playKey, owner: "anna")
        ])
      try await ledger.followed(RevenueCatReport.playKey, at: clock(1_000), turn)
      #expect(try await ledger.revenueCatTurns(dueAt: clock(9_000), limit: 5).isEmpty)
    }
  }
}

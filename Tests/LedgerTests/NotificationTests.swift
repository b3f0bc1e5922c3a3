import Entitlements
import Ledger
import LedgerFixtures
import TestSupport
import Testing

/// The outcomes of notifications, each once.
@Suite struct NotificationTests {
  @Test func `a notification about somebody's purchase is merged, judged and told in the history`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(posted("anna", [part("1")]))
      let outcome = try await ledger.run(
        notification("n1", [part("1", "t2", reported: 900, begin: 1_000, expires: 2_000)]))
      let taken = try #require(outcome.recorded)
      #expect(taken.user == "anna")
      #expect(taken.recorded.changed && taken.recorded.losers.isEmpty && taken.recorded.write == .waiting)
      #expect(taken.recorded.entitlement.accessUntil == at(2_000))
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement == taken.recorded.entitlement)
      #expect(profile.version == 2)
      #expect(profile.evidence.map(\.evidenceTime) == [at(900)])
      #expect(profile.evidence.map(\.source) == [.notification])
      #expect(profile.evidence.first?.purchases.map(\.transactionID) == ["t1", "t2"])
      #expect(profile.evidence.first?.coverage == .partial(since: nil))
      let line = try #require(try await ledger.wholeHistory(of: "anna").first)
      #expect(line.requestID == "n1" && line.recordedAt == at(5_000))
      #expect(try await ledger.waitingUpdate(of: "anna")?.version == milliseconds(900))
      #expect(try await ledger.claimRechecks(dueAt: clock(1_999), limit: 5).isEmpty)
      #expect(try await ledger.claimRechecks(dueAt: clock(2_060), limit: 5).map(\.key) == [key("1")])
    }
  }

  @Test func `a forwarded notification waits for its receiver, in its purchase's order, and nobody else sees it`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.keepWebhooks(["shop": "https://shop.example"])
      for (uuid, id) in [("n1", "1"), ("n2", "2"), ("n3", "1"), ("n3", "1")] {
        var one = notification(uuid, [part(id, reported: 1)], payload: "signed \(uuid)")
        one.isForwarded = true
        _ = try await ledger.run(one)
      }
      _ = try await ledger.run(notification("n4", [part("1", reported: 2)]))
      var told = notification("n5", [])
      told.notice = StoreNotice(uuid: "n5", type: "RESCIND_CONSENT")
      _ = try await ledger.run(told)
      let work = try await ledger.webhookWork(of: "shop", dueAt: clock(9_000), due: 9, fresh: 9, withPayloads: true)
      #expect(work.fresh.map(\.payload) == ["signed n1", "signed n2", "signed n3", nil])
      #expect(work.fresh.prefix(3).allSatisfy { $0.type == EventType.forwarded })
      #expect(work.fresh.map(\.user) == ["production 1", "production 2", "production 1", .nobody])
      let shown = try await ledger.changeEvents(after: 0, limit: 9)
      #expect(shown.map(\.type) == ["apple.rescind_consent"] && shown.first?.detail.notice?.uuid == "n5")
    }
  }

  @Test func `a missed notification is evaluated as of its signature, and takes away nothing that was given since`()
    async throws
  {
    try await Scratch.withLedger { ledger, _ in
      for user in ["anna", "ben"] as [UserID] { _ = try await ledger.record(posted(user, [part(user.rawValue)])) }
      _ = try await ledger.run(
        Give(
          user: "anna", kind: .support, tier: "pro", startsAt: at(3_000), endsAt: at(90_000), author: "desk",
          note: "why", requestID: "grant", idempotencyKey: nil, evaluationContext: reevaluated(at: 3_000)))
      // A refund of 500 that is heard of at 5,000.
      for user in ["anna", "ben"] {
        _ = try await ledger.run(notification("n-\(user)", [part(user, reported: 600, cancelled: 500)]))
      }
      let anna = try #require(try await ledger.profile(of: "anna")).entitlement
      #expect(anna.tier == "pro" && anna.source == .grant && anna.explanation.evaluatedAt == at(3_000))
      let ben = try #require(try await ledger.profile(of: "ben")).entitlement
      #expect(ben.tier == "free" && ben.reason == .refunded && ben.explanation.evaluatedAt == at(600))
    }
  }

  @Test func `a notification is taken once, however often it comes`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(posted("anna", [part("1")]))
      #expect(try await ledger.run(notification("n1", [part("1", reported: 1, cancelled: 1)])).recorded != nil)
      #expect(try await ledger.run(notification("n1", [part("1", reported: 1, cancelled: 1)])).isDuplicate)
      let outcomes = try await withThrowingTaskGroup { group in
        for _ in 0..<50 { group.addTask { try await ledger.run(notification("n1", [part("1", reported: 2)])) } }
        return try await group.reduce(into: [NotificationOutcome]()) { $0.append($1) }
      }
      #expect(outcomes.count(where: \.isDuplicate) == 50)
      #expect(try await ledger.profile(of: "anna")?.evidence.map(\.evidenceTime) == [at(1)])
      #expect(try await ledger.wholeHistory(of: "anna").count == 2)
    }
  }

  @Test(.ofTheFile) func `a notification that is posted many times at once is taken once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let outcomes = try await withThrowingTaskGroup { group in
        for _ in 0..<200 { group.addTask { try await ledger.run(notification("n1", [part("1")])) } }
        return try await group.reduce(into: [NotificationOutcome]()) { $0.append($1) }
      }
      #expect(outcomes.count(where: \.isUnclaimed) == 1)
      #expect(outcomes.count(where: \.isDuplicate) == 199)
      #expect(ledger.statistics.commits < 200)
    }
  }

  @Test(.ofTheFile) func `a part that repeats what is known writes nothing but that it was taken`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      _ = try await ledger.record(posted("anna", [part("1")]))
      let again = try await ledger.run(notification("n1", [part("1")])).recorded
      #expect(again?.recorded.changed == false)
      #expect(try await ledger.wholeHistory(of: "anna").count == 1)
      let observer = try SQLiteFile(scratch.path)
      let version = try observer.dataVersion()
      for _ in 0..<3 { _ = try await ledger.record(posted("anna", [part("1")])) }
      _ = try await ledger.run(notification("n1", [part("1")]))
      #expect(try observer.dataVersion() == version)
      #expect(try await ledger.wholeHistory(of: "anna").count == 1)
    }
  }

  @Test func `a notification that tells of no purchase is noted`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let outcome = try await ledger.run(notification("n1", [], proof: nil))
      #expect(outcome.isNoted)
      #expect(try await ledger.run(notification("n1", [], proof: nil)).isDuplicate)
      let large = String(repeating: "x", count: NotificationEntry.payloadLimit + 1)
      #expect(try await ledger.run(notification("n2", [], proof: nil, payload: large)).isNoted)
      #expect(
        try await scratch.fetch("SELECT coalesce(payload, '-') FROM notification ORDER BY uuid") == ["signed", "-"])
    }
  }

  @Test func `the notifications about a purchase are listed, newest first`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(notification("n1", [part("1")], received: 10))
      _ = try await ledger.record(posted("anna", [part("1")]))
      _ = try await ledger.run(notification("n2", [part("1", reported: 5)], received: 11))
      _ = try await ledger.run(notification("n3", [part("2")], received: 12))
      let lines = try await ledger.notifications(of: key("1"), limit: 10)
      #expect(lines.map(\.uuid) == ["n2", "n1"])
      #expect(lines.map(\.outcome) == [.recorded, .unclaimed])
      #expect(lines.map(\.user) == ["anna", nil])
      #expect(lines.map(\.signedAt) == [at(5), at(0)])
      #expect(lines.map(\.receivedAt) == [at(11), at(10)])
      #expect(lines.first?.type == "DID_RENEW" && lines.first?.subtype == "BILLING_RECOVERY")
      #expect(try await ledger.notifications(of: key("1"), limit: 1).map(\.uuid) == ["n2"])
      #expect(try await ledger.notifications(of: key("1", .sandbox), limit: 1).isEmpty)
    }
  }

  // MARK: Forgetting

  /// Notes unsigned notifications, all at once.
  private func refuse(_ count: Int, _ ledger: Ledger) async throws {
    try await withThrowingTaskGroup { group in
      for number in 0..<count {
        group.addTask {
          try await ledger.noteRefused(
            .init(problem: "signature", payload: "p\(number)", receivedAt: clock(Double(number))))
        }
      }
      try await group.waitForAll()
    }
  }

  @Test func `old notifications are forgotten, a few at a time`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for number in 0..<5 { _ = try await ledger.run(notification("n\(number)", [], received: Double(number))) }
      try await ledger.noteRefused(.init(problem: "signature", payload: "x", receivedAt: clock(1)))
      try await ledger.noteRefused(.init(problem: "signature", payload: "y", receivedAt: clock(9)))
      #expect(try await ledger.pruneNotifications(before: at(0), limit: 2) == 0)
      #expect(try await ledger.pruneNotifications(before: at(3), limit: 2) == 2)
      #expect(try await ledger.pruneNotifications(before: at(3), limit: 2) == 1)
      #expect(try await ledger.pruneNotifications(before: at(3), limit: 2) == 0)
      #expect(try await scratch.fetch("SELECT uuid FROM notification ORDER BY uuid") == ["n3", "n4"])
      #expect(try await scratch.fetch("SELECT payload FROM refused_notification") == ["y"])
      #expect(try await ledger.run(notification("n0", [])).isNoted, "it may come again")
    }
  }

  @Test(.ofTheFile) func `only the newest of the unbelieved notifications are kept, each once`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let limit = RefusedNotification.limit
      try await refuse(limit + 100, ledger)
      #expect(try await scratch.fetch("SELECT count(*) FROM refused_notification") == [limit])
      let kept = try #require(
        try await scratch.fetch("SELECT payload FROM refused_notification LIMIT 1", as: String.self).first)
      let observer = try SQLiteFile(scratch.path)
      let version = try observer.dataVersion()
      for _ in 0..<10 { try await ledger.noteRefused(.init(problem: "again", payload: kept, receivedAt: clock(9e6))) }
      #expect(try observer.dataVersion() == version)
      let large = String(repeating: "é", count: RefusedNotification.payloadLimit)
      try await ledger.noteRefused(.init(problem: "too large", payload: large, receivedAt: clock(0)))
      #expect(
        try await scratch.fetch("SELECT max(length(CAST(payload AS BLOB))) FROM refused_notification")
          == [RefusedNotification.payloadLimit])
      #expect(try await scratch.fetch("SELECT count(*) FROM refused_notification") == [limit])
    }
  }

  @Test func `refused notifications that Apple signed stay, however many unsigned ones come`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.noteRefused(
        .init(problem: "another app", payload: "signed", isSigned: true, receivedAt: clock(0)))
      let limit = RefusedNotification.limit
      try await refuse(limit + 50, ledger)
      #expect(try await ledger.hasRefused("signed"))
      let counts = "SELECT count(*) FROM refused_notification GROUP BY is_signed ORDER BY is_signed"
      #expect(try await scratch.fetch(counts) == [limit, 1])
    }
  }

  @Test func `a refused notification with a zero in it is kept without the zero, and is known again`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await ledger.noteRefused(RefusedNotification(problem: "not a JWS", payload: "a\0b", receivedAt: clock(0)))
      #expect(try await ledger.hasRefused("a\0b"))
      #expect(try await !ledger.hasRefused("a\u{FFFD}b"))
      #expect(try await scratch.rows("SELECT payload FROM refused_notification") == [["a\u{FFFD}b"]])
    }
  }

  // MARK: Rechecks out of turn

  @Test func `a hint has Apple asked at once, about purchases that are known`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(posted("anna", [part("1", expires: 10_000)]))
      _ = try await ledger.record(posted("ben", [part("1", cancelled: -50, environment: .sandbox)]))
      #expect(try await ledger.claimRechecks(dueAt: clock(500), limit: 5).isEmpty)
      #expect(try await ledger.recheckSoon(["1", "1", "unheard-of"], at: clock(500)) == 2)
      #expect(try await ledger.recheckSoon([], at: clock(500)) == 0)
      #expect(try await ledger.claimRechecks(dueAt: clock(499), limit: 5).isEmpty)
      let claimed = try await ledger.claimRechecks(dueAt: clock(500), limit: 5)
      #expect(Set(claimed.map(\.key)) == [key("1"), key("1", .sandbox)])
      // One that was put off is due again; one that is due is not put off.
      #expect(try await ledger.recheckSoon(["1"], at: clock(510)) == 2)
      #expect(try await ledger.recheckSoon(["1"], at: clock(600)) == 2)
      #expect(try await ledger.claimRechecks(dueAt: clock(510), limit: 5).map(\.attempts) == [1, 1])
    }
  }

  @Test func `unscheduled purchases are scheduled when there is a new way to ask`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 0..<10 {
        // Of every other one nothing says that it is to be asked about.
        _ = try await ledger.record(
          posted(UserID("u\(number)"), [part("\(number)", cancelled: number % 2 == 0 ? nil : -50)]).with {
            $0.rules = rules
          })
      }
      #expect(try await ledger.scheduleMissing(by: checkedRules, at: clock(100), limit: 3) == 5)
      #expect(try await ledger.scheduleMissing(by: checkedRules, at: clock(100), limit: 3) == 0)
      var due = standIn
      due.nextCheck = { _, now in now }
      #expect(try await ledger.scheduleMissing(by: due, at: clock(100), limit: 4) == 5)
      #expect(try await ledger.claimRechecks(dueAt: clock(999), limit: 20).count == 5)
      #expect(try await ledger.claimRechecks(dueAt: clock(1_060), limit: 20).count == 5)
    }
  }
}

extension SQLiteFile {
  /// Changes when another connection has written.
  fileprivate func dataVersion() throws -> Int? { try first("PRAGMA data_version") }
}

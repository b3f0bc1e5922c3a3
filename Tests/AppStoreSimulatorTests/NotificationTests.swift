import Foundation
import Testing

@testable import AppStoreSimulator

@Suite("Notifications")
struct NotificationTests {
  /// `TYPE SUBTYPE product status`, the product without the app's name.
  private func summary(_ notification: SimulatedNotification) throws -> String {
    let payload = try CheckedJWS.payload(notification.signedPayload)
    let data = payload.object("data")
    let transaction = try CheckedJWS.payload(data.text("signedTransactionInfo"))
    return [
      payload.text("notificationType"), payload.text("subtype"),
      transaction.text("productId")?.replacing("com.example.app.", with: ""),
      (data["status"] as? Int).map { "\($0)" },
    ].compactMap(\.self).joined(separator: " ")
  }

  @Test("an eventful year is told from its start to its end")
  func eventfulYear() throws {
    let store = try Store()
    let told = try store.notifications(ReceiptOrder(scenario: .eventfulYear), days: 400)
    #expect(
      try told.map(summary) == [
        "SUBSCRIBED INITIAL_BUY pro.monthly 1",
        "DID_RENEW pro.monthly 1",
        "DID_RENEW pro.monthly 1",
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED pro.monthly 1",
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_ENABLED pro.monthly 1",
        "DID_RENEW pro.monthly 1",
        "DID_FAIL_TO_RENEW GRACE_PERIOD pro.monthly 4",
        "DID_RENEW BILLING_RECOVERY pro.monthly 1",
        "DID_RENEW pro.monthly 1",
        "DID_CHANGE_RENEWAL_PREF UPGRADE premium.monthly 1",
        "DID_RENEW premium.monthly 1",
        "REFUND premium.monthly 1",
        "DID_RENEW premium.monthly 1",
        "DID_CHANGE_RENEWAL_PREF DOWNGRADE premium.monthly 1",
        "DID_RENEW pro.monthly 1",
        "DID_FAIL_TO_RENEW pro.monthly 3",
        "DID_RENEW BILLING_RECOVERY pro.monthly 1",
        "DID_RENEW pro.monthly 1",
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED pro.monthly 1",
        "EXPIRED VOLUNTARY pro.monthly 2",
        "SUBSCRIBED RESUBSCRIBE pro.monthly 1",
        "REFUND pro.monthly 5",
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED pro.monthly 5",
      ])
    #expect(told.map(\.at) == told.map(\.at).sorted())
    #expect(Set(told.map(\.uuid)).count == told.count)
    #expect(Set(told.map(\.originalTransactionID)) == ["480000000010000"])
  }

  @Test(
    "each story has its end",
    arguments: [
      (Scenario.grace, ["GRACE_PERIOD_EXPIRED pro.monthly 3", "EXPIRED BILLING_RETRY pro.monthly 2"]),
      (.graceWithoutDate, ["GRACE_PERIOD_EXPIRED pro.monthly 3", "EXPIRED BILLING_RETRY pro.monthly 2"]),
      (.graceEnded, ["EXPIRED BILLING_RETRY pro.monthly 2"]),
      (.lateRenewal, ["DID_RENEW pro.monthly 1"]), (.nonRenewing, ["ONE_TIME_CHARGE pro.season"]),
      (.billingRetry, ["EXPIRED BILLING_RETRY pro.monthly 2"]),
      (.renewalOff, ["EXPIRED VOLUNTARY pro.monthly 2"]),
      (.crossgraded, ["DID_RENEW pro.yearly 1"]),
      (.refunded, []), (.lifetime, []), (.accountGone, ["DID_RENEW pro.monthly 1"]),
    ])
  func future(scenario: Scenario, told: [String]) throws {
    let notifications = try Store().notifications(ReceiptOrder(scenario: scenario), after: noon, days: 60)
    #expect(try notifications.prefix(told.count + 1).map(summary).prefix(told.isEmpty ? 1 : told.count) == told[...])
  }

  @Test(
    "each story has its past",
    arguments: [
      (Scenario.expiredPriceIncrease, "EXPIRED PRICE_INCREASE pro.monthly 2"),
      (.expiredProductUnavailable, "EXPIRED PRODUCT_NOT_FOR_SALE pro.monthly 2"),
      (.expiredUnknown, "EXPIRED pro.monthly 2"),
      (.expiredVoluntary, "EXPIRED VOLUNTARY pro.monthly 2"),
      (.graceWithoutDate, "DID_FAIL_TO_RENEW GRACE_PERIOD pro.monthly 4"),
      (.graceEnded, "GRACE_PERIOD_EXPIRED pro.monthly 3"),
      (.voluntaryRetrying, "EXPIRED VOLUNTARY pro.monthly 2"),
      (.upgradeRefunded, "REFUND premium.monthly 5"),
      (.nonRenewing, "ONE_TIME_CHARGE pro.season"),
      (.familyRevoked, "REVOKE premium.monthly 5"),
      (.familyShared, "SUBSCRIBED INITIAL_BUY premium.monthly 1"),
      (.lifetime, "ONE_TIME_CHARGE forever"),
      (.lifetimeRefunded, "REFUND forever"),
      (.refundedThenRebought, "SUBSCRIBED RESUBSCRIBE premium.monthly 1"),
      (.upgraded, "DID_CHANGE_RENEWAL_PREF UPGRADE premium.monthly 1"),
      (.trial, "SUBSCRIBED INITIAL_BUY pro.monthly 1"),
    ])
  func past(scenario: Scenario, last: String) throws {
    let told = try Store().notifications(ReceiptOrder(scenario: scenario), days: 0).map(summary)
    #expect(told.contains(last), "\(told)")
    let isOneTime = [.lifetime, .lifetimeRefunded, .nonRenewing].contains(scenario)
    #expect(told.first?.hasPrefix(isOneTime ? "ONE" : "SUBSCRIBED") == true)
  }

  @Test("both levels are signed, agree, and carry Apple's members", arguments: StoreEnvironment.allCases)
  func members(environment: StoreEnvironment) async throws {
    let order = ReceiptOrder(scenario: .subscriber, environment: environment)
    let notification = try #require(try Store().notifications(order, days: 1).first)
    let outer = try await CheckedJWS(notification.signedPayload)
    #expect(outer.payload.text("version") == "2.0")
    #expect(outer.payload.text("notificationUUID") == notification.uuid)
    #expect(UUID(uuidString: notification.uuid) != nil)
    #expect(outer.payload.dayNumber("signedDate") == 0)
    let data = outer.payload.object("data")
    #expect(data["appAppleId"] as? Int == (environment == .production ? 1_234_567_890 : nil))
    #expect(data.text("bundleId") == Product.defaultBundleID)
    #expect(data.text("bundleVersion") == "42")
    #expect(data.text("environment") == environment.appleName)
    #expect(data["status"] as? Int == 1)
    let transaction = try await CheckedJWS(try #require(data.text("signedTransactionInfo")))
    #expect(transaction.payload.text("bundleId") == Product.defaultBundleID)
    #expect(transaction.payload.dayNumber("signedDate") == 0)
    let renewal = try await CheckedJWS(try #require(data.text("signedRenewalInfo")))
    #expect(renewal.payload.dayNumber("signedDate") == 0)
    #expect(notification.body == #"{"signedPayload":"\#(notification.signedPayload)"}"#)
  }

  @Test("a test notification names the app as every other does", arguments: StoreEnvironment.allCases)
  func testNotification(environment: StoreEnvironment) async throws {
    let test = try Store().notifications.test(
      uuid: "1", bundleID: Product.defaultBundleID, environment, at: noon)
    let data = try await CheckedJWS(test.signedPayload).payload.object("data")
    #expect(data["appAppleId"] as? Int == (environment == .production ? 1_234_567_890 : nil))
    #expect(data.text("bundleId") == Product.defaultBundleID)
    #expect(data.text("environment") == environment.appleName)
  }

  @Test("the same event has the same UUID whenever it is signed, and no two customers share one")
  func uuids() throws {
    func uuids(_ subscriber: Int64, _ environment: StoreEnvironment = .production) throws -> [String] {
      try Store().notifications(
        ReceiptOrder(scenario: .eventfulYear, environment: environment, subscriber: subscriber), days: 400
      ).map(\.uuid)
    }
    #expect(try uuids(1) == uuids(1))
    #expect(try Set(uuids(1)).isDisjoint(with: uuids(2)))
    #expect(try Set(uuids(1)).isDisjoint(with: uuids(1, .sandbox)))
  }

  @Test("an upgrade is told with the new product alone: nothing marks the old transaction")
  func upgrade() throws {
    let told = try Store().notifications(ReceiptOrder(scenario: .upgraded), days: 0)
    let data = try CheckedJWS.payload(try #require(told.last).signedPayload).object("data")
    let transaction = try CheckedJWS.payload(data.text("signedTransactionInfo"))
    #expect(transaction.text("transactionId") == "480000000010001")
    #expect(transaction.text("originalTransactionId") == "480000000010000")
    #expect(transaction["isUpgraded"] == nil)
    #expect(!told.contains { $0.type == "REFUND" })
  }

  @Test("two subscriptions tell their stories apart")
  func twoGroups() throws {
    let told = try Store().notifications(ReceiptOrder(scenario: .twoGroups), days: 0)
    #expect(told.map(\.originalTransactionID) == ["480000000010000", "480000000011000"])
  }

  @Test("verifyReceipt, the Server API and the notifications tell the same year", arguments: StoreEnvironment.allCases)
  func sameYear(environment: StoreEnvironment) throws {
    let store = try Store()
    let order = ReceiptOrder(scenario: .eventfulYear, environment: environment)
    let body = requestBody(try store.receipt(order))
    let told = try store.notifications(order, days: 400)
    for notification in told {
      store.clock.set(Timestamp(notification.at))
      let verdict = try store.ask(body, environment)
      let row = try #require(verdict.latest.first)
      let prospects = try #require(verdict.renewals.first)
      let api = try store.get("/inApps/v1/subscriptions/\(notification.originalTransactionID)", in: environment).json
      let last = try #require(api.objects("data").first?.objects("lastTransactions").first)
      let transaction = try CheckedJWS.payload(last.text("signedTransactionInfo"))
      let renewal = try CheckedJWS.payload(last.text("signedRenewalInfo"))
      #expect(transaction.text("transactionId") == row.text("transaction_id"))
      #expect(transaction.text("productId") == row.text("product_id"))
      for (member, triplet) in [
        ("purchaseDate", "purchase_date"), ("expiresDate", "expires_date"), ("revocationDate", "cancellation_date"),
      ] {
        #expect(transaction.dayNumber(member) == row.days(triplet))
      }
      #expect(renewal["autoRenewStatus"] as? Int == prospects.text("auto_renew_status").flatMap { Int($0) })
      #expect(renewal.text("autoRenewProductId") == prospects.text("auto_renew_product_id"))
      #expect(renewal.dayNumber("gracePeriodExpiresDate") == prospects.days("grace_period_expires_date"))
      #expect(renewal["expirationIntent"] as? Int == prospects.text("expiration_intent").flatMap { Int($0) })
      let data = try CheckedJWS.payload(notification.signedPayload).object("data")
      #expect(data["status"] as? Int == last["status"] as? Int)
      let history = try store.get(
        "/inApps/v2/history/\(notification.originalTransactionID)", [("sort", "ASCENDING")], in: environment
      ).json
      let rows = try (history["signedTransactions"] as? [String] ?? []).map { try CheckedJWS.payload($0) }
      #expect(rows.count == verdict.latest.count)
      #expect(
        Set(rows.filter { $0["isUpgraded"] as? Bool == true }.map { $0.text("transactionId") })
          == Set(verdict.latest.filter { $0.text("is_upgraded") == "true" }.map { $0.text("transaction_id") }))
      #expect(
        Set(rows.filter { $0["revocationDate"] != nil }.map { $0.text("transactionId") })
          == Set(verdict.latest.filter { $0["cancellation_date_ms"] != nil }.map { $0.text("transaction_id") }))
    }
  }

  @Test("a month whose charge succeeds within the grace period counts from the day it was due")
  func recoveredInGrace() throws {
    let store = try Store()
    let told = try store.notifications(ReceiptOrder(scenario: .eventfulYear), days: 400)
    let failed = try #require(told.first { $0.type == "DID_FAIL_TO_RENEW" }).at
    let recovery = try #require(told.first { $0.subtype == "BILLING_RECOVERY" })
    let data = try CheckedJWS.payload(recovery.signedPayload).object("data")
    let transaction = try CheckedJWS.payload(data.text("signedTransactionInfo"))
    #expect(transaction["purchaseDate"] as? Int64 == Timestamp(failed).adding(days: 5).milliseconds)
    #expect(transaction["expiresDate"] as? Int64 == Timestamp(failed).adding(months: 1).milliseconds)
  }

  @Test("the moments of a timeline are those at which something changes, and no others", arguments: Scenario.allCases)
  func moments(scenario: Scenario) {
    let timeline = scenario.timeline(start: noon, environment: .sandbox)
    let moments = timeline.moments(
      after: noon.adding(days: -200), through: noon.adding(days: 400))
    for moment in moments { #expect(timeline.state(at: moment.before) != timeline.state(at: moment)) }
    // Between two of them nothing changes; looked at every six hours.
    var previous = timeline.state(at: noon.adding(days: -200))
    var last = noon.adding(days: -200)
    for quarter in 1...2_400 {
      let now = Timestamp(milliseconds: noon.adding(days: -200).milliseconds + Int64(quarter) * Timestamp.day / 4)
      let state = timeline.state(at: now)
      #expect((state != previous) == moments.contains { last < $0 && $0 <= now }, "\(now.text)")
      (previous, last) = (state, now)
    }
  }
}

@Suite("Delivery of notifications")
struct NotificationDeliveryTests {
  private func withSimulator(_ test: (RunningSimulator, Inbox) async throws -> Void) async throws {
    let simulator = try await simulatorAtNoon()
    let inbox = try await Inbox.open()
    do {
      try await test(simulator, inbox)
    } catch {
      await simulator.stop()
      await inbox.close()
      throw error
    }
    await simulator.stop()
    await inbox.close()
  }

  @Test("customers' events are posted in order, once each, as the clock moves")
  func inOrder() async throws {
    try await withSimulator { simulator, inbox in
      let before = try simulator.issueTransaction(.trial, subscriber: 1)
      try simulator.deliverNotifications(to: inbox.url)
      let year = try simulator.issueTransaction(.eventfulYear, environment: .sandbox, subscriber: 2)
      #expect(await simulator.deliveries().map(\.notification.type) == ["SUBSCRIBED"])
      simulator.advanceClock(by: .seconds(40 * 86_400))
      simulator.setClock(noon.adding(days: 10).date)
      simulator.setClock(noon.adding(days: 60).date)
      let deliveries = await simulator.deliveries()
      #expect(deliveries.allSatisfy { $0.status == 200 })
      let expected = try [before, year].flatMap {
        try simulator.notifications(
          of: $0.transactionID, from: $0 == before ? noon.date : .distantPast, to: noon.adding(days: 60).date)
      }
      #expect(Set(deliveries.map(\.notification.uuid)) == Set(expected.map(\.uuid)))
      #expect(deliveries.count == expected.count)
      #expect(deliveries.map(\.notification.at) == deliveries.map(\.notification.at).sorted())
      #expect(inbox.payloads == deliveries.map(\.notification.signedPayload))
      for payload in inbox.payloads { _ = try await CheckedJWS(payload) }
    }
  }

  @Test("a notification that is not answered with success is posted again, as it was, 1, 12, 24, 48 and 72 hours later")
  func refused() async throws {
    try await withSimulator { simulator, inbox in
      try simulator.deliverNotifications(to: inbox.url)
      inbox.answer(with: 503)
      _ = try simulator.issueTransaction(.subscriber)
      #expect(await simulator.deliveries().map(\.status) == [503])
      var posts = 1
      for hours in [1, 12, 24, 48, 72] {
        simulator.advanceClock(by: .seconds(hours * 3_600 - 1))
        #expect(await simulator.deliveries().count == posts)
        simulator.advanceClock(by: .seconds(1))
        posts += 1
        #expect(await simulator.deliveries().map(\.status) == Array(repeating: 503, count: posts))
      }
      simulator.advanceClock(by: .seconds(10 * 86_400))
      #expect(await simulator.deliveries().count == 6)
      #expect(Set(inbox.payloads).count == 1)
    }
  }

  @Test("once it is taken it is not posted again, and what happened meanwhile comes in between")
  func takenLater() async throws {
    try await withSimulator { simulator, inbox in
      try simulator.deliverNotifications(to: inbox.url)
      inbox.answer(with: 503)
      _ = try simulator.issueTransaction(.subscriber, subscriber: 1)
      simulator.advanceClock(by: .seconds(3_600))
      #expect(await simulator.deliveries().count == 2)
      inbox.answer(with: 200)
      _ = try simulator.issueTransaction(.subscriber, subscriber: 2)
      simulator.advanceClock(by: .seconds(20 * 86_400))
      let posts = await simulator.deliveries()
      #expect(posts.map(\.status) == [503, 503, 200, 200])
      let (first, second) = ("480000000010000", "480000000020000")
      #expect(posts.map(\.notification.originalTransactionID) == [first, first, second, first])
    }
  }

  @Test("the sandbox posts once; and another address gets nothing of before")
  func once() async throws {
    try await withSimulator { simulator, inbox in
      try simulator.deliverNotifications(to: inbox.url)
      inbox.answer(with: 503)
      _ = try simulator.issueTransaction(.subscriber, environment: .sandbox)
      simulator.advanceClock(by: .seconds(86_400))
      #expect(await simulator.deliveries().map(\.status) == [503])
      _ = try simulator.issueTransaction(.subscriber, subscriber: 2)
      let closed = try await Inbox.open()
      await closed.close()
      _ = await simulator.deliveries()
      try simulator.deliverNotifications(to: closed.url)
      simulator.advanceClock(by: .seconds(86_400))
      #expect(await simulator.deliveries().map(\.status) == [503, 503])
      // Nobody listens there.
      _ = try simulator.issueTransaction(.subscriber, subscriber: 3)
      #expect(await simulator.deliveries().map(\.status) == [503, 503, nil])
    }
  }

  @Test("posting nothing, the same notifications can be had to shuffle, lose and repeat")
  func withoutDelivery() async throws {
    try await withSimulator { simulator, _ in
      let issued = try simulator.issueTransaction(.eventfulYear)
      #expect(try simulator.notifications(of: issued.originalTransactionID).map(\.type) == ["SUBSCRIBED"])
      let end = noon.adding(days: 400).date
      let all = try simulator.notifications(of: issued.originalTransactionID, to: end)
      let moments = try simulator.events(of: issued.originalTransactionID, to: end)
      #expect(Set(all.map(\.at)).isSubset(of: moments))
      #expect(await simulator.deliveries().isEmpty)
      #expect(throws: IssueError.unknownTransaction("1")) { try simulator.notifications(of: "1") }
    }
  }

  @Test(
    "notifications go to plain HTTP addresses only",
    arguments: [
      "https://127.0.0.1/", "127.0.0.1:80", "http://", "http://user@host/", "ftp://host/", "http://host/#part", "",
    ])
  func addresses(text: String) {
    #expect(PlainHTTPURL(text) == nil)
  }

  @Test("an address is read with its port, path and query")
  func address() throws {
    let url = try #require(PlainHTTPURL("http://[::1]:8080/v1/notifications?a=b%20c"))
    #expect(url.host == "::1")
    #expect(url.port == 8080)
    #expect(url.path == "/v1/notifications?a=b%20c")
    #expect(url.authority == "[::1]:8080")
    #expect(PlainHTTPURL("http://localhost")?.description == "http://localhost:80/")
  }
}

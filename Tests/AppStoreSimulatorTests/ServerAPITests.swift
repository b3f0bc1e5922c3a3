import Foundation
import Testing

@testable import AppStoreSimulator

@Suite("The Server API")
struct ServerAPITests {
  private let store: Store

  init() throws { store = try Store() }

  private static let base = "/inApps/v1/subscriptions/"

  @Test("a subscription's status, transaction and renewal info come signed, by any of its transaction IDs")
  func statuses() async throws {
    for environment in StoreEnvironment.allCases {
      let store = try Store()
      let order = ReceiptOrder(scenario: .renewing, environment: environment, subscriber: 3)
      let original = try store.issuer.issueTransaction(order, at: noon).originalTransactionID
      let second = try store.issuer.newestTransaction(ofOriginal: original, at: noon).transactionID
      #expect(original != second)
      for id in [original, second] {
        let answer = try store.get(Self.base + id, in: environment)
        #expect(answer.status == 200)
        #expect(answer.json.text("environment") == environment.appleName)
        #expect(answer.json.text("bundleId") == Product.defaultBundleID)
        #expect(answer.json["appAppleId"] as? Int == (environment == .production ? 1_234_567_890 : nil))
        let group = try #require(answer.json.objects("data").first)
        #expect(group.text("subscriptionGroupIdentifier") == Subscription.mainGroup)
        let last = try #require(group.objects("lastTransactions").first)
        #expect(last.text("originalTransactionId") == original)
        #expect(last["status"] as? Int == 1)
        let transaction = try await CheckedJWS(try #require(last.text("signedTransactionInfo")))
        #expect(transaction.payload.text("transactionId") == second)
        #expect(transaction.payload.text("environment") == environment.appleName)
        let renewal = try await CheckedJWS(try #require(last.text("signedRenewalInfo")))
        #expect(renewal.payload.text("originalTransactionId") == original)
      }
    }
  }

  @Test(
    "each state of a subscription has Apple's status",
    arguments: [
      (Scenario.renewalOff, 1), (.expiredVoluntary, 2), (.billingRetry, 3), (.grace, 4), (.refunded, 5),
      (.familyRevoked, 5), (.refundedThenRebought, 1), (.upgraded, 1), (.lateRenewal, 1), (.voluntaryRetrying, 2),
      (.graceEnded, 3), (.graceWithoutDate, 4), (.upgradeRefunded, 5),
    ])
  func status(scenario: Scenario, status: Int) throws {
    let id = try store.issuer.issueTransaction(ReceiptOrder(scenario: scenario), at: noon).originalTransactionID
    for wanted in 1...5 {
      let data = try store.get(Self.base + id, [("status", "\(wanted)")]).json.objects("data")
      #expect(
        data.flatMap { $0.objects("lastTransactions") }.map { $0["status"] as? Int }
          == (wanted == status ? [status] : []))
    }
    let both = try store.get(Self.base + id, [("status", "\(status)"), ("status", "1")])
    #expect(both.json.objects("data").count == 1)
  }

  @Test("all subscriptions of the customer are in the answer, group by group")
  func twoGroups() throws {
    let id = try store.issuer.issueTransaction(ReceiptOrder(scenario: .twoGroups), at: noon).originalTransactionID
    let data = try store.get(Self.base + id).json.objects("data")
    #expect(
      Set(data.map { $0.text("subscriptionGroupIdentifier") }) == [Subscription.mainGroup, Subscription.secondGroup])
    #expect(
      Set(data.flatMap { $0.objects("lastTransactions") }.map { $0.text("originalTransactionId") }) == [
        "480000000010000", "480000000011000",
      ])
  }

  @Test("consumption information is taken with consent, by Apple's rules for the product")
  func consumption() throws {
    let month = try store.issuer.issueTransaction(ReceiptOrder(scenario: .subscriber), at: noon).transactionID
    let life = try store.issuer.issueTransaction(ReceiptOrder(scenario: .lifetime, subscriber: 2), at: noon)
      .transactionID
    let shared = try store.issuer.issueTransaction(ReceiptOrder(scenario: .familyShared, subscriber: 3), at: noon)
    func put(_ id: String, _ members: String, token: DeveloperToken = DeveloperToken()) throws -> Int {
      let answer = try store.get(
        "/inApps/v2/transactions/consumption/\(id)", method: "PUT", body: "{\(members)}", token: token)
      return answer.json["errorCode"] as? Int ?? answer.status
    }
    let delivered = #""customerConsented":true,"deliveryStatus":"DELIVERED","sampleContentProvided":false"#
    #expect(try put(month, delivered) == 202)
    #expect(try put(life, delivered + #","consumptionPercentage":67932,"refundPreference":"GRANT_PRORATED""#) == 202)
    let outage = delivered.replacing("DELIVERED", with: "UNDELIVERED_SERVER_OUTAGE")
    for (id, members, code) in [
      (month, delivered.replacing("true", with: "false"), 4_000_035),
      (month, delivered.replacing("DELIVERED", with: "LOST"), 4_000_036),
      (month, #""customerConsented":true,"deliveryStatus":"DELIVERED""#, 4_000_041),
      (month, delivered + #","refundPreference":"NONE""#, 4_000_044),
      (month, delivered + #","consumptionPercentage":1"#, 4_000_209),
      (life, outage + #","consumptionPercentage":1"#, 4_000_208), (month, "x", 4_000_000),
      (shared.transactionID, delivered, 4_000_185), ("480000000990000", delivered, 4_040_010),
      ("x", delivered, 4_000_006),
    ] { #expect(try put(id, members) == code, "\(members)") }
    #expect(store.calls.current.consumption.mapValues(\.count) == [month: 1, life: 1])
  }

  @Test("refunds are listed by any transaction of the customer, and neither upgrades nor what a family lost")
  func refunds() throws {
    func refunds(of id: String, _ query: [(name: String, value: String)] = []) throws -> [String] {
      let answer = try store.get("/inApps/v2/refund/lookup/" + id, query)
      #expect(answer.json["hasMore"] as? Bool == false && answer.json.text("revision") != nil)
      return try (answer.json["signedTransactions"] as? [String] ?? []).map {
        try CheckedJWS.payload($0).text("transactionId") ?? ""
      }
    }
    for (subscriber, scenario) in [Scenario.lifetimeRefunded, .refunded, .lifetime, .familyRevoked, .upgraded]
      .enumerated()
    {
      let order = ReceiptOrder(scenario: scenario, subscriber: Int64(subscriber + 1))
      let issued = try store.issuer.issueTransaction(order, at: noon)
      let expected = [.lifetimeRefunded, .refunded].contains(scenario) ? [issued.transactionID] : []
      #expect(try refunds(of: issued.originalTransactionID) == expected, "\(scenario)")
      #expect(try refunds(of: issued.transactionID) == expected, "\(scenario)")
    }
    for (id, query, code) in [
      ("480000000010000", [(name: "revision", value: "x")], 4_000_005), ("480000000990000", [], 4_040_010),
      ("x", [], 4_000_006),
    ] as [(String, [(name: String, value: String)], Int)] {
      #expect(try store.get("/inApps/v2/refund/lookup/" + id, query).json["errorCode"] as? Int == code)
    }
    #expect(store.calls.current.serverAPI.byEndpoint["refund_lookup"] == 13)
  }

  @Test("an app account token names the user of one purchase from then on, by Apple's rules")
  func accountToken() throws {
    let bought = try store.issuer.issueTransaction(ReceiptOrder(scenario: .twoGroups), at: noon)
    let other = bought.originalTransactionID == "480000000010000" ? "480000000011000" : "480000000010000"
    let renewed = try store.issuer.issueTransaction(ReceiptOrder(scenario: .renewing, subscriber: 2), at: noon)
    let shared = try store.issuer.issueTransaction(ReceiptOrder(scenario: .familyShared, subscriber: 3), at: noon)
    let token = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
    func put(_ id: String, _ body: String) throws -> Int {
      let answer = try store.get("/inApps/v1/transactions/\(id)/appAccountToken", method: "PUT", body: body)
      return answer.json["errorCode"] as? Int ?? answer.status
    }
    let body = #"{"appAccountToken":"\#(token.uppercased())"}"#
    #expect(try put(bought.originalTransactionID, body) == 200)
    for (id, body, code) in [
      (bought.originalTransactionID, #"{"appAccountToken":"anna"}"#, 4_000_183),
      (bought.originalTransactionID, "{}", 4_000_183), (shared.originalTransactionID, body, 4_000_185),
      (renewed.transactionID, body, 4_000_187), ("480000000990000", body, 4_040_010), ("x", body, 4_000_006),
    ] { #expect(try put(id, body) == code, "\(id) \(body)") }
    func named(_ id: String) throws -> String? {
      let answer = try store.get("/inApps/v1/transactions/" + id)
      return try CheckedJWS.payload(answer.json.text("signedTransactionInfo") ?? "").text("appAccountToken")
    }
    #expect(try named(bought.originalTransactionID) == token)
    #expect(try named(other) == nil)
    #expect(store.calls.current.accountTokens == [bought.originalTransactionID: [token]])
    store.troubles.set(.http500, count: 1, service: .serverAPI, environment: nil)
    _ = try put(other, body)
    #expect(try named(other) == nil)
  }

  @Test("a customer without subscriptions has an empty list of them, and a history")
  func lifetime() throws {
    let id = try store.issuer.issueTransaction(ReceiptOrder(scenario: .lifetime), at: noon).originalTransactionID
    let statuses = try store.get(Self.base + id)
    #expect(statuses.status == 200)
    #expect(statuses.json.objects("data").isEmpty)
    let history = try store.get("/inApps/v2/history/" + id, [("productType", "NON_CONSUMABLE")])
    let signed = try #require(history.json["signedTransactions"] as? [String])
    #expect(try signed.map { try CheckedJWS.payload($0).text("productId") } == [Product.forever.id])
    let subscriptions = try store.get("/inApps/v2/history/" + id, [("productType", "AUTO_RENEWABLE")])
    #expect(subscriptions.json["signedTransactions"] as? [String] == [])
  }

  @Test("one transaction is told by its ID, when it has been made")
  func transaction() throws {
    let first = try store.issuer.issueTransaction(ReceiptOrder(scenario: .subscriber), at: noon)
    let later = "480000000010001"
    let path = "/inApps/v1/transactions/"
    let told = try store.get(path + first.transactionID)
    #expect(try CheckedJWS.payload(told.json.text("signedTransactionInfo")).dayNumber("expiresDate") == 31)
    #expect(try store.get(path + later).json["errorCode"] as? Int == 4_040_010)
    store.clock.advance(milliseconds: 31 * Timestamp.day)
    let renewed = try store.get(path + later)
    #expect(try CheckedJWS.payload(renewed.json.text("signedTransactionInfo")).text("transactionId") == later)
  }

  @Test("an order is told by the ID in the customer's mail, when it was made, and in production alone")
  func order() throws {
    let first = try store.issuer.issueTransaction(ReceiptOrder(scenario: .subscriber), at: noon)
    let order = try #require(first.orderID)
    #expect(order == "M0000007PS")
    let path = "/inApps/v1/lookup/"
    let told = try store.get(path + order)
    #expect(told.json["status"] as? Int == 0)
    let signed = try #require(told.json["signedTransactions"] as? [String])
    #expect(try signed.map { try CheckedJWS.payload($0).text("transactionId") } == [first.transactionID])
    let later = "M0000007PT"
    for unknown in [later, "M0000009ZZ", "x", "m0000007ps", "M-00000001", "M00000007PS", ""] {
      let answer = try store.get(path + unknown)
      #expect(answer.status == 200)
      #expect(answer.json["status"] as? Int == 1, "\(unknown)")
      #expect(answer.json["signedTransactions"] == nil)
    }
    store.clock.advance(milliseconds: 31 * Timestamp.day)
    #expect(try store.issuer.newestTransaction(ofOriginal: first.transactionID, at: store.clock.now).orderID == later)
    #expect(try store.get(path + later).json["status"] as? Int == 0)
    #expect(try store.get(path + order, in: .sandbox).status == 404)
    let tester = try store.issuer.issueTransaction(ReceiptOrder(environment: .sandbox, subscriber: 2), at: noon)
    #expect(tester.orderID == nil)
  }

  @Test("history comes in pages of twenty, in either order, and each transaction once")
  func history() async throws {
    let id = try store.issuer.issueTransaction(ReceiptOrder(scenario: .subscriber), at: noon).originalTransactionID
    store.clock.set(noon.adding(months: 44))
    for sort in ["ASCENDING", "DESCENDING"] {
      var ids: [String] = []
      var pages: [Int] = []
      var revision: String?
      var hasMore = true
      while hasMore {
        let query = [("sort", sort)] + (revision.map { [("revision", $0)] } ?? [])
        let page = try store.get("/inApps/v2/history/" + id, query).json
        let signed = try #require(page["signedTransactions"] as? [String])
        ids += try signed.map { try #require(try CheckedJWS.payload($0).text("transactionId")) }
        pages.append(signed.count)
        revision = page.text("revision")
        #expect(revision != nil)
        hasMore = try #require(page["hasMore"] as? Bool)
        try #require(pages.count < 5)
      }
      #expect(pages == [20, 20, 5])
      #expect(Set(ids).count == 45)
      #expect(ids == (sort == "ASCENDING" ? ids.sorted() : ids.sorted(by: >)))
    }
  }

  @Test("history tells what was taken back and what was replaced")
  func revoked() throws {
    let id = try store.issuer.issueTransaction(ReceiptOrder(scenario: .refundedThenRebought), at: noon)
      .originalTransactionID
    func numbers(_ query: [(String, String)]) throws -> [String?] {
      let signed = try store.get("/inApps/v2/history/" + id, query).json["signedTransactions"] as? [String] ?? []
      return try signed.map { try CheckedJWS.payload($0).text("transactionId") }
    }
    #expect(try numbers([("revoked", "true")]) == ["480000000010001"])
    // As Apple's own library for Python writes it.
    #expect(try numbers([("revoked", "True")]) == ["480000000010001"])
    #expect(try numbers([("revoked", "False")]) == ["480000000010000", "480000000010002"])
    #expect(try numbers([("revoked", "false")]) == ["480000000010000", "480000000010002"])
    #expect(try numbers([("productId", Product.proYearly.id)]) == [])
    let upgraded = try store.issuer.issueTransaction(
      ReceiptOrder(scenario: .upgraded, environment: .sandbox), at: noon)
    let history = try store.get("/inApps/v2/history/" + upgraded.transactionID, in: .sandbox).json
    let rows = try #require(history["signedTransactions"] as? [String]).map { try CheckedJWS.payload($0) }
    #expect(rows.map { $0.text("productId") } == [Product.proYearly.id, Product.premiumMonthly.id])
    #expect(rows.map { $0["isUpgraded"] as? Bool } == [true, nil])
  }

  @Test("transactions that nobody has bought, of the other store and of another app are not found")
  func notFound() throws {
    let id = try store.issuer.issueTransaction(ReceiptOrder(), at: noon).originalTransactionID
    let other = try store.issuer.issueTransaction(ReceiptOrder(scenario: .wrongApp, subscriber: 2), at: noon)
    for (path, environment) in [
      ("480000000990000", StoreEnvironment.production), (id, .sandbox), (other.transactionID, .production),
    ] {
      for endpoint in ["/inApps/v1/subscriptions/", "/inApps/v1/transactions/", "/inApps/v2/history/"] {
        let answer = try store.get(endpoint + path, in: environment)
        #expect(answer.status == 404)
        #expect(answer.json["errorCode"] as? Int == 4_040_010)
        #expect(answer.json.text("errorMessage") == "Transaction id not found.")
      }
    }
    let theirs = try store.get(
      Self.base + other.transactionID, token: DeveloperToken(bundleID: "com.example.somebody-else"))
    #expect(theirs.status == 200)
    let gone = try store.issuer.issueTransaction(ReceiptOrder(scenario: .accountGone, subscriber: 3), at: noon)
    #expect(try store.get(Self.base + gone.transactionID).json["errorCode"] as? Int == 4_040_001)
  }

  @Test(
    "a mistake has Apple's code",
    arguments: [
      ("/inApps/v1/subscriptions/abc", "", "", 400, 4_000_006), ("/inApps/v1/subscriptions/", "", "", 400, 4_000_006),
      ("/inApps/v1/subscriptions/480000000010000", "status", "6", 400, 4_000_031),
      ("/inApps/v2/history/480000000010000", "revision", "x", 400, 4_000_005),
      ("/inApps/v2/history/480000000010000", "sort", "UP", 400, 4_000_021),
      ("/inApps/v2/history/480000000010000", "productType", "GOLD", 400, 4_000_022),
      ("/inApps/v2/history/480000000010000", "revoked", "maybe", 400, 4_000_030),
    ])
  func mistakes(path: String, name: String, value: String, status: Int, code: Int) throws {
    _ = try store.issuer.issueTransaction(ReceiptOrder(), at: noon)
    let answer = try store.get(path, name.isEmpty ? [] : [(name, value)])
    #expect(answer.status == status)
    #expect(answer.json["errorCode"] as? Int == code)
  }

  @Test("answers and errors are JSON by their header, without which Apple's own libraries do not read a code")
  func contentType() throws {
    let id = try store.issuer.issueTransaction(ReceiptOrder(), at: noon).transactionID
    func type(_ path: String, method: String = "GET") throws -> String? {
      try store.get(path, method: method).headers.first { $0.0 == "Content-Type" }?.1
    }
    for path in [Self.base + id, "/inApps/v2/history/" + id, "/inApps/v1/transactions/" + id, "/inApps/v1/lookup/x"] {
      #expect(try type(path) == "application/json")
    }
    #expect(try type(Self.base + "480000000990000") == "application/json")
    for path in ["test", "history"] {
      #expect(try type("/inApps/v1/notifications/" + path, method: "POST") == "application/json")
    }
    for trouble in [Trouble.serverAPIRetryable, .serverAPINotFoundRetryable, .serverAPIRateLimited] {
      store.troubles.set(trouble, count: 1, environment: nil)
      #expect(try type(Self.base + id) == "application/json", "\(trouble)")
    }
  }

  @Test("an endpoint that is not played is 404 without an error code")
  func unknownEndpoint() throws {
    #expect(try store.get("/inApps/v1/messaging/x").status == 404)
    #expect(try store.get("/inApps/v1/subscriptions/480000000010000", method: "POST").json.isEmpty)
  }

  @Test("the history has what was posted, page by page, and says how it fared")
  func notificationHistory() async throws {
    let path = "/inApps/v1/notifications/history"
    func ask(
      _ body: String, token: String? = nil
    ) throws -> (status: Int, headers: [(String, String)], json: [String: Any]) {
      try store.get(path, token.map { [("paginationToken", $0)] } ?? [], method: "POST", body: body)
    }
    func window(_ from: Int, _ to: Int, _ more: String = "") -> String {
      "{\"startDate\":\(noon.adding(days: from).milliseconds),\"endDate\":\(noon.adding(days: to).milliseconds)\(more)}"
    }
    let inbox = try await Inbox.open()
    inbox.answer(with: 200)
    store.delivery.deliver(to: try PlainHTTPURL(checking: inbox.url))
    for subscriber in 1...25 {
      _ = try store.issuer.issueTransaction(
        ReceiptOrder(scenario: .subscriber, subscriber: Int64(subscriber)), at: noon)
    }
    store.clock.advance(milliseconds: 31 * Timestamp.day + 1)
    store.delivery.catchUp()
    #expect(await store.delivery.attempts().count == 50)
    store.clock.set(noon)
    let first = try ask(window(0, 32)).json
    let items = first.objects("notificationHistory")
    #expect(items.count == 20 && first["hasMore"] as? Bool == true)
    #expect(items.first?.objects("sendAttempts").first?.text("sendAttemptResult") == "SUCCESS")
    let token = try #require(first.text("paginationToken"))
    #expect(try ask(window(0, 32), token: token).json.objects("notificationHistory").count == 20)
    #expect(try ask(window(0, 32, #","onlyFailures":true"#)).json.objects("notificationHistory").isEmpty)
    #expect(try ask(window(31, 32)).json.objects("notificationHistory").count == 20)
    #expect(try ask(window(0, 32, #","notificationType":"DID_RENEW""#)).json["hasMore"] as? Bool == true)
    await inbox.close()
    store.delivery.deliver(to: nil)
    for (body, code) in [
      ("none", 4_000_000), ("{}", 4_000_015), (#"{"startDate":1}"#, 4_000_016), (window(-181, 0), 4_000_012),
      (window(0, 0), 4_000_013), (window(-1, 0, #","transactionId":"1","notificationType":"TEST""#), 4_000_019),
    ] {
      let answer = try ask(body)
      #expect(answer.status == 400 && answer.json["errorCode"] as? Int == code, "\(body)")
    }
    #expect(try ask(window(-1, 0), token: "none").json["errorCode"] as? Int == 4_000_014)
    #expect(try store.get("/inApps/v1/notifications/test", method: "POST").json["errorCode"] as? Int == 4_040_007)
    #expect(try store.get("/inApps/v1/notifications/test/none").json["errorCode"] as? Int == 4_040_008)
  }

  @Test("calls are counted by endpoint, store and transaction, apart from verifyReceipt's")
  func calls() throws {
    let id = try store.issuer.issueTransaction(ReceiptOrder(), at: noon).transactionID
    _ = try store.get(Self.base + id)
    _ = try store.get("/inApps/v2/history/" + id)
    _ = try store.get(Self.base + id, in: .sandbox)
    _ = try store.get(Self.base + "480000000990000", token: DeveloperToken(keyID: "OTHER"))
    let summary = store.calls.current
    #expect(summary.total == 0)
    #expect(summary.serverAPI.total == 4)
    #expect(summary.serverAPI.production == 3)
    #expect(summary.serverAPI.sandbox == 1)
    #expect(summary.serverAPI.rejectedTokens == 1)
    #expect(summary.serverAPI.byEndpoint == ["subscriptions": 3, "history": 1])
    #expect(summary.serverAPI.byTransactionID == [id: 3])
  }
}

@Suite("Tokens of the Server API")
struct ServerAPITokenTests {

  private static let wrong: [(String, DeveloperToken)] = [
    ("algorithm", DeveloperToken(algorithm: "HS256")),
    ("key ID", DeveloperToken(keyID: "OTHER")),
    ("issuer", DeveloperToken(issuer: "somebody")),
    ("audience", DeveloperToken(audience: "appstoreconnect-v2")),
    ("app", DeveloperToken(bundleID: "")),
    ("age", DeveloperToken(issuedAt: noon.milliseconds / 1_000 - 301)),
    ("birth", DeveloperToken(issuedAt: noon.milliseconds / 1_000 + 61)),
    ("lifetime", DeveloperToken(lifetime: 3_601)),
    ("order", DeveloperToken(lifetime: -1)),
    ("signature", DeveloperToken(key: DevelopmentKeys.signedDataLeafKey)),
    ("age, without iat", DeveloperToken(issuedAt: noon.milliseconds / 1_000 - 301, hasIssueDate: false)),
    ("lifetime, without iat", DeveloperToken(lifetime: 3_661, hasIssueDate: false)),
    ("end", DeveloperToken(issuedAt: .max - 1, lifetime: 1, hasIssueDate: false)),
    ("time", DeveloperToken(issuedAt: .min, lifetime: 0)),
  ]

  @Test("a token that is wrong in any respect is 401 without a body", arguments: wrong.indices)
  func refused(index: Int) throws {
    let store = try Store()
    let id = try store.issuer.issueTransaction(ReceiptOrder(), at: noon).transactionID
    let (what, token) = Self.wrong[index]
    let answer = store.serverAPI.answer(
      ServerAPI.Call(
        method: "GET", path: "/inApps/v1/subscriptions/" + id, authorization: "Bearer " + (try token.signed()),
        environment: .production))
    #expect(answer.httpStatus == 401, "\(what)")
    #expect(answer.body.isEmpty, "\(what)")
  }

  @Test("a token without iat is taken, as Apple's own libraries send it")
  func withoutIssueDate() throws {
    let tokens = try DeveloperTokens(startedAt: noon, realNow: { noon })
    let token = try DeveloperToken(hasIssueDate: false).signed()
    #expect(tokens.bundleID(of: "Bearer " + token, now: noon) == Product.defaultBundleID)
  }

  @Test(
    "no token, another scheme and a broken one are refused",
    arguments: [nil, "", "Basic x", "Bearer x", "Bearer a.b.c"])
  func missing(authorization: String?) throws {
    let tokens = try DeveloperTokens(startedAt: noon, realNow: { noon })
    #expect(tokens.bundleID(of: authorization, now: noon) == nil)
  }

  @Test("a token is good for an hour, and by any of the three clocks")
  func accepted() throws {
    let later = noon.adding(days: 300)
    let tokens = try DeveloperTokens(startedAt: noon, realNow: { noon.adding(days: 100) })
    for days in [0, 100, 300] {
      let token = DeveloperToken(issuedAt: noon.adding(days: days).milliseconds / 1_000, lifetime: 3_600)
      #expect(tokens.bundleID(of: "Bearer " + (try token.signed()), now: later) == Product.defaultBundleID)
    }
    let early = DeveloperToken(issuedAt: noon.adding(days: -1).milliseconds / 1_000)
    #expect(tokens.bundleID(of: "Bearer " + (try early.signed()), now: later) == nil)
  }
}

@Suite("The Server API over real TLS", .enabled(if: Tool.curl != nil, "curl is not installed"))
struct ServerAPIListenerTests {
  @Test("answers at both base URLs, to the key that the simulator offers")
  func answers() async throws {
    let simulator = try await simulatorAtNoon()
    for (environment, url) in [
      (StoreEnvironment.production, simulator.serverAPIURL), (.sandbox, simulator.serverAPISandboxURL),
    ] {
      let issued = try simulator.issueTransaction(.twoGroups, environment: environment)
      let token = DeveloperToken(
        keyID: simulator.serverAPIKeyID, issuer: simulator.serverAPIIssuerID, key: simulator.serverAPIKeyPEM)
      let header = ["-H", "Authorization: Bearer " + (try token.signed())]
      let path = url + "/inApps/v1/subscriptions/\(issued.transactionID)?status=1&status=4"
      let exchange = try await Exchange.send("GET", path, root: simulator.rootPEMPath, extra: header)
      #expect(exchange.status == 200)
      #expect(exchange.json?.text("environment") == environment.appleName)
      #expect(exchange.json?.objects("data").count == 2)
      let none = try await Exchange.send("GET", path, root: simulator.rootPEMPath)
      #expect(none.status == 401)
      #expect(none.body.isEmpty)
      let empty = try await Exchange.send(
        "GET", url + "/inApps/v1/subscriptions/\(issued.transactionID)?status=2", root: simulator.rootPEMPath,
        extra: header)
      #expect(empty.json?.objects("data").isEmpty == true)
    }
    #expect(simulator.calls.serverAPI.rejectedTokens == 2)
    #expect(simulator.calls.peakInFlight == 1)
    await simulator.stop()
  }
}

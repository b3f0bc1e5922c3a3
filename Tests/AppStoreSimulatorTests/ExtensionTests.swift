import Foundation
import Testing

@testable import AppStoreSimulator

@Suite struct ExtensionTests {
  private static func body(
    days: Int = 10, reason: Int = 1, request: String = "r1", _ more: String = ""
  ) -> String {
    #"{"extendByDays":\#(days),"extendReasonCode":\#(reason),"requestIdentifier":"\#(request)"\#(more)}"#
  }

  private static func extend(_ store: Store, _ id: String, _ body: String) throws -> [String: Any] {
    try store.get("/inApps/v1/subscriptions/extend/\(id)", method: "PUT", body: body).json
  }

  private static func code(_ json: [String: Any]) -> Int? { json["errorCode"] as? Int }

  private static func bought(
    _ store: Store, _ scenario: Scenario = .subscriber, _ subscriber: Int64 = 1
  ) throws -> String {
    try store.issuer.issueTransaction(ReceiptOrder(scenario: scenario, subscriber: subscriber), at: store.clock.now)
      .originalTransactionID
  }

  /// The day on which the newest period ends, counted from noon.
  private static func end(_ store: Store, _ id: String) throws -> Double? {
    let newest = try store.issuer.newestTransaction(ofOriginal: id, at: store.clock.now)
    return try CheckedJWS.payload(newest.signedTransaction).dayNumber("expiresDate")
  }

  @Test func `an extension moves the end of the period, and the renewals after it`() throws {
    let store = try Store()
    let id = try Self.bought(store)
    #expect(try Self.end(store, id) == 31)
    let answer = try Self.extend(store, id, Self.body())
    #expect(answer["success"] as? Bool == true && answer.text("originalTransactionId") == id)
    #expect(answer["effectiveDate"] as? Int64 == noon.adding(days: 41).milliseconds)
    #expect(answer.text("webOrderLineItemId") == "490000000010000")
    #expect(try Self.end(store, id) == 41)
    store.clock.advance(milliseconds: 40 * Timestamp.day)
    #expect(try store.issuer.newestTransaction(ofOriginal: id, at: store.clock.now).transactionID == id)
    store.clock.advance(milliseconds: 2 * Timestamp.day)
    #expect(try store.issuer.newestTransaction(ofOriginal: id, at: store.clock.now).transactionID != id)
    #expect(try Self.end(store, id) == 69, "28 days of February later")
  }

  @Test func `verifyReceipt shows the new end, also for a receipt from before the extension`() throws {
    let store = try Store()
    let before = try store.issuer.issue(ReceiptOrder(scenario: .subscriber), at: noon)
    let id = try #require(before.originalTransactionIDs.first)
    _ = try Self.extend(store, id, Self.body())
    let answer = store.verifyReceipt.answer(
      isPost: true, body: Array(requestBody(before.receiptData).utf8), environment: .production)
    let rows = try #require(
      try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
    ).objects("latest_receipt_info")
    #expect(rows.map { $0.text("expires_date_ms") } == [String(noon.adding(days: 41).milliseconds)])
    let newest = try store.issuer.newestReceipt(ofOriginal: id, format: .der, at: noon).receiptData
    guard case .authentic(let seed) = store.issuer.read(base64: newest) else {
      Issue.record("the newest receipt is authentic")
      return
    }
    #expect(seed.extensions?.map(\.days) == [10], "a simulator that starts anew knows it from the receipt")
  }

  @Test func `the same request extends once, whatever answer was lost`() throws {
    let store = try Store()
    let id = try Self.bought(store)
    store.troubles.set(.reset, count: 1, service: .serverAPI, environment: nil)
    _ = try Self.extend(store, id, Self.body())
    #expect(try Self.end(store, id) == 41, "done, and the answer was lost")
    for _ in 0..<2 {
      #expect(try Self.extend(store, id, Self.body())["effectiveDate"] as? Int64 == noon.adding(days: 41).milliseconds)
    }
    store.troubles.set(.http500, count: 1, service: .serverAPI, environment: nil)
    _ = try Self.extend(store, id, Self.body(request: "r2"))
    #expect(try Self.end(store, id) == 41, "a store in trouble does nothing")
    _ = try Self.extend(store, id, Self.body(request: "r2"))
    #expect(try Self.end(store, id) == 51)
  }

  @Test func `two extensions in 365 days are the most, and a third waits for the first to be that old`() throws {
    let store = try Store()
    let id = try Self.bought(store)
    #expect(try Self.code(Self.extend(store, id, Self.body(request: "a"))) == nil)
    store.clock.advance(milliseconds: 20 * Timestamp.day)
    #expect(try Self.code(Self.extend(store, id, Self.body(request: "b"))) == nil)
    #expect(try Self.code(Self.extend(store, id, Self.body(request: "c"))) == 4_030_005)
    store.clock.advance(milliseconds: 345 * Timestamp.day)
    #expect(try Self.code(Self.extend(store, id, Self.body(request: "c"))) == nil)
  }

  @Test(arguments: [
    (Scenario.trial, 4_030_004 as Int?), (.grace, 4_030_004), (.billingRetry, 4_030_004),
    (.expiredVoluntary, 4_030_004),
    (.refunded, 4_030_004), (.familyShared, 4_030_007), (.lifetime, 4_040_005), (.renewalOff, nil),
    (.accountGone, 4_040_001),
  ])
  func `only a running, paid subscription of the customer's own is extended`(scenario: Scenario, code: Int?) throws {
    let store = try Store()
    let id = try Self.bought(store, scenario)
    #expect(try Self.code(Self.extend(store, id, Self.body())) == code)
  }

  @Test func `a request that breaks Apple's rules is refused by its own code`() throws {
    let store = try Store()
    let id = try Self.bought(store)
    let long = String(repeating: "r", count: 129)
    for (id, body, code) in [
      (id, Self.body(days: 0), 4_000_009), (id, Self.body(days: 91), 4_000_009), (id, Self.body(reason: 4), 4_000_010),
      (id, Self.body(request: ""), 4_000_011), (id, Self.body(request: long), 4_000_011), (id, "x", 4_000_000),
      ("x", Self.body(), 4_000_008), ("480000000990000", Self.body(), 4_040_005),
      ("480000000010001", Self.body(), 4_040_005),
    ] { #expect(try Self.code(Self.extend(store, id, body)) == code, "\(id) \(body)") }
    #expect(try Self.end(store, id) == 31)
  }

  @Test func `a story goes on later by an extension: the renewals, the change of product, the end`() throws {
    let store = try Store()
    let id = try Self.bought(store, .crossgraded)
    _ = try Self.extend(store, id, Self.body(days: 90))
    store.clock.advance(milliseconds: 104 * Timestamp.day)
    #expect(try Self.end(store, id) == 105)
    store.clock.advance(milliseconds: Timestamp.day)
    let yearly = try store.issuer.newestTransaction(ofOriginal: id, at: store.clock.now)
    #expect(try CheckedJWS.payload(yearly.signedTransaction).text("productId") == Product.proYearly.id)
    let (customer, _, _) = try #require(store.issuer.customers.transaction(id))
    let told = try store.notifications.notifications(
      of: customer.seed, after: noon.before, through: noon.adding(days: 106))
    #expect(told.map(\.type) == ["RENEWAL_EXTENDED", "DID_RENEW"])
    #expect(told.map { Timestamp($0.at) } == [noon, noon.adding(days: 105)])
  }

  @Test func `the dates of all active subscribers move after an hour, and the store tells each and the sum`()
    async throws
  {
    let store = try Store()
    let all = try [Scenario.subscriber, .trial, .renewalOff, .expiredVoluntary, .familyShared].enumerated().map {
      try Self.bought(store, $0.element, Int64($0.offset + 1))
    }
    let product = #","productId":"com.example.app.pro.monthly","storefrontCountryCodes":["USA","DEU"]"#
    let path = "/inApps/v1/subscriptions/extend/mass"
    for _ in 0..<2 {
      let begun = try store.get(path, method: "POST", body: Self.body(request: "outage", product)).json
      #expect(begun.text("requestIdentifier") == "outage")
    }
    let status = "\(path)/com.example.app.pro.monthly/outage"
    #expect(try store.get(status).json["complete"] as? Bool == false)
    let before = try all.map { try Self.end(store, $0) }
    store.clock.advance(milliseconds: RenewalExtensions.massTime)
    let done = try store.get(status).json
    #expect(done["complete"] as? Bool == true && done["completeDate"] as? Int64 == store.clock.now.milliseconds)
    #expect(done["succeededCount"] as? Int == 2 && done["failedCount"] as? Int == 1)
    let after = try all.map { try Self.end(store, $0) }
    #expect(zip(before, after).map { ($1 ?? 0) - ($0 ?? 0) } == [10, 0, 10, 0, 0])
    #expect(try Self.code(store.get("\(path)/com.example.app.pro.monthly/other").json) == 4_040_009)
    #expect(try Self.code(store.get(status, in: .sandbox).json) == 4_040_009)
    for (more, code) in [
      (#","productId":"none""#, 4_000_023), (#","productId":"com.example.app.forever""#, 4_000_023),
      (#","productId":"com.example.app.pro.monthly","storefrontCountryCodes":[]"#, 4_000_027),
      (#","productId":"com.example.app.pro.monthly","storefrontCountryCodes":["de"]"#, 4_000_028),
    ] { #expect(try Self.code(store.get(path, method: "POST", body: Self.body(request: "x", more)).json) == code) }
  }
}

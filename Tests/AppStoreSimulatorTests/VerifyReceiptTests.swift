import Foundation
import Testing

@testable import AppStoreSimulator

@Suite("verifyReceipt's rules")
struct VerifyReceiptTests {
  private let store: Store

  init() throws { store = try Store() }

  @Test("a receipt of the other environment is sent there", arguments: StoreEnvironment.allCases)
  func routing(environment: StoreEnvironment) throws {
    let body = requestBody(try store.receipt(ReceiptOrder(environment: environment)))
    #expect(try store.ask(body, .production).status == (environment == .production ? 0 : 21007))
    #expect(try store.ask(body, .sandbox).status == (environment == .sandbox ? 0 : 21008))
  }

  @Test("the shared secret guards subscriptions, and only these", arguments: ["wrong", "", nil])
  func sharedSecret(password: String?) throws {
    let subscription = requestBody(try store.receipt(ReceiptOrder(scenario: .renewing)), password: password)
    let lifetime = requestBody(try store.receipt(ReceiptOrder(scenario: .lifetime)), password: password)
    #expect(try store.ask(subscription).status == 21004)
    #expect(try store.ask(lifetime).status == 0)
  }

  @Test(
    "a request that is no POST of JSON is answered 21000",
    arguments: ["", "{", "[]", "receipt-data=AA", #"{"receipt-data":7}"#])
  func unreadable(body: String) throws {
    #expect(try Store().ask(body).status == 21000)
  }

  @Test("a GET is 21000, whatever it carries")
  func get() throws {
    let body = requestBody(try store.receipt(ReceiptOrder()))
    #expect(try store.ask(body, isPost: false).status == 21000)
  }

  @Test(
    "a text that is no receipt is answered 21002",
    arguments: ["", "AA==", "bm90IGEgcmVjZWlwdA==", "%%%", "MIIB", "ewp9", "MAA="])
  func notAReceipt(text: String) throws {
    #expect(try Store().ask(requestBody(text)).status == 21002)
  }

  @Test("a request without a receipt is 21002")
  func noReceipt() throws {
    #expect(try Store().ask(#"{"password":"simulator"}"#).status == 21002)
  }

  @Test("old transactions are left out of latest_receipt_info alone")
  func excludesOld() throws {
    let all = try store.ask(ReceiptOrder(scenario: .refundedThenRebought))
    let newest = try store.ask(ReceiptOrder(scenario: .refundedThenRebought), excludesOld: true)
    #expect(all.latest.count == 3)
    #expect(newest.latest.count == 1)
    #expect(all.inApp.count == 3)
    #expect(newest.inApp.count == 3)
    #expect(try store.ask(ReceiptOrder(scenario: .twoGroups), excludesOld: true).latest.count == 2)
  }

  @Test("types on the wire are Apple's: strings in rows, exact integers in the receipt")
  func wireTypes() throws {
    let body = requestBody(try store.receipt(ReceiptOrder(scenario: .grace, subscriber: 123)))
    let answer = store.verifyReceipt.answer(isPost: true, body: Array(body.utf8), environment: .production)
    let text = String(decoding: answer.body, as: UTF8.self)
    #expect(text.contains(#""download_id":500000000000000247,"#))
    #expect(text.contains(#""quantity":"1""#))
    #expect(text.contains(#""auto_renew_status":"1""#))
    #expect(text.contains(#""request_date":"2026-01-15 12:00:00 Etc/GMT","request_date_ms":"1768478400000""#))
    #expect(text.contains(#""request_date_pst":"2026-01-15 04:00:00 America/Los_Angeles""#))
    let verdict = try store.ask(body)
    for row in verdict.latest + verdict.renewals {
      #expect(row.values.allSatisfy { $0 is String })
    }
    for date in ["expires_date", "purchase_date", "original_purchase_date"] {
      for row in verdict.latest {
        #expect([date, date + "_ms", date + "_pst"].allSatisfy { row[$0] != nil })
      }
    }
  }

  @Test("IDs belong to the environment and the subscriber, and have Apple's lengths")
  func identifiers() throws {
    func ids(_ order: ReceiptOrder) throws -> [String] {
      try store.issuer.issue(order, at: noon).originalTransactionIDs
    }
    #expect(try ids(ReceiptOrder(subscriber: 7)) == ["480000000070000"])
    #expect(try ids(ReceiptOrder(scenario: .refunded, subscriber: 7)) == ["480000000070000"])
    #expect(try ids(ReceiptOrder(environment: .sandbox, subscriber: 7)) == ["2000000000070000"])
    #expect(try ids(ReceiptOrder(scenario: .twoGroups, subscriber: 7)) == ["480000000070000", "480000000071000"])
    #expect(try ids(ReceiptOrder(subscriber: ReceiptSeed.subscriberLimit)).map(\.count) == [15])
    #expect(try ids(ReceiptOrder(scenario: .empty)).isEmpty)
  }

  @Test("an order that cannot be met says why")
  func badOrders() throws {
    #expect(throws: IssueError.badSubscriber(-1)) { try store.receipt(ReceiptOrder(subscriber: -1)) }
    #expect(throws: IssueError.badSubscriber(1_000_000_000)) {
      try store.receipt(ReceiptOrder(subscriber: 1_000_000_000))
    }
    #expect(throws: IssueError.badBundleID) { try store.receipt(ReceiptOrder(bundleID: "com.example\"")) }
    #expect(throws: IssueError.nothingBought(.empty)) {
      try store.receipt(ReceiptOrder(scenario: .empty, format: .ios6))
    }
    var order = ReceiptOrder()
    #expect(throws: IssueError.unknownScenario("gold")) { try order.setScenario(named: "gold") }
  }

  @Test("a call is counted by receipt, subscription and password, and the password is not kept")
  func counting() throws {
    let receipt = try store.receipt(ReceiptOrder(subscriber: 9))
    _ = try store.ask(requestBody(receipt))
    _ = try store.ask(requestBody(receipt, password: "canary-4711"), .sandbox)
    _ = try store.ask(requestBody("AA==", password: nil))
    let calls = store.calls.current
    #expect(calls.total == 3)
    #expect(calls.production == 2)
    #expect(calls.sandbox == 1)
    #expect(calls.rightPasswords == 1)
    #expect(calls.wrongPasswords == 1)
    #expect(calls.missingPasswords == 1)
    #expect(calls.lastPasswordWasRight == false)
    #expect(calls.byOriginalTransactionID == ["480000000090000": 2])
    #expect(calls.byReceipt.values.sorted() == [1, 2])
    #expect(!"\(calls)".contains("canary-4711"))
  }

  @Test("a trouble befalls so many calls, in its environment, and then no more")
  func troubleCount() throws {
    let production = requestBody(try store.receipt(ReceiptOrder()))
    let sandbox = requestBody(try store.receipt(ReceiptOrder(environment: .sandbox)))
    store.troubles.set(.status21005, count: 2, environment: .production)
    #expect(try store.ask(sandbox, .sandbox).status == 0)
    func next3() throws -> [Int?] { try (0..<3).map { _ in try store.ask(production).status } }
    let counted = try next3()
    #expect(counted == [21005, 21005, 0])
    store.troubles.set(.status21009, count: nil, environment: nil)
    let uncounted = try next3()
    #expect(uncounted == [21009, 21009, 21009])
    store.troubles.set(nil, count: nil, environment: nil)
    #expect(try store.ask(production).status == 0)
  }

  @Test("a receipt's own trouble waits in its own environment")
  func ownTrouble() throws {
    let body = requestBody(try store.receipt(ReceiptOrder(trouble: .status21005, environment: .sandbox)))
    #expect(try store.ask(body, .production).status == 21007)
    #expect(try store.ask(body, .sandbox).status == 21005)
    let pingPong = requestBody(try store.receipt(ReceiptOrder(trouble: .pingPong)))
    #expect(try store.ask(pingPong, .production).status == 21007)
    #expect(try store.ask(pingPong, .sandbox).status == 21008)
  }
}

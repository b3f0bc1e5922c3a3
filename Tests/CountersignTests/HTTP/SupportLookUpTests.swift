import Entitlements
import Foundation
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import HTTPTransport
@testable import Resilience
@testable import Validation

/// The owner, by anything that the customer reads out.
@Suite struct SupportLookUpTests {
  private func run(
    withKey: Bool = true, _ settings: Settings = Settings(), body: @Sendable (World) async throws -> Void
  ) async throws {
    try await World.run(
      withServerAPI: withKey, settings: settings, jobPause: .seconds(3600), body: body)
  }

  /// A customer of Anna's, by a receipt that verifyReceipt has answered about.
  private func subscribe(
    _ world: World, _ user: String = "anna", subscriber: Int64 = 1
  ) async throws -> (original: String, later: String, order: String) {
    let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: subscriber)
    let original = try #require(receipt.originalTransactionIDs.first)
    #expect(try await world.service.validate(receipt.receiptData, user: user).status == 200)
    let newest = try world.store.simulator.newestTransaction(ofOriginal: original)
    #expect(newest.transactionID != original)
    return (original, newest.transactionID, try #require(newest.orderID))
  }

  @Test func `one field finds a user, a purchase by any of its kept transactions, and an order`() async throws {
    try await run { world in
      let (original, later, order) = try await subscribe(world)
      world.store.simulator.resetCalls()
      for (id, kind) in [(original, "original_transaction_id"), (later, "transaction_id")] {
        let found = try await world.service.lookUp(id)
        #expect(found.kinds == [kind], "\(found.answer.text)")
        #expect(found.owners == ["anna"])
        #expect(found.answer["app_store"] == "not_asked")
        #expect(found.answer["user_id"] == "null")
      }
      let anna = try await world.service.lookUp("anna")
      #expect(anna.kinds == ["user_id"])
      #expect(anna.answer["user_id"] == "anna")
      #expect(anna.owners.isEmpty)
      #expect(world.store.simulator.calls.serverAPI.total == 0, "what is kept is not asked of Apple")

      for id in [order, order.lowercased()] {
        let found = try await world.service.lookUp(id)
        #expect(found.kinds == ["order_id"], "\(found.answer.text)")
        #expect(found.owners == ["anna"])
        #expect(found.answer["app_store"] == "answered")
      }
      #expect(world.store.simulator.calls.serverAPI.byEndpoint == ["lookup": 2])
      #expect(anna.answer.header("Cache-Control") == "no-store")
    }
  }

  @Test func `a transaction that is not kept is resolved by Apple, to a purchase that is`() async throws {
    try await run { world in
      let (original, _, _) = try await subscribe(world)
      world.advance(days: 40)
      let renewed = try world.store.simulator.newestTransaction(ofOriginal: original).transactionID
      let found = try await world.service.lookUp(renewed)
      #expect(found.kinds == ["transaction_id"])
      #expect(found.owners == ["anna"])
      #expect(found.answer["app_store"] == "answered")
      #expect(found.answer["searched_all"] == "true")
      #expect(world.store.simulator.calls.serverAPI.byEndpoint == ["transactions": 1])
    }
  }

  @Test func `an ID that nobody knows is a state of its own, and so is a user never seen`() async throws {
    try await run { world in
      _ = try await subscribe(world)
      for (id, asked) in [
        ("480000099990000", "answered"), ("ann@example.com", "not_asked"), ("MZZZ7ZZZZZ", "answered"),
        ("short", "not_asked"), (String(repeating: "7", count: 128), "not_asked"),
      ] {
        let found = try await world.service.lookUp(id)
        #expect(found.answer.status == 200)
        #expect(found.kinds.isEmpty, "\(id)")
        #expect(found.owners.isEmpty && found.unowned.isEmpty)
        #expect(found.answer["user_id"] == "null")
        #expect(found.answer["app_store"] == asked, "\(id)")
      }
      // The read is the contract's: who is unknown reads as one who never bought.
      #expect(try await world.service.profile("ann@example.com").verdict == "free active no_purchases")
    }
  }

  @Test func `without a key of the Server API it says that orders need one`() async throws {
    try await run(withKey: false) { world in
      let (_, later, order) = try await subscribe(world)
      #expect(try await world.service.lookUp(later).owners == ["anna"])
      let found = try await world.service.lookUp(order)
      #expect(found.kinds.isEmpty)
      #expect(found.answer["app_store"] == "not_configured")
    }
  }

  @Test func `a number that is a user's and a purchase's is told as both, the user first`() async throws {
    try await run { world in
      let (original, later, _) = try await subscribe(world)
      _ = try await subscribe(world, original, subscriber: 2)
      _ = try await subscribe(world, later, subscriber: 3)
      let both = try await world.service.lookUp(original)
      #expect(both.kinds == ["user_id", "original_transaction_id"])
      #expect(both.answer["user_id"] == original)
      #expect(both.owners == ["anna"])
      #expect(try await world.service.lookUp(later).kinds == ["user_id"])
    }
  }

  @Test func `while Apple cannot be asked the ledger's word is told, and that Apple's is missing`() async throws {
    try await run(Settings(appStore: ["deadline": "6s"])) { world in
      let (_, later, order) = try await subscribe(world)
      world.store.simulator.setTrouble(.http503)
      #expect(try await world.service.lookUp(later).owners == ["anna"])
      for id in [order, "480000099990000"] {
        let found = try await world.service.lookUp(id)
        #expect(found.answer.status == 200)
        #expect(found.kinds.isEmpty)
        #expect(found.answer["app_store"] == "unavailable")
      }
    }
  }

  @Test func `an app without a release has no orders, which is no alarm about the key`() async throws {
    try await run { world in
      let (_, _, order) = try await subscribe(world)
      world.store.simulator.setTrouble(.serverAPIKeyRejected)
      #expect(try await world.service.lookUp(order).answer["app_store"] == "unavailable")
      #expect(world.service.log.text.contains("before the app's first release it always does"))
      #expect(!world.service.log.text.contains(#""level":"critical""#))
      #expect(try await world.service.send(.get, "/readyz", key: nil)["app_store"] == "answering")
    }
  }

  @Test func `a web order line item and an anonymous ID of a signed-in customer are found, too`() async throws {
    var settings = Settings()
    settings.dialects = ["revenuecat"]
    try await run(withKey: false, settings) { world in
      let (original, _, _) = try await subscribe(world)
      let purchase = try #require(try await world.service.ledger.ownedPurchases(OriginalTransactionID(original)).first)
      let item = try #require(purchase.evidence.purchases.last?.webOrderLineItemID)
      let found = try await world.service.lookUp(item)
      #expect(found.kinds == ["web_order_line_item_id"] && found.owners == ["anna"], "\(found.answer.text)")
      let anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
      let body = #"{"app_user_id":"\#(anonymous)","new_app_user_id":"anna"}"#
      let joined = try await world.service.send(
        .post, "/v1/subscribers/identify", key: RunningService.publicKey, body: body)
      #expect([200, 201].contains(joined.status), "\(joined.text)")
      let customer = try await world.service.lookUp(anonymous)
      #expect(customer.kinds == ["user_id"] && customer.answer["user_id"] == "anna", "\(customer.answer.text)")
    }
  }

  @Test func `searches are bounded in number and time, and a look-up by an index waits for none`() async throws {
    try await run(withKey: false) { world in
      let (original, later, _) = try await subscribe(world)
      var lookUp = SupportLookUp(
        ledger: world.service.ledger, serverAPI: nil, appStoreHealth: AppStoreHealth(), bundleIDs: [],
        deadline: .seconds(1), searchTime: .zero)
      let logger = world.service.log.logger
      let hurried = try await lookUp.find(UserID(later), logger: logger)
      #expect(!hurried.isComplete && hurried.kinds.isEmpty)
      lookUp.searches = ConcurrencyLimit<UserID>(limit: 0)
      await #expect(throws: ValidationError.self) { try await lookUp.find(UserID(later), logger: logger) }
      #expect(try await lookUp.find("anna", logger: logger).user == "anna")
      #expect(try await lookUp.find(UserID(original), logger: logger).purchases.count == 1)
      // A place is given back.
      lookUp.searches = ConcurrencyLimit<UserID>(limit: 1)
      for _ in 0..<3 { _ = try await lookUp.find(UserID(later), logger: logger) }
    }
  }

  @Test func `a text that is no ID is refused`() async throws {
    try await run(withKey: false) { world in
      for id in [
        "", "a%20b", "%00", "%zz", "me", "%C2%A0", "a%2Fb", String(repeating: "1", count: 129),
        String(repeating: "0", count: 129),
      ] {
        let answer = try await world.service.send(.get, "/v1/lookup/\(id)", key: RunningService.supportKey)
        #expect(answer.status == (id.isEmpty ? 404 : 400), "\(answer.text)")
      }
      // Xcode numbers transactions from 0, which is nobody's name.
      #expect(try await world.service.send(.get, "/v1/lookup/0", key: RunningService.supportKey).status == 200)
    }
  }

  // MARK: What nobody has

  @Test func `a purchase that nobody has is found by Apple's word, and attached with a note`() async throws {
    let account = UUID()
    try await run { world in
      let customer = try world.store.simulator.issueTransaction(.renewing, subscriber: 5, appAccountToken: account)
      let (id, order) = (customer.originalTransactionID, try #require(customer.orderID))
      for (typed, kind) in [
        (id, "original_transaction_id"), (customer.transactionID, "transaction_id"), (order, "order_id"),
      ] {
        let found = try await world.service.lookUp(typed)
        #expect(found.kinds == [kind], "\(found.answer.text)")
        let unowned = try #require(found.unowned.first)
        #expect(unowned["original_transaction_id"] as? String == id)
        #expect(unowned["environment"] as? String == "production")
        #expect(unowned["product_id"] as? String == "com.example.app.pro.monthly")
        #expect(unowned["app_account_token"] as? String == account.uuidString.lowercased())
        #expect(unowned["told_by"] as? String == "app_store")
      }
      // By a later ID, too: Apple says which purchase it is of.
      let attached = try await world.service.transfer(customer.transactionID, to: "ben", note: "Showed the order")
      #expect(attached.status == 200, "\(attached.text)")
      #expect(attached["user_id"] == "ben")
      #expect(attached["original_transaction_id"] == id)
      #expect(try await world.service.profile("ben").verdict == "pro active renewing")
      let history = try await world.service.history(of: "ben")
      #expect(history.kinds == ["verdict", "ownership_change", "revalidation"])
      #expect(history.entries.allSatisfy { $0["note"] as? String == "Showed the order" })
      #expect(history.entries.first?["asked_by"] as? String == "desk")
      #expect(world.service.log.text.contains("a purchase was attached"))
      #expect(try await world.service.lookUp(id).owners == ["ben"])
    }
  }

  @Test func `a purchase that a notification told of is found without asking Apple`() async throws {
    try await run(withKey: false) { world in
      let customer = try world.store.simulator.issueTransaction(.renewing, subscriber: 6)
      let notifications = try world.store.simulator.notifications(of: customer.transactionID)
      let last = try #require(notifications.last)
      #expect(try await world.service.notify(last)["outcome"] == "unclaimed")
      for id in [customer.originalTransactionID, customer.transactionID] {
        let found = try await world.service.lookUp(id)
        let unowned = try #require(found.unowned.first, "\(found.answer.text)")
        #expect(unowned["told_by"] as? String == "notification")
        #expect(unowned["app_account_token"] is NSNull)
      }
      let answer = try await world.service.transfer(customer.originalTransactionID, to: "ben")
      #expect(answer["code"] == "unknown_transaction", "there is no key to ask with")
    }
  }

  @Test func `a purchase that Apple does not know, cannot tell of, or that was made for another is not attached`()
    async throws
  {
    try await run(Settings(appStore: ["deadline": "6s"])) { world in
      let unknown = try await world.service.transfer("480000099990000", to: "ben")
      #expect(unknown.status == 404)
      #expect(unknown["code"] == "unknown_transaction")
      let others = try world.store.simulator.issueTransaction(.renewing, subscriber: 7, appAccountToken: UUID())
      let refused = try await world.service.transfer(others.originalTransactionID, to: UUID().uuidString.lowercased())
      #expect(refused.status == 409, "\(refused.text)")
      let wrong = try await world.service.transfer(others.originalTransactionID, to: "ben", environment: "sandbox")
      #expect(wrong.status == 404)
      world.store.simulator.setTrouble(.http503)
      let later = try await world.service.transfer("480000099990000", to: "ben")
      #expect(later.status == 503)
      #expect(later["code"] == "app_store_unavailable")
      #expect(try await world.service.history(of: "ben").entries.isEmpty, "a slip of the hand leaves no trace")
      #expect(try await world.service.lookUp("ben").kinds.isEmpty)
    }
  }
}

/// The answer of a look-up.
struct LookUpAnswer: @unchecked Sendable {
  // The values of a JSON object are not Sendable, and nobody changes them.
  var answer: Answer
  var kinds: [String] { answer.object["found_as"] as? [String] ?? [] }
  var owners: [String] { answer.array("purchases").compactMap { $0["user_id"] as? String } }
  var unowned: [[String: Any]] { answer.array("unowned") }
}

extension RunningService {
  func lookUp(_ id: String) async throws -> LookUpAnswer {
    let path = id.replacing("@", with: "%40")
    let answer = try await send(.get, "/v1/lookup/\(path)", key: Self.supportKey)
    if answer.status != 200 { throw Failure("\(id): \(answer.text)") }
    return LookUpAnswer(answer: answer)
  }
}

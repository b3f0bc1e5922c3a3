import Entitlements
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// `transaction_found`: whether an app may finish the transaction that it names.
@Suite struct TransactionFoundTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800.123456789)

  private static func post(
    _ receipt: String, _ transaction: String?, of user: String = "anna", to service: RunningService
  ) async throws -> Answer {
    let named = transaction.map { #","transaction_id":\#($0)"# } ?? ""
    return try await service.send(
      .post, "/v1/validations", body: #"{"user_id":"\#(user)","receipt_data":"\#(receipt)"\#(named)}"#)
  }

  @Test func `a transaction is found where the receipt or Apple's answer has it`() async throws {
    try await RunningService.besideStore(at: Self.clock, withServerAPI: true) { service, store in
      // The receipt of a moment before the purchase.
      let empty = try store.simulator.issueReceipt(.empty).receiptData
      let early = try await Self.post(empty, #""480000000010000""#, to: service)
      #expect(early.status == 200 && early["reason"] == "no_purchases" && early["transaction_found"] == "false")
      let bought = try store.simulator.issueReceipt(.renewing)
      let id = bought.originalTransactionIDs[0]
      for (named, found) in [(#""\#(id)""#, "true"), (#""7""#, "false"), ("null", "null"), (nil, "null")] {
        let answer = try await Self.post(bought.receiptData, named, to: service)
        #expect(answer.status == 200 && answer["transaction_found"] == found, "\(named ?? "-"): \(answer.text)")
      }
      let signed = try store.simulator.issueTransaction(.renewing)
      let answer = try await Self.post(signed.signedTransaction, #""\#(signed.transactionID)""#, to: service)
      #expect(answer["transaction_found"] == "true", "\(answer.text)")
      #expect(try await service.profile("anna")["transaction_found"] == "null")
    }
  }

  @Test func `a transaction that Apple only decoded, and that newer ones have replaced, is found`() async throws {
    func row(_ id: String, from begin: Double, until end: Double) -> String {
      let (begin, end) = (Self.clock.addingTimeInterval(begin * 86_400), Self.clock.addingTimeInterval(end * 86_400))
      return #"{"product_id":"com.example.app.pro.monthly","transaction_id":"\#(id)","original_transaction_id":"1","#
        + #""purchase_date_ms":"\#(begin.millisecondsSince1970)","expires_date_ms":"\#(end.millisecondsSince1970)"}"#
    }
    let (old, new) = (row("22", from: -40, until: -10), row("33", from: -10, until: 20))
    let body =
      #"{"status":0,"environment":"Production","receipt":{"bundle_id":"com.example.app","request_date_ms":"#
      + #""\#(Self.clock.millisecondsSince1970)","in_app":[\#(old),\#(new)]},"latest_receipt_info":[\#(new)]}"#
    let authority = try TestCertificateAuthority()
    try await RawTLSServer.answering(identity: try authority.serverIdentity(), answer: { _ in TestAnswer(text: body) })
    {
      server in
      let apple = Apple(productionURL: server.origin, sandboxURL: server.origin, caFile: authority.caFile)
      try await SimulatedStore.run(at: Self.clock) { store in
        var apple = apple
        apple.roots = store.apple.roots
        // It has no purchase of its own.
        let receipt = try store.simulator.issueReceipt(.empty).receiptData
        try await RunningService.run(apple: apple, now: { Self.clock }) { service in
          for (id, found) in [("22", "true"), ("33", "true"), ("1", "true"), ("44", "false")] {
            let answer = try await Self.post(receipt, #""\#(id)""#, to: service)
            #expect(answer["tier"] == "pro" && answer["transaction_found"] == found, "\(id): \(answer.text)")
          }
        }
      }
    }
    withExtendedLifetime(authority) {}
  }

  @Test func `while Apple is away the receipt alone tells`() async throws {
    try await RunningService.besideStore(at: Self.clock, settings: Settings(appStore: ["deadline": "4s"])) {
      service, store in
      let bought = try store.simulator.issueReceipt(.renewing)
      store.simulator.setTrouble(.http503)
      for (named, found) in [(bought.originalTransactionIDs[0], "true"), ("7", "false")] {
        let answer = try await Self.post(bought.receiptData, #""\#(named)""#, to: service)
        #expect(answer.status == 202 && answer["transaction_found"] == found, "\(answer.text)")
      }
    }
  }

  @Test(arguments: [(false, nil), (true, nil), (true, "firebase-ben")] as [(Bool, String?)])
  func `a transaction that was made for another user is not found, unless it has become this user's`(
    isAway: Bool, name: String?
  ) async throws {
    let (anna, ben) = (UUID(), name ?? UUID().uuidString.lowercased())
    let settings = Settings(appStore: isAway ? ["deadline": "4s"] : [:])
    try await RunningService.besideStore(at: Self.clock, withServerAPI: true, settings: settings) { service, store in
      let signed = try store.simulator.issueTransaction(.renewing, appAccountToken: anna)
      func post(of user: String) async throws -> Answer {
        try await Self.post(signed.signedTransaction, #""\#(signed.transactionID)""#, of: user, to: service)
      }
      // It waits with whoever has posted it, and nobody but its user may finish it.
      if isAway { store.simulator.setTrouble(.http503) }
      let others = try await post(of: ben)
      let own = try await post(of: anna.uuidString.lowercased())
      if isAway {
        #expect(others.status == 202 && others["transaction_found"] == "false", "\(others.text)")
        #expect(own.status == 202 && own["transaction_found"] == "true", "\(own.text)")
        return
      }
      #expect(others["code"] == "owned_by_another_user")
      #expect(own["transaction_found"] == "true", "\(own.text)")
      #expect(try await service.transfer(signed.originalTransactionID, to: ben).status == 200)
      #expect(try await post(of: ben)["transaction_found"] == "true")
    }
  }

  @Test func `beside a purchase of this user's in Apple's answer, another user's is not found`() async throws {
    let (anna, ben) = (UUID(), UUID().uuidString.lowercased())
    let settings = DialectBench.settings()
    try await RunningService.besideStore(at: Self.clock, withServerAPI: true, settings: settings) { service, store in
      let signed = try store.simulator.issueTransaction(.twoGroups, appAccountToken: anna)
      func post(of user: String) async throws -> Answer {
        try await Self.post(signed.signedTransaction, #""\#(signed.transactionID)""#, of: user, to: service)
      }
      #expect(try await post(of: anna.uuidString.lowercased())["transaction_found"] == "true")
      let groups = ["480000000010000", "480000000011000"]
      let other = try #require(groups.first { $0 != signed.originalTransactionID })
      #expect(try await service.transfer(other, to: ben).status == 200)
      let answer = try await post(of: ben)
      #expect(answer.status == 409 && answer["code"] == "owned_by_another_user", "\(answer.text)")
      // Nor does any other client have it; RevenueCat's may finish it, as its owner has it.
      let jws = signed.signedTransaction
      for (isRestore, status) in [(false, 409), (true, 200)] {
        let receipt = #"{"app_user_id":"\#(ben)","fetch_token":"\#(jws)","is_restore":\#(isRestore)}"#
        let answer = try await service.send(.post, "/v1/receipts", key: RunningService.publicKey, body: receipt)
        #expect(answer.status == status, "\(answer.text)")
      }
      let validated = try await service.cordova(
        DialectBench.cordova(
          id: "a", ["type": "apple-sk2", "id": signed.transactionID, "jwsRepresentation": jws], user: ben))
      #expect(validated["ok"] == "false", "\(validated.text)")
      #expect(try await post(of: anna.uuidString.lowercased())["transaction_found"] == "true")
    }
  }

  @Test func `a renewal that another user's device posts is its owner's, also beside a purchase of that user's`()
    async throws
  {
    let settings = DialectBench.settings()
    for hasOwn in [true, false] {
      let clock = MovingClock(Self.clock)
      try await RunningService.besideStore(
        at: Self.clock, withServerAPI: true, settings: settings, now: { clock.date }
      ) { service, store in
        let signed = try store.simulator.issueTransaction(.twoGroups)
        func post(_ jws: String, _ id: String, of user: String) async throws -> Answer {
          try await Self.post(jws, #""\#(id)""#, of: user, to: service)
        }
        #expect(try await post(signed.signedTransaction, signed.transactionID, of: "anna").status == 200)
        let groups = ["480000000010000", "480000000011000"]
        let other = try #require(groups.first { $0 != signed.originalTransactionID })
        if hasOwn { #expect(try await service.transfer(other, to: "ben").status == 200) }
        let before = try await service.profile("anna")["access_until"]
        clock.advance(by: 32 * 86_400)
        store.simulator.setClock(clock.date)
        let renewed = try store.simulator.newestTransaction(ofOriginal: signed.originalTransactionID)
        let answer = try await post(renewed.signedTransaction, renewed.transactionID, of: "ben")
        #expect(answer.status == 409 && answer["code"] == "owned_by_another_user", "\(answer.text)")
        #expect(try await (service.profile("ben")["tier"] == "free") != hasOwn)
        try await eventually(clock) { try await service.profile("anna")["access_until"] != before }
      }
    }
  }

  @Test func `a purchase that was made for a user who has not posted it is kept by RevenueCat's SDK`() async throws {
    let (anna, ben) = (UUID(), UUID().uuidString.lowercased())
    let settings = DialectBench.settings()
    try await RunningService.besideStore(at: Self.clock, withServerAPI: true, settings: settings) { service, store in
      let signed = try store.simulator.issueTransaction(.renewing, appAccountToken: anna)
      func post(of user: String) async throws -> Int {
        let receipt = #"{"app_user_id":"\#(user)","fetch_token":"\#(signed.signedTransaction)","is_restore":false}"#
        return try await service.send(.post, "/v1/receipts", key: RunningService.publicKey, body: receipt).status
      }
      #expect(try await post(of: ben) == 503)
      #expect(try await post(of: anna.uuidString.lowercased()) == 200)
      #expect(try await post(of: ben) == 409)
    }
  }

  @Test func `a text that is no transaction ID is a 400`() async throws {
    try await RunningService.run(apple: .unreachable, now: { Self.clock }) { service in
      for id in [#""""#, #""a b""#, #""é""#, "7", "\"\(String(repeating: "1", count: 65))\""] {
        let answer = try await Self.post("MIIB", id, to: service)
        #expect(answer.status == 400 && answer["code"] == "malformed_request")
        #expect(answer["detail"]?.contains("transaction_id") == true, "\(answer.text)")
      }
    }
  }
}

import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `POST /verifyReceipt` as old code asks and reads.
@Suite struct VerifyReceiptTests {
  /// Apple's own answer about a receipt.
  private static func apples(
    _ receipt: String, _ store: SimulatedStore, sandbox: Bool = false, excludesOld: Bool? = nil
  ) async throws -> [UInt8] {
    let client = try CurlTransport(configuration: CurlTransport.Configuration(caFile: store.simulator.rootPEMPath))
    defer { client.shutdown() }
    let body = try DialectBench.verifyReceipt(
      receipt, password: SimulatedStore.sharedSecret, excludesOld: excludesOld ?? false)
    return try await client.send(
      TransportRequest(
        method: .post, url: sandbox ? store.simulator.sandboxURL : store.simulator.productionURL,
        headers: [TransportHeader("Content-Type", "application/json")], body: Array(body.utf8),
        responseBodyLimit: 1 << 22),
      deadline: .now.advanced(by: .seconds(60))
    ).body
  }

  // Apple's answer about another app's receipt is not passed on.
  @Test func `the answer is Apple's, byte for byte, of either store`() async throws {
    try await DialectBench.run { service, store in
      for (number, scenario) in Scenario.allCases.filter({ $0 != .wrongApp }).enumerated() {
        for sandbox in [false, true] {
          let receipt = try store.simulator.issueReceipt(
            scenario, environment: sandbox ? .sandbox : .production, subscriber: Int64(2 * number + (sandbox ? 1 : 2))
          ).receiptData
          for excludesOld in [nil, true] {
            let answer = try await service.verifyReceipt(
              try DialectBench.verifyReceipt(receipt, excludesOld: excludesOld))
            #expect(answer.status == 200)
            let own = try await Self.apples(receipt, store, sandbox: sandbox, excludesOld: excludesOld)
            #expect(answer.body == own, "\(scenario): \(answer.text)")
          }
        }
      }
    }
  }

  @Test func `an answer is recorded for the owner, and written by nobody else`() async throws {
    let clock = MovingClock()
    try await DialectBench.run(now: { clock.date }) { service, store in
      let receipt = try store.simulator.issueReceipt(.subscriber)
      #expect(try await service.validate(receipt.receiptData)["access_until"] == "2024-07-15T12:00:00Z")
      clock.advance(by: 31 * 86_400)
      store.simulator.setClock(clock.date)
      let answer = try await service.verifyReceipt(
        try DialectBench.verifyReceipt(receipt.receiptData, password: RunningService.publicKey))
      #expect(answer["status"] == "0")
      #expect(try await service.state() == "pro active renewing until 2024-08-15T12:00:00Z")
    }
  }

  @Test func `a purchase without an owner is the named user's, or nobody's`() async throws {
    for policy in ["hint", "user_id"] {
      try await DialectBench.run(DialectBench.settings(policy: ["app_account_token": policy])) { service, store in
        let name = try #require(UUID(uuidString: "00000000-0000-4000-8000-000000000002"))
        let named = try store.simulator.issueReceipt(.renewing, subscriber: 1, appAccountToken: name)
        let unnamed = try store.simulator.issueReceipt(.renewing, subscriber: 2)
        for receipt in [named, unnamed] {
          let answer = try await service.verifyReceipt(try DialectBench.verifyReceipt(receipt.receiptData))
          #expect(answer["status"] == "0")
        }
        let tier = policy == "user_id" ? "pro active renewing" : "free active no_purchases"
        #expect(try await service.profile(name.uuidString.lowercased()).verdict == tier)
        let path = "/v1/transactions/\(try #require(unnamed.originalTransactionIDs.first))"
        #expect(try await service.send(.get, path, key: RunningService.supportKey).status == 404)
        // The user who presents it later gets it.
        #expect(try await service.validate(unnamed.receiptData, user: "late").verdict == "pro active renewing")
      }
    }
  }

  @Test func `a password that is no key of a server or an app is 21004`() async throws {
    try await DialectBench.run { service, store in
      let receipt = try store.simulator.issueReceipt().receiptData
      for password in [
        nil, "", "wrong", SimulatedStore.sharedSecret, RunningService.supportKey, try DialectBench.token(),
        String(repeating: "a", count: 100_000),
      ] {
        let answer = try await service.verifyReceipt(try DialectBench.verifyReceipt(receipt, password: password))
        #expect(answer.status == 200)
        #expect(answer.text == "{\"status\":21004}\n", "\(answer.text)")
      }
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `a fault of the receipt has Apple's number`() async throws {
    try await DialectBench.run(DialectBench.settings(policy: ["sandbox": "reject"])) { service, store in
      let wrongApp = try store.simulator.issueReceipt(.wrongApp, subscriber: 1).receiptData
      let sandbox = try store.simulator.issueReceipt(.renewing, environment: .sandbox, subscriber: 2).receiptData
      let refused = try store.simulator.issueReceipt(.renewing, trouble: .status21003, subscriber: 3).receiptData
      let signed = try store.simulator.issueTransaction(.renewing, subscriber: 4).signedTransaction
      for (body, status) in [
        (try DialectBench.verifyReceipt(wrongApp), 21003), (try DialectBench.verifyReceipt(refused), 21003),
        (try DialectBench.verifyReceipt(sandbox), 21007), (try DialectBench.verifyReceipt("none"), 21002),
        (try DialectBench.verifyReceipt(""), 21002), (try DialectBench.verifyReceipt(signed), 21002), ("{", 21000),
        ("[]", 21000),
      ] {
        let answer = try await service.verifyReceipt(body)
        #expect(answer.status == 200)
        #expect(answer["status"] == "\(status)", "\(answer.text)")
      }
    }
  }

  @Test(arguments: [
    Trouble.status21002, .status21004, .status21005, .status21009, .status21100NotRetryable, .http500, .html, .reset,
  ])
  func `a trouble of Apple's is 21009, and never the receipt's fault`(trouble: Trouble) async throws {
    try await DialectBench.run(DialectBench.settings(appStore: ["deadline": "4s"])) { service, store in
      let receipt = try store.simulator.issueReceipt().receiptData
      store.simulator.setTrouble(trouble, count: nil, environment: nil)
      let answer = try await service.verifyReceipt(try DialectBench.verifyReceipt(receipt))
      #expect(answer.status == 503)
      #expect(answer.text == "{\"is-retryable\":true,\"status\":21009}\n")
    }
  }

  @Test func `the type of the body is not looked at, as Apple does not`() async throws {
    try await DialectBench.run { service, store in
      let body = try DialectBench.verifyReceipt(try store.simulator.issueReceipt().receiptData)
      let answer = try await service.send(
        .post, "/verifyReceipt", key: nil, body: body,
        headers: [TransportHeader("Content-Type", "application/x-www-form-urlencoded")])
      #expect(answer["status"] == "0", "\(answer.text)")
    }
  }

  @Test func `a text or a number for a boolean is taken for it`() async throws {
    try await DialectBench.run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      for (text, isTaken) in [
        (#""false""#, false), ("false", false), ("null", false), (#""true""#, true), (#""True""#, true), ("true", true),
        ("0", false), (#""0""#, false), ("\"\"", false), ("1", true), (#""1""#, true),
      ] {
        let body = try DialectBench.verifyReceipt(receipt).replacing(
          "{", with: #"{"exclude-old-transactions":\#(text),"#, maxReplacements: 1)
        let answer = try await service.verifyReceipt(body)
        #expect(answer.body == (try await Self.apples(receipt, store, excludesOld: isTaken)), "\(text) \(answer.text)")
      }
      for text in [#""perhaps""#, "7", "[]"] {
        let body = try DialectBench.verifyReceipt(receipt).replacing(
          "{", with: #"{"exclude-old-transactions":\#(text),"#, maxReplacements: 1)
        #expect(try await service.verifyReceipt(body).text == "{\"status\":21000}\n", "\(text)")
      }
    }
  }

  @Test func `another method is 405, also one that nobody knows`() async throws {
    try await DialectBench.run { service, _ in
      for method in ["GET", "QUERY", "PROPFIND"] {
        let answer = try await service.exchange(
          "\(method) /verifyReceipt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        #expect(answer.hasPrefix("HTTP/1.1 405 ") && answer.lowercased().contains("allow: post"), "\(answer)")
        #expect(answer.hasSuffix("{\"status\":21000}\n"))
      }
    }
  }

  @Test func `without a shared secret the dialect is refused at the start`() async throws {
    try await SimulatedStore.run { store in
      let error = await #expect(throws: ConfigurationError.self) {
        try await RunningService.run(apple: store.apple(withSecret: false), settings: DialectBench.settings()) { _ in }
      }
      let text = "\(try #require(error))"
      #expect(text.contains("verify_receipt needs app_store.shared_secret"))
    }
  }
}

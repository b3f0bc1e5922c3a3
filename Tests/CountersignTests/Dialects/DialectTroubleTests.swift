import Foundation
import HTTPTransport
import HTTPTypes
import HummingbirdCore
import Ledger
import NIOCore
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// Trouble that passes, as each dialect's clients have to be told so that they lose no purchase.
@Suite struct DialectTroubleTests {
  enum Dialect: String, CaseIterable, Sendable {
    case cordova, openIAP, verifyReceipt, revenueCat

    var path: String {
      switch self {
      case .cordova: "/v1/validate"
      case .openIAP: "/v1/purchase/verify"
      case .verifyReceipt: "/verifyReceipt"
      case .revenueCat: "/v1/receipts"
      }
    }

    /// A running subscription, as an app with a public key posts it.
    func body(_ store: SimulatedStore, key: String, subscriber: Int64 = 1) throws -> String {
      switch self {
      case .cordova:
        return try DialectBench.cordova(
          jws: try store.simulator.issueTransaction(.renewing, subscriber: subscriber).signedTransaction)
      case .openIAP:
        return try DialectBench.openIAP(
          try store.simulator.issueTransaction(
            .renewing, subscriber: subscriber, appAccountToken: UUID(uuidString: DialectBench.user)
          ).signedTransaction)
      case .verifyReceipt:
        return try DialectBench.verifyReceipt(
          try store.simulator.issueReceipt(.renewing, subscriber: subscriber).receiptData, password: key)
      case .revenueCat:
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: subscriber).receiptData
        return #"{"app_user_id":"user-1","fetch_token":"\#(receipt)"}"#
      }
    }

    func ask(
      _ service: RunningService, _ body: String, key: String = RunningService.publicKey, headers: [TransportHeader] = []
    ) async throws -> Answer {
      try await service.send(.post, path, key: self == .verifyReceipt ? nil : key, body: body, headers: headers)
    }

    func isSuccess(_ answer: Answer) -> Bool {
      switch self {
      case .cordova: answer.status == 200 && answer["ok"] == "true"
      case .openIAP: answer.status == 200 && answer["isValid"] == "true"
      case .verifyReceipt: answer.status == 200 && answer["status"] == "0"
      case .revenueCat: RevenueCatApp.transaction(after: answer) == .finished
      }
    }

    func isTrouble(_ answer: Answer, status: Int = 503) -> Bool {
      let isTold =
        switch self {
        case .cordova: answer["ok"] == "false"
        case .openIAP: answer.openIAPErrors.count == 1
        case .verifyReceipt: answer["status"] == "21009"
        case .revenueCat: Int(answer["code"] ?? "") != nil
        }
      return isTold && answer.status == status && answer.header("Content-Type") == "application/json"
        && (status != 503 || answer.header("Retry-After") != nil)
    }
  }

  @Test(arguments: Dialect.allCases) func `Apple away is trouble to retry`(dialect: Dialect) async throws {
    try await DialectBench.run(DialectBench.settings(appStore: ["deadline": "4s"])) { service, store in
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let body = try dialect.body(store, key: RunningService.publicKey)
      let answer = try await dialect.ask(service, body)
      #expect(dialect.isTrouble(answer), "\(answer.status) \(answer.text)")
      store.simulator.setTrouble(nil)
      // The breaker may still be open.
      try await eventually { dialect.isSuccess(try await dialect.ask(service, body)) }
    }
  }

  @Test func `the ledger away is trouble to retry`() async throws {
    try await DialectBench.run { service, store in
      await service.ledger.close()
      for dialect in Dialect.allCases {
        for key in [RunningService.publicKey, RunningService.serviceKey] {
          let answer = try await dialect.ask(service, try dialect.body(store, key: key), key: key)
          #expect(dialect.isTrouble(answer), "\(dialect): \(answer.status) \(answer.text)")
        }
      }
    }
  }

  @Test func `too many bytes at once are trouble to retry`() async throws {
    let settings = DialectBench.settings(server: ["max_body": "1MiB", "max_bytes_in_flight": "1MiB"])
    try await RunningService.besideStore(
      withServerAPI: true, settings: settings, bodyPatience: .minutes(10)
    ) { service, store in
      // Strangers, two bodies but for a byte each.
      let holders = [try await HeldConnection(port: service.port), try await HeldConnection(port: service.port)]
      for holder in holders {
        try await holder.send(
          "POST /verifyReceipt HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n"
            + String(repeating: "a", count: 1_048_575))
      }
      try await eventually { try await service.gauge("countersign_http_body_bytes") == 2 * 1_048_575 }
      for dialect in Dialect.allCases {
        let answer = try await dialect.ask(service, try dialect.body(store, key: RunningService.publicKey))
        #expect(dialect.isTrouble(answer), "\(dialect): \(answer.status) \(answer.text)")
      }
      // They keep out neither users nor servers.
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      for key in [try DialectBench.token(), RunningService.serviceKey] {
        let posted = try await service.post(["user_id": DialectBench.user, "receipt_data": receipt], key: key)
        #expect(posted.status == 200, "\(posted.text)")
      }
      for holder in holders { await holder.close() }
    }
  }

  @Test(arguments: Dialect.allCases) func `a rate above the limit is trouble to retry`(dialect: Dialect) async throws {
    let settings = DialectBench.settings(
      server: ["user_rate_limit": "1", "rate_limit": "1", "address_rate_limit": "0"],
      policy: ["app_account_token": "user_id"])
    try await DialectBench.run(settings) { service, store in
      // verifyReceipt names no user before Apple is asked: there the key of a server counts.
      let key = dialect == .verifyReceipt ? RunningService.serviceKey : RunningService.publicKey
      let body = try dialect.body(store, key: key)
      var answers: [Answer] = []
      for _ in 0..<100 where answers.last?.status != 503 {
        answers.append(try await dialect.ask(service, body, key: key))
      }
      let last = try #require(answers.last)
      #expect(dialect.isTrouble(last), "\(last.status) \(last.text)")
    }
  }

  @Test func `a slow body is answered 503 in JSON`() async throws {
    try await RunningService.run(
      apple: .unreachable, settings: DialectBench.settings(), bodyPatience: .milliseconds(100)
    ) { service in
      for dialect in Dialect.allCases {
        let answer = try await service.exchange(
          "POST \(dialect.path) HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
            + "Authorization: Bearer \(RunningService.serviceKey)\r\n\r\n{")
        #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.contains("application/json"), "\(dialect): \(answer)")
      }
    }
  }

  @Test(arguments: Dialect.allCases) func `another app's public key is a 500, and grants nothing`(dialect: Dialect)
    async throws
  {
    try await DialectBench.run { service, store in
      let body = try dialect.body(store, key: DialectBench.otherKey)
      let answer = try await dialect.ask(service, body, key: DialectBench.otherKey)
      #expect(dialect.isTrouble(answer, status: 500), "\(answer.status) \(answer.text)")
      #expect(service.log.text.contains("the public key of another app of ours"))
      #expect(try await service.profile().verdict == "free active no_purchases")
    }
  }

  @Test func `a body that is too large or of another kind is no trouble of ours`() async throws {
    try await DialectBench.run(DialectBench.settings(server: ["max_body": "64KiB", "user_rate_limit": "0"])) {
      service, _ in
      let large = String(repeating: " ", count: 70_000)
      let text = [TransportHeader("Content-Type", "text/plain")]
      let zipped = [TransportHeader("Content-Encoding", "gzip")]
      for (body, headers) in [(large, []), ("{}", text), ("{}", zipped)] {
        let answer = try await Dialect.cordova.ask(service, body, headers: headers)
        #expect(answer.status == 200 && answer["code"] == "6777017", "\(answer.text)")
      }
      for (body, headers, status) in [(large, [], 413), ("{}", text, 415), ("{}", zipped, 415)] {
        let answer = try await Dialect.openIAP.ask(service, body, headers: headers)
        #expect(answer.status == status && answer.openIAPErrors.count == 1, "\(answer.text)")
      }
      for (body, headers, status) in [(large, [], 413), ("{}", zipped, 415)] {
        let answer = try await Dialect.verifyReceipt.ask(service, body, headers: headers)
        #expect(answer.status == status && answer["status"] == "21000", "\(answer.text)")
      }
    }
  }

  @Test func `a dialect that is off is not there`() async throws {
    var settings = DialectBench.settings()
    settings.dialects = []
    try await DialectBench.run(settings) { service, _ in
      for dialect in Dialect.allCases {
        let answer = try await service.exchange(
          "POST \(dialect.path) HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            + "Authorization: Bearer \(RunningService.serviceKey)\r\nConnection: close\r\n\r\n{}")
        // RevenueCat's SDKs would throw a purchase away on a 404.
        #expect(answer.hasPrefix("HTTP/1.1 \(dialect == .revenueCat ? 503 : 404) "), "\(answer)")
      }
    }
  }

  @Test(arguments: Problem.Code.allCases)
  func `no trouble of ours is told as the purchase's fault`(code: Problem.Code) {
    let problem = Problem(code, "why")
    let openIAP = OpenIAPController.errors.response(problem, "/v1/purchase/verify", "id").status
    let verifyReceipt = VerifyReceiptController.errors.response(problem, "/verifyReceipt", "id").status
    #expect((openIAP.kind == .serverError) == code.isRetryable)
    #expect(
      (openIAP == .ok)
        == [.undecodableReceipt, .notAuthentic, .wrongApp, .sandboxRefused].contains(code))
    if code.isRetryable { #expect(verifyReceipt.kind == .serverError) }
  }

  @Test func `a problem of our own interface keeps its form beside every dialect`() async throws {
    let contract = try Contract.shared.get()
    try await DialectBench.run { service, _ in
      for operation in contract.operations {
        let path = operation.path.replacing(/\{[^}]*\}/, with: "x")
        guard let method = TransportRequest.Method(rawValue: operation.method) else { continue }
        let answer = try await service.send(method, path, key: "unknown", body: method == .get ? nil : "{}")
        guard answer.status >= 400 else { continue }
        #expect(answer.header("Content-Type") == "application/problem+json", "\(operation)")
      }
    }
  }

  @Test func `the document names the dialects' operations, and the service has them`() async throws {
    let contract = try Contract.shared.get()
    try await DialectBench.run { service, _ in
      for dialect in Dialect.allCases {
        #expect(contract.dialectOperations.contains(.init(method: "POST", path: dialect.path)))
        #expect(service.routes.contains(.init(path: dialect.path, method: "POST")))
      }
    }
  }
}

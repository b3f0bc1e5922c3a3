import AppStore
import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// Every problem a caller can meet: its status, its code, and that nothing was recorded.
@Suite struct ProblemTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800)

  /// Jobs log a refusal by `ValidationError.code`, callers get the problem's: support compares the two.
  @Test(arguments: [
    ValidationError.undecodableReceipt(detail: ""), .unsupportedReceipt(detail: ""),
    .notAuthentic(detail: "", appleStatus: nil), .wrongApp(appleStatus: nil), .sandboxRefused(appleStatus: nil),
    .ownedByAnotherUser, .unknownTransaction, .notAskable, .clockBehind, .appStoreUnavailable(.unavailable(.trouble)),
    .overloaded, .ledgerUnavailable(.closed), .cancelled, .heldBack,
  ])
  func `a refusal has the same code in the log and in the answer`(error: ValidationError) {
    #expect(Problem(error).code.rawValue == error.code)
  }

  private func run(
    _ settings: Settings = Settings(), body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, settings: settings, now: { Self.clock }) { service in
        try await body(service, store)
      }
    }
  }

  private func expect(
    _ answer: Answer, _ status: Int, _ code: String, _ comment: String = "",
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let comment = Comment(rawValue: "\(comment) \(answer.text)")
    #expect(answer.status == status, comment, sourceLocation: sourceLocation)
    #expect(answer["code"] == code, comment, sourceLocation: sourceLocation)
    #expect(answer["status"] == String(status), comment, sourceLocation: sourceLocation)
    #expect(answer.header("Content-Type") == "application/problem+json", comment, sourceLocation: sourceLocation)
    #expect(answer["request_id"] == answer.header("X-Request-Id"), comment, sourceLocation: sourceLocation)
    #expect(answer["retryable"] == (status >= 500 ? "true" : "false"), comment, sourceLocation: sourceLocation)
    #expect(answer["detail"]?.isEmpty == false, comment, sourceLocation: sourceLocation)
  }

  @Test func `a malformed request is named as such and asks Apple nothing`() async throws {
    let bodies: [(String, String)] = [
      ("broken", #"{"receipt_data": "#),
      ("empty", ""),
      ("not an object", #"["receipt"]"#),
      ("trailing junk", #"{"receipt_data":"MIAA","user_id":"u"} x"#),
      ("a hundred deep", String(repeating: "[", count: 100) + String(repeating: "]", count: 100)),
      ("a hundred thousand deep", String(repeating: "[", count: 100_000)),
      ("another type", #"{"receipt_data": 5, "user_id": "u"}"#),
      ("both", #"{"receipt_data":"MIAA","original_transaction_id":"1","user_id":"u"}"#),
      ("neither", #"{"user_id":"u"}"#),
      ("no user", #"{"receipt_data":"MIAA"}"#),
      ("me", #"{"receipt_data":"MIAA","user_id":"me"}"#),
      ("a user with a slash", #"{"receipt_data":"MIAA","user_id":"a/b"}"#),
      ("an ID with a space", #"{"original_transaction_id":"1 2","user_id":"u"}"#),
      ("a user twice", #"{"user_id":"a","user_id":"b","receipt_data":"MIAA"}"#),
      ("a user in disguise", #"{"user_id":"a","user\u005fid":"b","receipt_data":"MIAA"}"#),
      ("null", "null"),
      ("a comma too many", #"{"receipt_data":"MIAA","user_id":"u",}"#),
      ("a byte order mark", "\u{FEFF}" + #"{"receipt_data":"MIAA","user_id":"u"}"#),
      ("NUL bytes, as UTF-16 has them", "{\u{0}\"\u{0}"),
      ("an empty ID", #"{"original_transaction_id":"","user_id":"u"}"#),
      ("not UTF-8", "{\"user_id\":\"\u{0}\"}"),
    ]
    try await run { service, store in
      for (name, body) in bodies {
        expect(try await service.send(.post, "/v1/validations", body: body), 400, "malformed_request", name)
      }
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `a text that is no receipt is named so, and asks Apple nothing`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let whole = try #require(Data(base64Encoded: receipt))
      let inputs: [(String, String)] = [
        ("empty", ""),
        ("words", "this is not a receipt"),
        ("JSON", #"{"status":0,"receipt":{}}"#),
        ("an ID", "480000000010000"),
        ("double base64", Data(receipt.utf8).base64EncodedString()),
        ("truncated", whole.prefix(whole.count * 4 / 5).base64EncodedString()),
        ("trailing bytes", (whole + Data([0, 0])).base64EncodedString()),
        (
          "percent-encoded",
          receipt.replacingOccurrences(of: "+", with: "%2B").replacingOccurrences(of: "/", with: "%2F")
        ),
        ("a data URL", "data:application/octet-stream;base64,\(receipt)"),
      ]
      for (name, input) in inputs {
        expect(try await service.validate(input), 400, "undecodable_receipt", name)
      }
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `a decoded transaction is told what to send in its place`() async throws {
    try await run { service, _ in
      let decoded =
        #"{"bundleId": "com.example.app", "environment": "Sandbox", "originalTransactionId": "2000001000000001"}"#
      for input in [decoded, Data(decoded.utf8).base64EncodedString()] {
        let answer = try await service.validate(input)
        expect(answer, 400, "undecodable_receipt")
        for word in ["jwsRepresentation", "purchaseToken"] { #expect(answer["detail"]?.contains(word) == true) }
      }
    }
  }

  @Test func `a signed transaction that is none is refused by what is wrong with it`() async throws {
    @Sendable func jws(_ header: String, _ payload: String) -> String {
      [header, payload, "signature"].map {
        Data($0.utf8).base64EncodedString().replacingOccurrences(of: "+", with: "-")
          .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
      }.joined(separator: ".")
    }
    let payload =
      #"{"transactionId":"1","originalTransactionId":"1","bundleId":"com.example.app","productId":"p","#
      + #""environment":"Production","signedDate":1718452800000}"#
    try await run { service, store in
      let header = #"{"alg":"ES256","x5c":[]}"#
      expect(try await service.validate(jws(header, #"{"transactionId":"1"}"#)), 400, "undecodable_receipt")
      expect(try await service.validate(jws(header, payload)), 422, "not_authentic")
      expect(try await service.validate(jws(#"{"alg":"none"}"#, payload)), 422, "not_authentic")
      let renewal = try await service.validate(jws(header, #"{"autoRenewStatus":1}"#))
      expect(renewal, 400, "undecodable_receipt")
      for environment in ["Xcode", "LocalTesting"] {
        let local = try await service.validate(
          jws(#"{"alg":"ES256","x5c":["AAAA"]}"#, payload.replacingOccurrences(of: "Production", with: environment)))
        expect(local, 422, "not_authentic")
        #expect(
          local["detail"]?.contains(environment == "Xcode" ? "Xcode" : "StoreKit testing") == true, "\(local.text)")
      }
      #expect(store.simulator.callsInAll == 0)
    }
  }

  @Test func `a receipt whose plus signs became spaces is repaired`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(receipt.contains("+"))
      let mangled = receipt.replacingOccurrences(of: "+", with: " ")
      #expect(try await service.validate(mangled).verdict == "pro active renewing")
    }
  }

  @Test func `a receipt signed by Xcode is refused by name, and Apple is not asked`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1, format: .xcode)
      let answer = try await service.validate(receipt.receiptData)
      expect(answer, 422, "not_authentic")
      #expect(answer["detail"]?.contains("Xcode") == true)
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `no credential, a wrong one and a misshapen one are all told the same`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let body = #"{"receipt_data":"\#(receipt)","user_id":"user-1"}"#
      let headers: [[TransportHeader]] = [
        [], [TransportHeader("Authorization", "Bearer wrong")], [TransportHeader("Authorization", "Bearer ")],
        [TransportHeader("Authorization", "Basic \(RunningService.serviceKey)")],
        [TransportHeader("Authorization", RunningService.serviceKey)],
        [TransportHeader("Authorization", "Bearer " + String(repeating: "x", count: 5000))],
        [TransportHeader("Authorization", "Bearer \(Settings.sha256(RunningService.serviceKey))")],
        [
          TransportHeader("Authorization", "Bearer \(RunningService.serviceKey)"),
          TransportHeader("Authorization", "Bearer wrong"),
        ],
      ]
      var details: Set<String> = []
      for header in headers {
        let answer = try await service.send(.post, "/v1/validations", key: nil, body: body, headers: header)
        expect(answer, 401, "unauthenticated")
        #expect(answer.header("WWW-Authenticate") == "Bearer")
        details.insert(answer["detail"] ?? "")
        expect(try await service.profile(key: nil, headers: header), 401, "unauthenticated")
      }
      #expect(details.count == 1)
      #expect(store.simulator.calls.total == 0)
      #expect(!service.log.text.contains(RunningService.serviceKey))
    }
  }

  @Test func `'me' is for users, not for keys`() async throws {
    try await run { service, _ in expect(try await service.profile("me"), 403, "forbidden") }
  }

  @Test func `both roles may validate and read`() async throws {
    try await run { service, store in
      for (number, key) in [RunningService.serviceKey, RunningService.supportKey].enumerated() {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number + 1)).receiptData
        #expect(try await service.validate(receipt, user: "user-\(number)", key: key).status == 200)
        #expect(try await service.profile("user-\(number)", key: key).verdict == "pro active renewing")
      }
    }
  }

  @Test func `an ID never seen is unknown`() async throws {
    try await run { service, store in
      expect(try await service.validate(originalTransactionID: "480000000990000"), 404, "unknown_transaction")
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `a path that is not there and a method that is not taken`() async throws {
    try await run { service, _ in
      for path in ["/v1", "/v1/nothing", "/v1/profiles", "/v1/profiles/a/b", "/metrics/../livez"] {
        expect(try await service.send(.get, path), 404, "not_found", path)
      }
      let answer = try await service.send(.get, "/v1/validations")
      expect(answer, 405, "method_not_allowed")
      #expect(answer.header("Allow") == "POST")
      expect(try await service.send(.put, "/v1/profiles/u"), 405, "method_not_allowed")
      let head = try await RawClient.exchange(
        port: service.port, ["HEAD /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"])
      #expect(head.hasPrefix("HTTP/1.1 200 "))
      #expect(head.hasSuffix("\r\n\r\n"), "no body")
      let refused = try await RawClient.exchange(
        port: service.port, ["HEAD /v1/validations HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n"])
      #expect(refused.hasPrefix("HTTP/1.1 401 "))
      #expect(refused.hasSuffix("\r\n\r\n"), "no body")
      expect(try await service.send(.post, "/livez", body: "{}"), 405, "method_not_allowed")
    }
  }

  @Test func `a method that nobody knows is not taken either, and is logged as it was`() async throws {
    let settings = Settings(server: ["admin": "{ port: 0 }"])
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      let admin = try #require(service.adminPort)
      for (port, path) in [(service.port, "/v1/plans"), (service.port, "/livez"), (admin, "/metrics")] {
        for method in ["QUERY", "MKCOL"] {
          let answer = try await RawClient.exchange(
            port: port, ["\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"])
          #expect(answer.hasPrefix("HTTP/1.1 405 "), "\(method) \(path) \(answer)")
          #expect(answer.contains(#""code":"method_not_allowed""#) && answer.lowercased().contains("allow: get, head"))
        }
      }
      let nothing = try await RawClient.exchange(
        port: service.port, ["QUERY /v1/nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"])
      #expect(nothing.hasPrefix("HTTP/1.1 404 "))
      #expect(service.log.text.contains("MKCOL") && !service.log.text.contains("TRACE"))
    }
  }

  @Test(arguments: ["text/plain", "application/x-www-form-urlencoded", "application/problem+json", ""])
  func `a body that is not JSON by its own account`(mediaType: String) async throws {
    try await run { service, _ in
      let answer = try await service.send(
        .post, "/v1/validations", body: #"{"user_id":"u"}"#, headers: [TransportHeader("Content-Type", mediaType)])
      expect(answer, 415, "unsupported_media_type")
    }
  }

  @Test func `a compressed body is refused by name`() async throws {
    try await run { service, _ in
      let answer = try await service.send(
        .post, "/v1/validations", body: "{}", headers: [TransportHeader("Content-Encoding", "gzip")])
      expect(answer, 415, "unsupported_media_type")
      #expect(answer["detail"]?.contains("Content-Encoding") == true)
    }
  }

  @Test func `JSON with a charset is JSON`() async throws {
    try await run { service, _ in
      let answer = try await service.send(
        .post, "/v1/validations", body: "{}",
        headers: [TransportHeader("Content-Type", "Application/JSON; charset=utf-8")])
      expect(answer, 400, "malformed_request")
    }
  }

  @Test func `an authentic receipt of another app is refused, whatever products it names`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.wrongApp, subscriber: 1)
      let answer = try await service.validate(receipt.receiptData)
      expect(answer, 422, "wrong_app")
      #expect(answer["apple_status"] == "0")
      #expect(try await service.profile().verdict == "free active no_purchases")
      let id = try #require(receipt.originalTransactionIDs.first)
      expect(try await service.validate(originalTransactionID: id), 404, "unknown_transaction")
    }
  }

  @Test func `a receipt that Apple cannot authenticate is refused, and what is stored stands`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await service.validate(receipt).verdict == "pro active renewing")
      store.simulator.setTrouble(.status21003, count: nil, environment: nil)
      let answer = try await service.validate(receipt)
      expect(answer, 422, "not_authentic")
      #expect(answer["apple_status"] == "21003")
      #expect(try await service.profile().verdict == "pro active renewing")
    }
  }

  @Test func `with local_verification require, what cannot be proven here is refused and Apple not asked`() async throws
  {
    try await SimulatedStore.run(at: Self.clock) { store in
      var apple = store.apple
      apple.roots = []
      let settings = Settings(policy: ["local_verification": "require"])
      try await RunningService.run(apple: apple, settings: settings, now: { Self.clock }) { service in
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
        expect(try await service.validate(receipt.receiptData), 422, "not_authentic")
        let old = try store.simulator.issueReceipt(.renewing, subscriber: 2, format: .ios6)
        expect(try await service.validate(old.receiptData), 422, "not_authentic")
        #expect(store.simulator.calls.total == 0)
      }
    }
  }

  @Test func `a ledger that is closed answers 503, for writing and for reading`() async throws {
    // Closing is the one failure of a disk that a test can bring about at will; the ledger's own tests show the others.
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, now: { Self.clock }) { service in
        await service.ledger.close()
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
        let written = try await service.validate(receipt)
        expect(written, 503, "ledger_unavailable")
        #expect(written.header("Retry-After") == "5")
        expect(try await service.profile(), 503, "ledger_unavailable")
        #expect(service.log.lines.count { $0.contains("the ledger is unavailable") && $0.contains("closed") } == 2)
        let ready = try await service.send(.get, "/readyz", key: nil)
        #expect(ready.status == 503)
        #expect(ready["ledger"] == "closed")
      }
    }
  }
}

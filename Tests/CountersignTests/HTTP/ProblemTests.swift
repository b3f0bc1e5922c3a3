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
  /// Jobs log a refusal by `ValidationError.code`, callers get the problem's: support compares the two.
  @Test(arguments: [
    ValidationError.undecodableReceipt(detail: ""), .unreadableSignedData(detail: ""), .unsupportedReceipt(detail: ""),
    .notAuthentic(detail: "", appleStatus: nil), .wrongApp(appleStatus: nil), .sandboxRefused(appleStatus: nil),
    .ownedByAnotherUser, .unknownTransaction, .notAskable, .clockBehind, .appStoreUnavailable(.unavailable(.trouble)),
    .overloaded, .ledgerUnavailable(.closed), .cancelled, .heldBack, .ofUnknownOwnership, .keyOfAnotherApp,
  ])
  func `a refusal has the same code in the log and in the answer`(error: ValidationError) {
    #expect(Problem(error).code.rawValue == error.code)
  }

  private func run(
    _ settings: Settings = Settings(), body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await RunningService.besideStore(settings: settings, body: body)
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
      ("a word that names nobody", #"{"receipt_data":"MIAA","user_id":"undefined"}"#),
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
      let inputs = [
        ("empty", ""), ("an ID", "480000000010000"), ("a data URL", "data:application/octet-stream;base64,\(receipt)"),
      ]
      for (name, input) in inputs {
        expect(try await service.validate(input), 400, "undecodable_receipt", name)
      }
      let decoded = try await service.validate(#"{"bundleId": "com.example.app", "originalTransactionId": "2000001"}"#)
      expect(decoded, 400, "undecodable_receipt")
      for word in ["jwsRepresentation", "purchaseToken"] { #expect(decoded["detail"]?.contains(word) == true) }
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `a receipt that Apple signed and nobody here can read is kept by the app`() async throws {
    try await run { service, store in
      let pki = try DevelopmentPKI()
      let receipt = try pki.unreadableReceipt(at: noon)
      for text in [receipt, receipt.replacing("+", with: "-").replacing("/", with: "_") + "\n"] {
        expect(try await service.validate(text), 500, "internal_error")
      }
      #expect(service.log.text.contains("attribute 1704 is not a readable date"))
      expect(
        try await service.validate(pki.unreadableReceipt(at: noon, signer: pki.transaction)), 400, "undecodable_receipt"
      )
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `a proof that Xcode signed is refused by name, and Apple is not asked`() async throws {
    try await run { service, store in
      var signed = [(try store.simulator.issueReceipt(.renewing, subscriber: 1, format: .xcode).receiptData, "Xcode")]
      for (environment, name) in [("Xcode", "Xcode"), ("LocalTesting", "StoreKit testing")] {
        let payload = """
          {"transactionId":"1","originalTransactionId":"1","bundleId":"com.example.app","productId":"p",\
          "environment":"\(environment)","signedDate":1718452800000}
          """
        let parts = [#"{"alg":"ES256","x5c":["AAAA"]}"#, payload, "signature"]
        signed.append((parts.map { SignedDataSigner.encode(Array($0.utf8)) }.joined(separator: "."), name))
      }
      for (proof, name) in signed {
        let answer = try await service.validate(proof)
        expect(answer, 422, "not_authentic")
        #expect(answer["detail"]?.contains(name) == true, "\(answer.text)")
      }
      #expect(store.simulator.callsInAll == 0)
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

  @Test func `both roles may validate and read, and neither is 'me'`() async throws {
    try await run { service, store in
      for (number, key) in [RunningService.serviceKey, RunningService.supportKey].enumerated() {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number + 1)).receiptData
        #expect(try await service.validate(receipt, user: "user-\(number)", key: key).status == 200)
        #expect(try await service.profile("user-\(number)", key: key).verdict == "pro active renewing")
        expect(try await service.profile("me", key: key), 403, "forbidden")
      }
      store.simulator.resetCalls()
      expect(try await service.validate(originalTransactionID: "480000000990000"), 404, "unknown_transaction")
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `a path that is not there is 404, and a method that is not taken 405`() async throws {
    try await run { service, _ in
      for path in ["/v1", "/v1/nothing", "/v1/profiles", "/v1/profiles/a/b", "/metrics/../livez"] {
        expect(try await service.send(.get, path), 404, "not_found", path)
      }
      let answer = try await service.send(.get, "/v1/validations")
      expect(answer, 405, "method_not_allowed")
      #expect(answer.header("Allow") == "POST")
      expect(try await service.send(.put, "/v1/profiles/u"), 405, "method_not_allowed")
      let head = try await service.exchange("HEAD /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      #expect(head.hasPrefix("HTTP/1.1 200 "))
      #expect(head.hasSuffix("\r\n\r\n"), "no body")
      let refused = try await service.exchange("HEAD /v1/validations HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n")
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
      let nothing = try await service.exchange("QUERY /v1/nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      #expect(nothing.hasPrefix("HTTP/1.1 404 "))
      #expect(service.log.text.contains("MKCOL") && !service.log.text.contains("TRACE"))
    }
  }

  @Test func `a body is JSON by its own account, and not compressed`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      func post(_ name: String, _ value: String) async throws -> Answer {
        try await service.send(.post, "/v1/validations", body: "{}", headers: [TransportHeader(name, value)])
      }
      for mediaType in ["text/plain", "application/x-www-form-urlencoded", "application/problem+json", ""] {
        expect(try await post("Content-Type", mediaType), 415, "unsupported_media_type", mediaType)
      }
      let compressed = try await post("Content-Encoding", "gzip")
      expect(compressed, 415, "unsupported_media_type")
      #expect(compressed["detail"]?.contains("Content-Encoding") == true)
      expect(try await post("Content-Type", "Application/JSON; charset=utf-8"), 400, "malformed_request")
    }
  }

  @Test func `a purchase of another user's is refused, without a word of who has it`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: "alice").status == 200)
      let second = try await service.validate(receipt, user: "mallory")
      expect(second, 409, "owned_by_another_user")
      #expect(!second.text.contains("alice"))
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
      // At once, where the signature proves whose it is.
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      expect(try await service.validate(receipt.receiptData), 422, "wrong_app")
    }
  }

  @Test func `with local_verification require, what cannot be proven here is refused and Apple not asked`() async throws
  {
    try await SimulatedStore.run { store in
      var apple = store.apple
      apple.roots = []
      let settings = Settings(policy: ["local_verification": "require"])
      try await RunningService.run(apple: apple, settings: settings) { service in
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
    try await RunningService.besideStore { service, store in
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

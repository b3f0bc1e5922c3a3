import Foundation
import Synchronization
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Answers that the simulator does not give, played word for word.
@Suite struct ReplayedAppleTests {
  /// The next answer of Apple's.
  final class Script: Sendable {
    private let answer = Mutex(TestAnswer(text: ""))
    func say(_ body: String, date: String? = nil) {
      let headers = date.map { [(name: "Date", value: $0)] } ?? []
      answer.withLock { $0 = TestAnswer(headers: headers, text: body) }
    }
    func breakDown() { answer.withLock { $0 = TestAnswer(status: 503) } }
    var next: TestAnswer { answer.withLock { $0 } }
  }

  static func run(body: @Sendable (RunningService, Script, String) async throws -> Void) async throws {
    let authority = try TestCertificateAuthority()
    let script = Script()
    let receipt = try ReceiptIssuer(pki: try DevelopmentPKI()).issue(
      ReceiptOrder(scenario: .renewing), at: Timestamp(noon)
    ).receiptData
    try await RawTLSServer.answering(identity: try authority.serverIdentity(), answer: { _ in script.next }) { server in
      let apple = Apple(
        productionURL: server.origin + "/verifyReceipt", sandboxURL: server.origin + "/sandbox",
        caFile: authority.caFile)
      let settings = Settings(appStore: ["deadline": "4s"])
      try await RunningService.run(
        apple: apple, settings: settings, jobPause: .seconds(3600)
      ) { service in try await body(service, script, receipt) }
    }
    withExtendedLifetime(authority) {}
  }

  private static func ms(_ date: Date) -> String { String(Int64(date.timeIntervalSince1970 * 1000)) }

  static func row(
    _ product: String, id: String, expires: TimeInterval?, cancelled: TimeInterval? = nil, account: String? = nil
  ) -> String {
    var members = [
      #""product_id":"com.example.app.\#(product)""#, #""transaction_id":"\#(id)""#,
      #""original_transaction_id":"\#(id)""#, #""purchase_date_ms":"\#(ms(noon - 86_400))""#,
    ]
    if let expires { members.append(#""expires_date_ms":"\#(ms(noon + expires))""#) }
    if let cancelled { members.append(#""cancellation_date_ms":"\#(ms(noon + cancelled))""#) }
    if let account { members.append(#""app_account_token":"\#(account)""#) }
    return "{" + members.joined(separator: ",") + "}"
  }

  static func answer(requested offset: TimeInterval = 0, inApp: [String], latest: [String]) -> String {
    """
    {"status":0,"environment":"Production","receipt":{"bundle_id":"com.example.app",\
    "request_date_ms":"\(ms(noon + offset))","in_app":[\(inApp.joined(separator: ","))]},\
    "latest_receipt_info":[\(latest.joined(separator: ","))]}
    """
  }

  @Test func `while Apple is away, a receipt that was judged before gets what stands, whatever it lists`() async throws
  {
    try await Self.run { (service, script, receipt) async throws in
      // Apple speaks of another purchase than the receipt lists, as it does with exclude-old-transactions.
      script.say(Self.answer(inApp: [], latest: [Self.row("pro.monthly", id: "77", expires: 86_400)]))
      #expect(try await service.validate(receipt).verdict == "pro active renewing")
      script.breakDown()
      let again = try await service.validate(receipt)
      #expect(again.status == 200)
      #expect(again.verdict == "pro active renewing")
      #expect(again["stale"] == "true")
      let byID = try await service.validate(originalTransactionID: "77")
      #expect(byID.status == 200)
      #expect(byID.verdict == "pro active renewing")
      #expect(byID["stale"] == "true")
      // For another user it is new.
      #expect(try await service.validate(receipt, user: "user-2").status == 202)
    }
  }

  @Test(arguments: [true, false])
  func `an iOS 6-style refund counts against an older answer of the newer style`(isDated: Bool) async throws {
    try await Self.run { (service, script, receipt) async throws in
      let running = Self.row("pro.monthly", id: "77", expires: 86_400)
      script.say(Self.answer(requested: -3600, inApp: [], latest: [running]))
      #expect(try await service.validate(receipt).verdict == "pro active renewing")
      let refunded = Self.row("pro.monthly", id: "77", expires: 86_400, cancelled: -300)
        .replacingOccurrences(of: "{", with: #"{"bid":"com.example.app","#)
        .replacingOccurrences(of: "expires_date_ms", with: "expires_date")
      script.say(
        #"{"status":0,"receipt":\#(refunded),"latest_receipt_info":\#(refunded)}"#,
        date: isDated ? "Sat, 15 Jun 2024 12:00:00 GMT" : nil)
      let answer = try await service.validate(receipt)
      // Without any time of Apple's it cannot be told which is newer; with the date of the answer it can.
      #expect(answer.verdict == (isDated ? "free expired refunded" : "pro active renewing"), "\(answer.text)")
    }
  }

  @Test func `an answer that names no app is no verdict, and one that names another is refused`() async throws {
    try await Self.run { (service, script, receipt) async throws in
      let row = Self.row("pro.monthly", id: "77", expires: 86_400)
      script.say(#"{"status":0,"environment":"Production","receipt":{"in_app":[\#(row)]}}"#)
      // The receipt is not one of Apple's, so its own word for its app counts for nothing, and it is not kept.
      #expect(try await service.validate(receipt).status == 503)
      script.say(#"{"status":0,"environment":"Production","receipt":{"bundle_id":"com.other","in_app":[\#(row)]}}"#)
      #expect(try await service.validate(receipt)["code"] == "wrong_app")
    }
  }

  @Test func `the refund of a lifetime purchase counts wherever it is told`() async throws {
    try await Self.run { (service, script, receipt) async throws in
      let bought = Self.row("forever", id: "78", expires: nil)
      let refunded = Self.row("forever", id: "78", expires: nil, cancelled: -300)
      script.say(Self.answer(inApp: [bought], latest: [bought]))
      #expect(try await service.validate(receipt).verdict == "premium active lifetime")
      script.say(Self.answer(requested: 60, inApp: [refunded], latest: [bought]))
      #expect(try await service.validate(receipt).verdict == "free expired refunded")
      script.say(Self.answer(requested: 120, inApp: [bought], latest: [refunded]))
      #expect(try await service.validate(receipt).verdict == "free expired refunded")
    }
  }
}

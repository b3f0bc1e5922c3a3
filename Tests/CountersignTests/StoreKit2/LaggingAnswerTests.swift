import Foundation
import Synchronization
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Answers of Apple's that are a moment behind what Apple has signed.
@Suite struct LaggingAnswerTests {
  /// A period of one subscription, in seconds from noon.
  private struct Period: Sendable {
    var id: String
    var product = "com.example.app.pro.monthly"
    var begin: TimeInterval
    var end: TimeInterval

    static let original = "480000000990001"
    static let lapsed = Period(id: original, begin: -60 * 86_400, end: -30 * 86_400)
    static let running = Period(id: original, begin: -10 * 86_400, end: 20 * 86_400)

    static func bought(_ product: String) -> Period {
      Period(id: "480000000990002", product: "com.example.app.\(product)", begin: -5, end: 30 * 86_400)
    }

    func signed(at moment: Date) throws -> String {
      try LaggingAnswerTests.signed(
        [
          ("transactionId", .string(id)), ("bundleId", "com.example.app"), ("type", "Auto-Renewable Subscription"),
          ("subscriptionGroupIdentifier", "21000001"), ("purchaseDate", .integer(ms(noon + begin))),
          ("expiresDate", .integer(ms(noon + end))), ("productId", .string(product)),
        ], at: moment)
    }

    /// An element of `lastTransactions`.
    func status(at moment: Date) throws -> String {
      let renewal = try LaggingAnswerTests.signed(
        [
          ("productId", .string(product)), ("autoRenewProductId", .string(product)),
          ("autoRenewStatus", .integer(end > 0 ? 1 : 0)),
        ], at: moment)
      return """
        {"originalTransactionId":"\(Self.original)","status":\(end > 0 ? 1 : 2),\
        "signedTransactionInfo":"\(try signed(at: moment))","signedRenewalInfo":"\(renewal)"}
        """
    }

    /// A row of verifyReceipt.
    var row: String {
      """
      {"product_id":"\(product)","transaction_id":"\(id)","original_transaction_id":"\(Self.original)",\
      "purchase_date_ms":"\(ms(noon + begin))","expires_date_ms":"\(ms(noon + end))"}
      """
    }
  }

  private static func ms(_ date: Date) -> Int64 { Int64(date.timeIntervalSince1970 * 1_000) }

  private static func signed(_ members: [(String, JSON)], at moment: Date) throws -> String {
    try DevelopmentPKI().signedData.sign(
      .object(
        members + [
          ("originalTransactionId", .string(Period.original)), ("environment", "Production"),
          ("signedDate", .integer(ms(moment))),
        ]))
  }

  /// The period that Apple's answers have.
  private final class Known: Sendable {
    private let period: Mutex<Period>
    init(_ period: Period) { self.period = Mutex(period) }
    var last: Period {
      get { period.withLock { $0 } }
      set { period.withLock { $0 = newValue } }
    }
  }

  private func run(
    knowing period: Period, withServerAPI: Bool = true, settings: Settings = Settings(),
    body: @Sendable (RunningService, Known, MovingClock) async throws -> Void
  ) async throws {
    let (known, clock, authority) = (Known(period), MovingClock(), try TestCertificateAuthority())
    try await SimulatedStore.run { store in
      try await RawTLSServer.answering(
        identity: try authority.serverIdentity(),
        answer: { request in
          if request.target.hasPrefix("/verifyReceipt") {
            let offset = clock.date.timeIntervalSince(noon)
            return .json(ReplayedAppleTests.answer(requested: offset, inApp: [], latest: [known.last.row]))
          }
          guard request.target.hasPrefix("/inApps/v1/subscriptions/") else {
            return .json(
              #"{"environment":"Production","bundleId":"com.example.app","hasMore":false,"signedTransactions":[]}"#)
          }
          return .json(
            """
            {"environment":"Production","bundleId":"com.example.app","appAppleId":1234567890,"data":\
            [{"subscriptionGroupIdentifier":"21000001","lastTransactions":[\(try known.last.status(at: clock.date))]}]}
            """)
        }
      ) { server in
        var apple = withServerAPI ? store.apple(withSecret: false) : store.apple
        apple.caFile = authority.caFile
        apple.productionURL = server.origin + "/verifyReceipt"
        apple.serverAPI?.productionURL = server.origin
        apple.serverAPI?.sandboxURL = server.origin
        try await RunningService.run(apple: apple, settings: settings, now: { clock.date }) { service in
          try await body(service, known, clock)
        }
      }
    }
    withExtendedLifetime(authority) {}
  }

  @Test(arguments: ["pro.monthly", "premium.monthly"])
  func `a new purchase counts while the Server API has the former one alone, and Apple is asked again`(
    product: String
  ) async throws {
    let bought = Period.bought(product)
    let tier = product.prefix(while: { $0 != "." })
    let former = tier == "pro" ? Period.lapsed : .running
    try await run(knowing: former, settings: Settings(policy: ["reuse": "10m"])) { service, known, clock in
      let signed = try bought.signed(at: noon - 4)
      // A retry gets the same answer of Apple's.
      for _ in 0..<2 {
        let answer = try await service.validate(signed)
        #expect(answer.status == 200)
        #expect(answer.verdict == "\(tier) active renewing", "\(answer.text)")
        #expect(answer["will_renew"] != "true")
      }
      known.last = bought
      try await eventually(clock, step: 30) { try await service.profile()["will_renew"] == "true" }
      #expect(try await service.profile().verdict == "\(tier) active renewing")
    }
  }

  @Test func `an answer that lacks the purchase an hour after it decides`() async throws {
    try await run(knowing: .lapsed) { service, _, clock in
      let signed = try Period.bought("pro.monthly").signed(at: noon - 4)
      #expect(try await service.validate(signed).verdict == "pro active renewing")
      try await eventually(clock) { try await service.profile().verdict == "free expired unknown" }
      #expect(clock.date.timeIntervalSince(noon) >= 3_595)
    }
  }

  @Test(arguments: [(5.0, "true"), (7_200, "false")])
  func `the bound is the same in the answer to another client`(age: TimeInterval, isValid: String) async throws {
    var settings = Settings()
    settings.dialects = ["openiap"]
    try await run(knowing: .lapsed, settings: settings) { service, _, _ in
      var bought = Period.bought("pro.monthly")
      bought.begin = -age
      let answer = try await service.openIAP(try DialectBench.openIAP(try bought.signed(at: noon - 4)))
      #expect(answer["isValid"] == isValid, "\(answer.text)")
    }
  }

  @Test func `a new purchase counts while verifyReceipt has the former one alone, for an hour`() async throws {
    try await run(knowing: .lapsed, withServerAPI: false) { service, _, clock in
      let signed = try Period.bought("pro.monthly").signed(at: noon - 4)
      #expect(try await service.validate(signed)["source"] == "signature")
      let receipt = try ReceiptIssuer(pki: try DevelopmentPKI()).issue(
        ReceiptOrder(scenario: .renewing), at: Timestamp(noon)
      ).receiptData
      #expect(try await service.validate(receipt).verdict == "pro active renewing")
      clock.advance(by: 3_700)
      #expect(try await service.validate(receipt).verdict == "free expired unknown")
    }
  }
}

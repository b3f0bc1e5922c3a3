import Foundation
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Real answers of Apple's, replayed byte for byte through the running service over TLS.
@Suite(.enabled(if: FixtureFolder.isThere, "the fixture folder is not there (COUNTERSIGN_FIXTURES)"))
struct FixtureReplayTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var file: String
    var status = 200
    /// tier, status and reason of a verdict; the code of a problem.
    var expect: String
    var accessUntil = "null"
    var environment = "sandbox"
    var testDescription: String { file }
  }

  /// The verdict of each answer at the moment that Apple gave it, read off it by hand.
  static let answers: [Case] = [
    Case(
      file: "RevenueCat__purchases-ios/vr-revenuecat-sandbox-2020.json", expect: "pro active renewing",
      accessUntil: "2020-07-22T18:39:06Z"),
    // The text form says 2021; the milliseconds, which count, say 2019.
    Case(
      file: "crashoverride777__swifty-receipt-validator/vr-swifty-validsubscription.json",
      expect: "free expired unknown"),
    Case(
      file: "crashoverride777__swifty-receipt-validator/vr-swifty-missingdownloadid.json",
      expect: "free expired unknown"),
    Case(file: "gabrielgarza__monza/vr-monza-response.json", expect: "free expired voluntary"),
    Case(file: "gabrielgarza__monza/vr-monza-cancellation-response.json", expect: "free expired refunded"),
    Case(
      file: "nov__itunes-receipt/vr-nov-array-of-latest-receipt-info.json", expect: "pro active renewing",
      accessUntil: "2014-11-12T15:30:33Z"),
    Case(
      file: "nov__itunes-receipt/vr-nov-autorenew-subscription.json", expect: "free expired unknown",
      environment: "production"),
    // The receipts sent here are refuted by their signatures, and not kept once Apple has said anything.
    Case(file: "nov__itunes-receipt/vr-nov-invalid.json", status: 503, expect: "app_store_unavailable"),
    Case(file: "nov__itunes-receipt/vr-nov-offline.json", status: 503, expect: "app_store_unavailable"),
    // Authentic, ours, and of products that the catalog does not know.
    Case(file: "nov__itunes-receipt/vr-nov-valid-application.json", expect: "free active no_known_product"),
    // Renewal info names another original transaction: it is not joined, so whether it renews is not known.
    Case(
      file: "nomad__venice/vr-venice-receipt-not-expired-cancelled.json", expect: "pro active renewing",
      accessUntil: "2014-06-28T14:47:53Z", environment: "production"),
    Case(file: "aporat__store-receipt-validator/vr-aporat-21002.json", status: 503, expect: "app_store_unavailable"),
    Case(
      file: "youknowone__itunes-iap/vr-youknowone-autorenew-response-legacy.json", expect: "free expired unknown",
      environment: "production"),
    Case(file: "youknowone__itunes-iap/vr-youknowone-autorenew-response2.json", expect: "free expired voluntary"),
    Case(
      file: "synthetic/syn-01-active.json", expect: "pro active renewing", accessUntil: "2024-07-01T00:00:00Z",
      environment: "production"),
    Case(
      file: "synthetic/syn-02-active-renew-off.json", expect: "pro cancelled renewal_off",
      accessUntil: "2024-07-01T00:00:00Z", environment: "production"),
    Case(
      file: "synthetic/syn-03-expired-voluntary.json", expect: "free expired voluntary", environment: "production"),
    Case(
      file: "synthetic/syn-04-grace.json", expect: "premium grace_period billing_grace",
      accessUntil: "2024-06-26T00:00:00Z", environment: "production"),
    Case(
      file: "synthetic/syn-07-retry-without-grace.json", expect: "premium grace_period billing_retry",
      accessUntil: "2024-08-09T00:00:00Z", environment: "production"),
    Case(file: "synthetic/syn-10-refunded.json", expect: "free expired refunded", environment: "production"),
    Case(
      file: "synthetic/syn-13-upgrade.json", expect: "premium active renewing", accessUntil: "2024-07-10T00:00:00Z",
      environment: "production"),
    Case(
      file: "synthetic/syn-15-downgrade-pending.json", expect: "premium active renewing",
      accessUntil: "2024-07-01T00:00:00Z", environment: "production"),
    Case(
      file: "synthetic/syn-18-family-shared.json", expect: "pro active renewing", accessUntil: "2024-07-01T00:00:00Z",
      environment: "production"),
    Case(
      file: "synthetic/syn-20-trial.json", expect: "pro active renewing", accessUntil: "2024-06-17T00:00:00Z",
      environment: "production"),
    Case(
      file: "synthetic/syn-21-sandbox.json", expect: "premium active renewing", accessUntil: "2024-06-15T12:30:00Z"),
    Case(file: "synthetic/syn-22-wrong-bundle.json", status: 422, expect: "wrong_app"),
    Case(file: "synthetic/syn-25-lifetime.json", expect: "premium active lifetime", environment: "production"),
    Case(file: "synthetic/syn-status-21004.json", status: 503, expect: "app_store_unavailable"),
    Case(file: "synthetic/syn-status-21100-retryable.json", status: 503, expect: "app_store_unavailable"),
  ]

  static var settings: Settings {
    var settings = Settings()
    settings.bundleIDs = [
      "com.example.app", "com.revenuecat.sampleapp", "com.swiftyreceiptvalidator", "com.musteus.musteus",
      "com.notkeepingitreal.fizzbuzz", "com.tekkinnovations.fars", "com.foo.bar", "com.example.001",
      "com.sumiapp.GridDiary",
    ]
    for product in [
      "com.revenuecat.annual_39.99.2_week_intro", "com.revenuecat.monthly_4.99.1_week_intro",
      "com.swiftyreceiptvalidator.03months", "com.example.product_id", "com.musteus.musteus.subscription.month",
      "com.notkeepingitreal.fizzbuzz.subscription.autorenew1m",
      "com.foo.product1", "com.example.premium.1y", "testproduct", "com.sumiapp.GridDiary.pro_subscription",
    ] { settings.products[product] = "{ tier: pro }" }
    settings.products["com.sumiapp.GridDiary.pro"] = "{ tier: premium, kind: lifetime }"
    return settings
  }

  @Test(arguments: answers)
  func `each recorded answer gets its verdict`(expected: Case) async throws {
    let body = try FixtureFolder.data(expected.file)
    try await Self.replay({ _ in TestAnswer(body: Array(body)) }) { service in
      let answer = try await service.validate(try Self.anyReceipt())
      #expect(answer.status == expected.status, "\(answer.text)")
      if expected.status == 200 {
        #expect(answer.verdict == expected.expect, "\(answer.text)")
        #expect(answer["access_until"] == expected.accessUntil)
        #expect(answer["environment"] == expected.environment)
        #expect(try await service.profile().status == 200)
      } else {
        #expect(answer["code"] == expected.expect, "\(answer.text)")
      }
    }
  }

  @Test func `every open case of these kinds is in the table`() throws {
    struct Manifest: Decodable {
      struct Case: Decodable { var kind: String, file: String }
      var cases: [Case]
    }
    let manifest = try JSONDecoder().decode(Manifest.self, from: try FixtureFolder.data("manifest.json"))
    let kinds = ["verifyreceipt_response", "synthetic_verifyreceipt"]
    let open = Set(manifest.cases.filter { kinds.contains($0.kind) }.map(\.file))
    #expect(open == Set(Self.answers.map(\.file)))
  }

  /// A recorded conversation with Apple: what was sent where, and what came back.
  struct Exchange: Decodable, Sendable {
    struct Request: Decodable, Sendable {
      struct Body: Decodable, Sendable {
        var receipt: String
        enum CodingKeys: String, CodingKey { case receipt = "receipt-data" }
      }
      var url: String
      var body: Body
    }
    struct Response: Decodable, Sendable {
      var body_raw: String
    }
    var request: Request
    var response: Response
  }

  @Test(
    arguments: [
      ("exchange-exclude-old-transactions", 200, "free expired billing_error"),
      ("exchange-receipt", 200, "premium active lifetime"),
      // The text that was sent is no receipt; it is refused here, and Apple never hears of it.
      ("exchange-invalid-receipt", 400, "undecodable_receipt"),
      // The recording ends with 21007: what the sandbox said is not in it, so there is no verdict.
      ("exchange-sandbox-receipt-to-production", 202, "free active no_purchases"),
    ])
  func `each recorded exchange is had again`(name: String, status: Int, expect: String) async throws {
    let exchange = try JSONDecoder().decode(
      [Exchange].self, from: try FixtureFolder.data("linjunpop__receipt_verifier/\(name).json"))
    let receipt = try #require(exchange.first?.request.body.receipt)
    try await Self.replay({ request in
      // The service sends production and sandbox to two paths, as the recording has two hosts.
      let host = request.target.hasPrefix("/sandbox") ? "sandbox." : "buy."
      let step = exchange.first { $0.request.url.contains(host) }
      return TestAnswer(text: step?.response.body_raw ?? "")
    }) { service in
      let answer = try await service.validate(receipt)
      #expect(answer.status == status, "\(answer.text)")
      #expect((status < 300 ? answer.verdict : answer["code"]) == expect, "\(answer.text)")
    }
  }

  /// A decodable receipt: what Apple says of it is in the recording.
  private static func anyReceipt() throws -> String {
    try ReceiptIssuer(pki: try DevelopmentPKI()).issue(
      ReceiptOrder(scenario: .renewing), at: Timestamp(Date(timeIntervalSince1970: 1_718_452_800))
    ).receiptData
  }

  private static func replay(
    _ answer: @escaping @Sendable (TestRequest) -> TestAnswer, body: @Sendable (RunningService) async throws -> Void
  ) async throws {
    let authority = try TestCertificateAuthority()
    try await RawTLSServer.answering(identity: try authority.serverIdentity(), answer: answer) { server in
      let apple = Apple(
        productionURL: server.origin + "/verifyReceipt", sandboxURL: server.origin + "/sandbox/verifyReceipt",
        caFile: authority.caFile)
      try await RunningService.run(apple: apple, settings: settings, body: body)
    }
    withExtendedLifetime(authority) {}
  }
}

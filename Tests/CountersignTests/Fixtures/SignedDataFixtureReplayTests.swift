import Foundation
import Testing

@testable import Countersign

/// Real notifications and signed transactions of Apple's, and made-up ones, posted to the running service.
@Suite(.enabled(if: FixtureFolder.isThere, "the fixture folder is not there (COUNTERSIGN_FIXTURES)"))
struct SignedDataFixtureReplayTests {
  private static func moment(_ text: String) throws -> Date { try Date(text, strategy: .iso8601) }

  /// The inner transaction of a notification; nothing is verified.
  private static func innerTransaction(_ body: String) throws -> String? {
    struct Body: Decodable { var signedPayload: String }
    struct Payload: Decodable {
      struct Inner: Decodable { var signedTransactionInfo: String? }
      var data: Inner
    }
    let payload = try JSONDecoder().decode(Body.self, from: Data(body.utf8)).signedPayload
    let parts = payload.split(separator: ".")
    var base64 = String(try #require(parts.dropFirst().first)).replacing("-", with: "+").replacing("_", with: "/")
    base64 += String(repeating: "=", count: (4 - base64.count % 4) % 4)
    let data = try #require(Data(base64Encoded: base64))
    return try JSONDecoder().decode(Payload.self, from: data).data.signedTransactionInfo
  }

  private func run(
    bundle: String = "com.example.app", products: [String: String] = [:], roots: [String] = [], at moment: Date,
    policy: [String: String] = [:], secret: String = "s",
    body: @Sendable (RunningService) async throws -> Void
  ) async throws {
    var settings = Settings(policy: policy)
    settings.bundleIDs = [bundle]
    settings.products.merge(products) { $1 }
    var apple = Apple.unreachable
    apple.roots = roots.map { FixtureFolder.root.appending(path: $0).path(percentEncoded: false) }
    apple.sharedSecret = secret
    try await RunningService.run(apple: apple, settings: settings, now: { moment }, body: body)
  }

  struct ReportedRow: Sendable, CustomTestStringConvertible {
    var file: String
    var clock: String
    var verdict: String
    var until: String
    var testDescription: String { file }
  }

  /// Made up by the fixtures' authors. A refund ends access at once, and is not called cancelled here.
  static let reported: [ReportedRow] = [
    ReportedRow(
      file: "own-grace", clock: "2024-06-10T00:05:00Z", verdict: "premium grace_period billing_grace",
      until: "2024-06-26T00:00:00Z"),
    ReportedRow(
      file: "own-refund-current", clock: "2024-06-12T10:00:05Z", verdict: "free expired refunded", until: "null"),
    ReportedRow(
      file: "own-auto-renew-disabled", clock: "2024-06-13T10:00:05Z", verdict: "premium cancelled renewal_off",
      until: "2025-06-01T00:00:00Z"),
    ReportedRow(
      file: "own-unknown-type", clock: "2024-06-13T10:00:05Z", verdict: "premium active renewing",
      until: "2025-06-01T00:00:00Z"),
  ]

  @Test(arguments: reported)
  func `a notification's evidence counts, whatever its type`(reported: ReportedRow) async throws {
    let body = String(decoding: try FixtureFolder.data("own-pki/\(reported.file).json"), as: UTF8.self)
    let transaction = try #require(try Self.innerTransaction(body))
    try await run(
      products: ["com.example.premium.1y": "{ tier: premium }"], roots: ["own-pki/fixture-root-ec.der"],
      at: try Self.moment(reported.clock)
    ) { service in
      #expect(try await service.notify(body)["outcome"] == "unclaimed")
      #expect(try await service.notify(body)["outcome"] == "duplicate")
      let answer = try await service.validate(transaction)
      #expect(answer.verdict == reported.verdict, "\(answer.text)")
      #expect(answer["access_until"] == reported.until)
    }
    // Not by Apple.
    try await run(at: try Self.moment(reported.clock)) { (service: RunningService) async throws -> Void in
      #expect(try await service.notify(body)["outcome"] == "refused")
      #expect(try await service.validate(transaction)["code"] == "not_authentic")
    }
  }

  @Test func `a notification signed in 2022, without a date of its own, is taken as of what it carries`() async throws {
    let file = "go-pay__gopay/n2-gopay-did-renew-2022.json"
    let body = String(decoding: try FixtureFolder.data(file), as: UTF8.self)
    let transaction = try #require(try Self.innerTransaction(body))
    let product = "com.audaos.audarecorder.vip.m2"
    try await run(
      bundle: "com.audaos.audarecorder", products: [product: "{ tier: pro }"],
      at: try Self.moment("2022-03-04T09:44:00Z")
    ) { service in
      #expect(try await service.notify(body)["outcome"] == "unclaimed")
      let answer = try await service.validate(transaction)
      #expect(answer.verdict == "pro active renewing", "\(answer.text)")
      #expect(answer["environment"] == "sandbox")
      #expect(answer["access_until"] == "2022-03-04T09:46:36Z")
      #expect(answer["will_renew"] == "true")
    }
    try await run(at: try Self.moment("2022-03-04T09:44:00Z")) { (service: RunningService) async throws -> Void in
      #expect(try await service.notify(body)["outcome"] == "refused")
      #expect(try await service.validate(transaction)["code"] == "wrong_app")
    }
  }

  @Test func `a test notification of Apple's is noted`() async throws {
    let folder = "aporat__store-receipt-validator"
    let text = String(decoding: try FixtureFolder.data("\(folder)/n2-aporat-test.json"), as: UTF8.self)
    try await run(bundle: "com.Abilities", at: try Self.moment("2026-01-01T00:00:00Z")) { service in
      let answer = try await service.notify(text)
      #expect(answer["outcome"] == "noted", "\(answer.text)")
      #expect(answer["notification_uuid"] == "5e09dcfc-205e-4ea1-9883-96676f394992")
    }
  }

  @Test func `a transaction that Apple signed years ago, by a certificate that has ended, is authentic`() async throws {
    let jws = try FixtureFolder.text("go-pay__gopay/jws-gopay-order-0.jws")
    let owner = "207262da-1ac8-4e0a-a399-5aa62a82800f"
    try await run(
      bundle: "Com.VoiceRecording.Telephone", products: ["Com.VoiceRecording.Telephone.103": "{ tier: pro }"],
      at: try Self.moment("2026-01-01T00:00:00Z")
    ) { service in
      #expect(try await service.validate(jws, user: UUID().uuidString).status == 409)
      let answer = try await service.validate(jws, user: owner)
      #expect(answer.status == 200, "\(answer.text)")
      #expect(answer["tier"] == "free" && answer["source"] == "signature", "\(answer.text)")
    }
  }

  @Test(arguments: [
    ("awa__go-iap/jws-goiap-renewal-2023.jws", 400, "undecodable_receipt", "renewal info"),
    ("derived/evil-jws-alg-none.jws", 422, "not_authentic", "none"),
    ("apple__app-store-server-library/xcode-signed-transaction.txt", 422, "not_authentic", "Xcode"),
    ("apple__app-store-server-library/testNotification.txt", 400, "undecodable_receipt", "notification"),
  ])
  func `data that is no transaction of Apple's is refused by name`(
    file: String, status: Int, code: String, word: String
  ) async throws {
    let jws = try FixtureFolder.text(file)
    try await run(at: try Self.moment("2026-01-01T00:00:00Z")) { service in
      let answer = try await service.validate(jws)
      #expect(answer.status == status && answer["code"] == code, "\(answer.text)")
      #expect(answer["detail"]?.contains(word) == true, "\(answer.text)")
    }
  }

  @Test func `Xcode's transactions count in development, where the policy says so`() async throws {
    let file = "apple__app-store-server-library/xcode-signed-transaction.txt"
    let jws = try FixtureFolder.text(file)
    try await run(
      bundle: "com.example.naturelab.backyardbirds.example", products: ["pass.premium": "{ tier: premium }"],
      at: try Self.moment("2023-10-20T00:00:00Z"), policy: ["xcode": "accept"]
    ) { service in
      let answer = try await service.validate(jws)
      #expect(answer.verdict == "premium active renewing", "\(answer.text)")
      #expect(answer["environment"] == "sandbox")
    }
  }

  @Test(arguments: [
    "gabrielgarza__monza/n1-monza-did-change-renewal-pref.json", "gabrielgarza__monza/n1-monza-initial-buy.json",
    "gabrielgarza__monza/n1-monza-renewal-with-unified-receipt.json",
    "imdhemy__appstore-iap/n1-imdhemy-anonymised.json",
    "aporat__store-receipt-validator/n1-aporat-did-renew.json",
  ])
  func `version 1 with our secret is noted, and without it is not`(file: String) async throws {
    let body = String(decoding: try FixtureFolder.data(file), as: UTF8.self)
    let object = try #require(try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any])
    let secret = try #require(object["password"] as? String)
    let bundle = object["bid"] as? String ?? "com.example.app"
    let now = try Self.moment("2026-01-01T00:00:00Z")
    let isSecret = secret.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    try #require(isSecret)
    try await run(bundle: bundle, at: now, secret: secret) { (service: RunningService) async throws -> Void in
      #expect(try await service.notify(body)["outcome"] == "noted")
    }
    try await run(bundle: bundle, at: now, secret: "another") { (service: RunningService) async throws -> Void in
      #expect(try await service.notify(body).status == 401)
    }
  }
}

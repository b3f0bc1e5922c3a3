import Foundation
import HTTPTransport
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import CountersignServer

/// A service that speaks the interfaces with `success`, and two users.
enum AppAPIBench {
  static let anna = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  static let ben = "00000000-0000-4000-8000-000000000002"

  /// A family app's catalog, with the products that the simulator sells.
  static func settings(_ dialects: [String] = ["subscriptions_api", "trial_api"], sessions: Int? = nil) -> Settings {
    var settings = Settings(
      server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret],
      tiers: ["{ free: { name: Discovery } }", "{ pro: { name: Family Pro, description: Everything } }", "premium"],
      catalog: [
        "features": """
        { children: { kind: limit, free: 2, pro: 99, premium: unlimited }, favorites: { kind: limit, free: 10, pro: 999 }, \
        shared_users: { kind: limit, free: 1, pro: 99 }, saved_searches: { kind: limit, pro: 10 }, \
        advanced_filters: { pro: true }, calendar_export: { pro: true }, \
        questions: { kind: meter, free: 2 per day, pro: unlimited } }
        """
      ],
      products: [
        "com.example.app.pro.monthly": "{ tier: pro, period: P1M, price: { USD: 5.99, EUR: 6.49 } }",
        "com.example.app.pro.yearly": "{ tier: pro, period: P1Y, price: { USD: 49.99 } }",
        "com.example.app.premium.monthly": "{ tier: premium }",
        "com.example.app.premium.lifetime": "{ tier: premium, kind: lifetime }",
        "com.example.app.forever": "{ tier: premium, kind: lifetime }",
      ])
    settings.dialects = dialects
    let number = sessions.map { ", sessions: \($0)" } ?? ""
    settings.trials = ["week": "{ tier: pro, length: 7d\(number) }"]
    return settings
  }

  static func run(
    _ settings: Settings = settings(),
    body: @Sendable (RunningService, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    try await World.run(settings: settings) { try await body($0.service, $0.store, $0.clock) }
  }

  static func token(_ user: String = anna, _ clock: MovingClock? = nil) throws -> String {
    try TokenMint.user(user, at: clock?.date ?? noon)
  }

  /// JSON with its members in one order and without blanks, so that two texts of the same are the same.
  static func plain(_ json: String) throws -> String {
    let value = try JSONSerialization.jsonObject(with: Data(json.utf8), options: .fragmentsAllowed)
    return String(
      decoding: try JSONSerialization.data(
        withJSONObject: value, options: [.sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed]), as: UTF8.self)
  }

  /// An error of these interfaces, with its status.
  static func expect(
    _ answer: Answer, _ status: Int, _ error: String, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    #expect(answer.status == status, "\(answer.text)", sourceLocation: sourceLocation)
    #expect(answer.header("Content-Type") == "application/json", sourceLocation: sourceLocation)
    #expect(Set(answer.object.keys) == ["success", "error", "message"], sourceLocation: sourceLocation)
    #expect(answer["success"] == "false" && answer["error"] == error, sourceLocation: sourceLocation)
    #expect(answer["message"]?.isEmpty == false, sourceLocation: sourceLocation)
  }

  /// The status of a request that `openapi.yaml` does not know, and its answer whole.
  static func raw(_ method: String, _ path: String, key: String?, port: Int) async throws -> String {
    let credential = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
    return try await RawClient.exchange(
      port: port, ["\(method) \(path) HTTP/1.1\r\nHost: a\r\n\(credential)Connection: close\r\n\r\n"])
  }

  /// Which status each kind of caller gets.
  struct Row: Sendable {
    var method: TransportRequest.Method
    var path: String
    var body: String?
    var user: Int
    var service: Int
    var support: Int
    var isOpen = false
    /// The public key of an app, which names no user.
    var app = 403
  }

  static func check(_ rows: [Row], _ service: RunningService) async throws {
    for row in rows {
      let user = try token(ben)
      let callers: [(name: String, key: String?, status: Int)] = [
        ("nobody", nil, row.isOpen ? row.user : 401), ("garbage", "garbage", row.isOpen ? row.user : 401),
        ("an expired token", try TokenMint.user(ben, at: noon - 7200), row.isOpen ? row.user : 401),
        ("a user", user, row.user), ("a service key", RunningService.serviceKey, row.service),
        ("a support key", RunningService.supportKey, row.support),
        ("a public key", RunningService.publicKey, row.isOpen ? row.user : row.app),
      ]
      for caller in callers {
        let answer = try await service.send(row.method, row.path, key: caller.key, body: row.body)
        #expect(answer.status == caller.status, "\(row.method) \(row.path) with \(caller.name): \(answer.text)")
        if answer.status == 401 {
          try expect(answer, 401, "UNAUTHENTICATED")
          #expect(answer.header("WWW-Authenticate") == "Bearer")
        }
        if answer.status == 403 { try expect(answer, 403, "FORBIDDEN") }
      }
    }
  }
}

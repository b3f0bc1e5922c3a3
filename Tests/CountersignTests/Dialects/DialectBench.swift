import Foundation
import HTTPTransport
import Testing
import TestSupport

@testable import AppStoreSimulator

/// A service that speaks the dialects, and requests as their clients send them.
enum DialectBench {
  /// The key of another app that the same service serves.
  static let otherKey = "appl_another-public-key"
  static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  static func settings(
    server: [String: String] = ["user_rate_limit": "0"], appStore: [String: String] = [:],
    policy: [String: String] = [:]
  ) -> Settings {
    var settings = Settings(server: server, appStore: appStore, policy: policy, jwt: ["secret": TokenMint.secret])
    settings.dialects = ["cordova", "openiap", "verify_receipt", "revenuecat"]
    settings.bundleIDs = ["com.example.app", "com.example.other"]
    settings.publicKeys = [
      "{ name: ios, key: \(RunningService.publicKey), bundle_id: com.example.app }",
      "{ name: other, key: \(otherKey), bundle_id: com.example.other }",
    ]
    return settings
  }

  static func token() throws -> String { try TokenMint.user(user, at: noon) }

  /// A running service beside a simulated App Store, with the Server API.
  static func run(
    _ settings: Settings = settings(), withServerAPI: Bool = true, now: @escaping @Sendable () -> Date = { noon },
    body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await RunningService.besideStore(withServerAPI: withServerAPI, settings: settings, now: now, body: body)
  }

  private static func text(_ object: [String: Any]) throws -> String {
    String(decoding: try JSONSerialization.data(withJSONObject: object), as: UTF8.self)
  }

  /// As cordova-plugin-purchase 13 posts a receipt.
  static func cordova(receipt: String, user: String? = "user-1") throws -> String {
    try cordova(
      id: "com.example.app", ["type": "ios-appstore", "id": "com.example.app", "appStoreReceipt": receipt], user: user)
  }

  static func cordova(jws: String, product: String = "com.example.app.pro.monthly", user: String? = "user-1") throws
    -> String
  {
    try cordova(id: product, ["type": "apple-sk2", "id": product, "jwsRepresentation": jws], user: user)
  }

  static func cordova(id: String, _ transaction: [String: String], user: String?) throws -> String {
    try text([
      "id": id, "type": "application", "transaction": transaction, "offers": [],
      "products": [["id": "a", "offers": []]],
      "currency": "USD", "priceMicros": 4_990_000, "device": ["plugin": "cordova-plugin-purchase/13"],
      "additionalData": user.map { ["applicationUsername": $0] } ?? [:],
    ])
  }

  static func openIAP(_ jws: String, store: String = "apple", expected: String? = nil) throws -> String {
    var body: [String: Any] = ["store": store, "jws": jws, "includeClientPayload": false]
    body["expectedProductId"] = expected
    return try text(body)
  }

  static func verifyReceipt(
    _ receipt: String, password: String? = RunningService.serviceKey, excludesOld: Bool? = nil
  ) throws -> String {
    var body: [String: Any] = ["receipt-data": receipt]
    body["password"] = password
    body["exclude-old-transactions"] = excludesOld
    return try text(body)
  }
}

extension RunningService {
  func cordova(_ body: String, key: String? = serviceKey) async throws -> Answer {
    try await send(.post, "/v1/validate", key: key, body: body)
  }

  func openIAP(_ body: String, key: String? = serviceKey) async throws -> Answer {
    try await send(.post, "/v1/purchase/verify", key: key, body: body)
  }

  /// As OpenIAP's `kitApi` asks about a user.
  func kit(_ question: String, user: String = "user-1") async throws -> Answer {
    try await send(.get, "/v1/subscriptions/\(question)/\(Self.publicKey)?userId=\(user)", key: nil)
  }

  func verifyReceipt(_ body: String) async throws -> Answer {
    try await send(.post, "/verifyReceipt", key: nil, body: body)
  }
}

extension Answer {
  /// `data.collection` of cordova's dialect.
  var collection: [[String: Any]] {
    ((object["data"] as? [String: Any])?["collection"] as? [[String: Any]]) ?? []
  }

  /// The items of `collection`, a line each: product, end, state, renewal, retry, trial, reason.
  var purchases: [String] {
    collection.map { item in
      let end = (item["expiryDate"] as? NSNumber).map {
        Date(timeIntervalSince1970: $0.doubleValue / 1000).formatted(.iso8601)
      }
      let flags = ["isBillingRetryPeriod", "isTrialPeriod", "isIntroPeriod"].filter { item[$0] as? Bool == true }
      let words =
        [
          (item["id"] as? String ?? "?").replacing("com.example.app.", with: ""), end ?? "for life",
          item["isExpired"] as? Bool == true ? "expired" : "running", item["renewalIntent"] as? String ?? "-",
        ] + flags + [item["cancelationReason"] as? String ?? "?"]
      return words.filter { !$0.isEmpty }.joined(separator: " ")
    }
  }

  /// state, product and validity of OpenIAP's dialect.
  var openIAPState: String {
    "\(self["isValid"] ?? "-") \(self["state"] ?? "-") \((self["productId"] ?? "-").replacing("com.example.app.", with: ""))"
  }

  /// The codes in `errors` of OpenIAP's dialect.
  var openIAPErrors: [String] {
    (object["errors"] as? [[String: Any]] ?? []).compactMap { $0["code"] as? String }
  }
}

import CountersignAPI
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// An app with RevenueCat's SDK in it: what it sends, and what it makes of an answer.
struct RevenueCatApp: Sendable {
  /// A running service beside a simulated App Store and a profile store, and an app that calls it.
  static func run(
    _ policy: [String: String] = ["provisional": "24h"], dialects: [String] = ["revenuecat"], serverAPI: Bool = false,
    products: [String: String] = [:], entitlements: String = "cumulative", deadline: String = "1m",
    server: [String: String] = [:], ledger: [String: String] = [:],
    at start: Date = noon,
    body: @Sendable (RevenueCatApp, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    var settings = Settings(
      server: ["user_rate_limit": "0"].merging(server) { $1 }, appStore: ["deadline": deadline], policy: policy,
      jwt: ["secret": TokenMint.secret])
    settings.dialects = dialects
    settings.ledger = ledger
    settings.products.merge(products) { $1 }
    settings.catalog["entitlements"] = entitlements
    try await RunningService.besideStores(
      at: start, withServerAPI: serverAPI, settings: settings, deadline: "1m"
    ) { service, store, profiles, clock in
      try await body(RevenueCatApp(service: service), store, profiles, clock)
    }
  }

  var service: RunningService
  var key: String? = RunningService.publicKey

  /// The end of the transaction in the SDK for iOS (`TransactionPoster`, `NetworkError.swift`).
  enum Transaction: Hashable {
    case finished
    /// It stays in the device's queue, and is posted again.
    case kept
    /// It is finished, and the app is told that the purchase failed: the purchase is lost.
    case lost
  }

  @discardableResult
  func send(
    _ method: TransportRequest.Method, _ path: String, _ body: String? = nil, headers: [TransportHeader] = []
  ) async throws -> Answer {
    try await service.send(method, path, key: key, body: body, headers: headers)
  }

  func read(_ id: String) async throws -> CustomerInfo {
    let answer = try await send(.get, "/v1/subscribers/\(Self.encoded(id))")
    #expect(answer.status == 200 || answer.status == 201, "\(answer.text)")
    return try Self.info(answer)
  }

  func post(_ token: String?, of id: String = "u1", more: String = "", headers: [TransportHeader] = []) async throws
    -> Answer
  {
    // A few of the members that iOS sends besides.
    let token = token.map { #""fetch_token":"\#($0)","# } ?? ""
    return try await send(
      .post, "/v1/receipts",
      #"{"app_user_id":"\#(id)",\#(token)\#(more)"is_restore":false,"observer_mode":false,"price":"4.99","#
        + #""currency":"USD","initiation_source":"purchase","payment_mode":null,"offers":[]}"#, headers: headers)
  }

  func identify(_ id: String, as newID: String) async throws -> Answer {
    try await send(
      .post, "/v1/subscribers/identify", #"{"app_user_id":"\#(id)","new_app_user_id":"\#(newID)"}"#)
  }

  static func info(_ answer: Answer) throws -> CustomerInfo {
    try JSONDecoder.countersign.decode(CustomerInfo.self, from: Data(answer.body))
  }

  /// As a client may percent-encode a segment of the path.
  static func encoded(_ id: String) -> String {
    id.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? id
  }

  static func transaction(after answer: Answer) -> Transaction {
    switch answer.status {
    case 200..<300: (try? info(answer)) == nil ? .kept : .finished
    case 500...: .kept
    default: .lost
    }
  }

  static let anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
}

/// The entitlements that an SDK shows as active, of the members of an answer that it reads, as it reads them.
enum RevenueCatSDK: CaseIterable {
  /// purchases-ios 5.86: `CustomerInfoResponse.swift`, `EntitlementInfo.swift`.
  case ios
  /// purchases-js 1.53: `src/entities/customer-info.ts`.
  case web

  struct Unreadable: Error {
    var why: String
  }

  /// - Parameter now: by the clock of the device.
  func active(_ answer: Answer, at now: Date) throws -> Set<String> {
    let root = answer.object
    guard let requested = try Self.date(root["request_date"]), let subscriber = root["subscriber"] as? [String: Any],
      let entitlements = subscriber["entitlements"] as? [String: [String: Any]],
      let subscriptions = subscriber["subscriptions"] as? [String: [String: Any]],
      let others = subscriber["non_subscriptions"] as? [String: [[String: Any]]]
    else { throw Unreadable(why: "a member is missing: \(answer.text)") }
    for (product, subscription) in subscriptions {
      guard try Self.date(subscription["purchase_date"]) != nil else { throw Unreadable(why: product) }
      _ = try Self.date(subscription["expires_date"])
    }
    return Set(
      try entitlements.filter { name, entitlement in
        guard let product = entitlement["product_identifier"] as? String else { throw Unreadable(why: name) }
        let end = try Self.date(entitlement["expires_date"])
        let bought = others[product] ?? []
        switch self {
        case .ios:
          // One whose product is in neither map is dropped.
          let isListed =
            subscriptions[product] != nil
            || bought.contains { $0["id"] as? String != nil && $0["store_transaction_id"] as? String != nil }
          // The server's time holds while it is fresh.
          let now = now.timeIntervalSince(requested) > 3 * 86_400 ? now : requested
          return isListed && (end.map { $0 >= now } ?? true)
        case .web:
          if subscriptions[product] != nil { return end.map { $0 > now } ?? true }
          guard !bought.isEmpty else { throw Unreadable(why: "\(product) is in neither map") }
          return true
        }
      }.keys)
  }

  /// A date with a zone, fractions or none; `nil` for null and for none.
  private static func date(_ value: Any?) throws -> Date? {
    guard let value, !(value is NSNull) else { return nil }
    let formats = [Date.ISO8601FormatStyle(), Date.ISO8601FormatStyle(includingFractionalSeconds: true)]
    guard let text = value as? String, let date = formats.lazy.compactMap({ try? $0.parse(text) }).first else {
      throw Unreadable(why: "no date: \(value)")
    }
    return date
  }
}

extension CustomerInfo {
  /// The entitlements that an SDK shows as active. It drops one whose product is in neither map.
  var active: Set<String> {
    Set(
      subscriber.entitlements.filter { _, entitlement in
        subscriber.subscriptions[entitlement.productIdentifier] != nil
          || subscriber.nonSubscriptions[entitlement.productIdentifier] != nil
      }.filter { ($0.value.expiresDate ?? .distantFuture) >= requestDate }.keys)
  }
}

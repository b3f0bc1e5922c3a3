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
  static let start = Date(timeIntervalSince1970: 1_718_452_800)

  /// A running service beside a simulated App Store and a profile store, and an app that calls it.
  static func run(
    _ policy: [String: String] = ["provisional": "24h"], dialects: [String] = ["revenuecat"], serverAPI: Bool = false,
    products: [String: String] = [:], deadline: String = "1m",
    body: @Sendable (RevenueCatApp, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    let clock = MovingClock(start)
    try await SimulatedStore.run(at: start) { store in
      try await ProfileStoreDouble.running { profiles in
        var settings = Settings(
          server: ["user_rate_limit": "0"],
          appStore: ["deadline": deadline], policy: policy, jwt: ["secret": TokenMint.secret],
          profileStore: .store(profiles.url, deadline: "1m"))
        settings.dialects = dialects
        settings.products.merge(products) { $1 }
        try await RunningService.run(
          apple: serverAPI ? store.apple() : store.apple, settings: settings, now: { clock.date }
        ) { service in
          try await body(RevenueCatApp(service: service), store, profiles, clock)
        }
      }
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

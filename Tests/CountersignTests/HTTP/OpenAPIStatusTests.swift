import Foundation
import HTTPTransport
import NIOCore
import Synchronization
import Testing
import TestSupport

@testable import AppStoreSimulator

/// Every status that `openapi.yaml` names comes about. That none comes which it does not name is checked with each answer
/// that any test gets.
@Suite struct OpenAPIStatusTests {
  private static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  private static let other = "11111111-1111-4111-8111-111111111111"

  /// Faults of ours, and of what we stand on: `ProblemTests` and the fault suite bring those about.
  private static let faults: Set<Int> = [500, 503]

  /// The pairs of operation and status that have been seen so far.
  private final class Seen: Sendable {
    struct Pair: Hashable, Sendable {
      var operation: Contract.Operation
      var status: Int
    }

    private let pairs = Mutex<Set<Pair>>([])

    var all: Set<Pair> { pairs.withLock { $0 } }

    func note(_ operation: Contract.Operation, _ status: Int) {
      _ = pairs.withLock { $0.insert(Pair(operation: operation, status: status)) }
    }
  }

  /// One request; `key` nil is without a credential.
  private struct Ask {
    var method: TransportRequest.Method
    var path: String
    var key: String? = RunningService.serviceKey
    var body: String?
    var headers: [TransportHeader] = []
  }

  private static func ask(_ ask: Ask, _ service: RunningService, _ seen: Seen) async throws -> Answer {
    let answer = try await service.send(ask.method, ask.path, key: ask.key, body: ask.body, headers: ask.headers)
    let contract = try Contract.shared.get()
    if let operation = contract.operation(ask.method.rawValue, ask.path) { seen.note(operation, answer.status) }
    return answer
  }

  private static let product = "com.example.app.pro.monthly"

  private static func offer(_ id: String) -> String {
    #"{"user_id":"u","product_id":"\#(product)","offer_id":"\#(id)"}"#
  }

  private static let support = RunningService.supportKey
  private static let notifications = "/v1/notifications/app-store"

  private static let events = "/v1/notifications/revenuecat"
  private static let eventHeader = TransportHeader("Authorization", "Bearer none")
  private static let revenueCat = ["authorization_file": ["Bearer none"]]

  /// Each operation as somebody asks who may, in an order in which all of it works.
  private static func asks(_ receipt: String, id: String, token: String) -> [Ask] {
    [
      Ask(method: .post, path: "/v1/validations", body: #"{"user_id":"u","receipt_data":"\#(receipt)"}"#),
      Ask(method: .get, path: "/v1/profiles/u"),
      Ask(method: .get, path: "/v1/profiles/me/token", key: token),
      Ask(method: .get, path: "/.well-known/jwks.json", key: nil),
      Ask(method: .get, path: "/v1/plans", key: nil),
      Ask(method: .get, path: "/v1/profiles/u/access"),
      Ask(method: .get, path: "/v1/profiles/u/features/children?count=1"),
      Ask(method: .get, path: "/v1/profiles/u/offers"),
      Ask(method: .get, path: "/v1/profiles/u/refunds", key: support),
      Ask(method: .post, path: "/v1/offers/promotional", body: offer("loyal")),
      Ask(method: .post, path: "/v1/offers/introductory", body: offer("loyal")),
      Ask(
        method: .post, path: "/v1/profiles/u/usage/questions", body: #"{"amount":1}"#,
        headers: [TransportHeader("Idempotency-Key", "one")]),
      Ask(method: .put, path: "/v1/profiles/u/usage/children", body: #"{"count":1}"#),
      Ask(method: .delete, path: "/v1/profiles/u/usage/questions/one"),
      Ask(
        method: .post, path: "/v1/profiles/u/grants", key: support, body: #"{"tier":"pro","for":"1d","note":"why"}"#,
        headers: [TransportHeader("Idempotency-Key", "one")]),
      Ask(method: .get, path: "/v1/profiles/u/grants", key: support),
      Ask(method: .delete, path: "/v1/profiles/u/grants/1", key: support, body: #"{"note":"why"}"#),
      Ask(method: .post, path: "/v1/trials", body: #"{"user_id":"t","device_id":"\#(user)"}"#),
      Ask(method: .get, path: "/v1/trials/\(user)"),
      Ask(
        method: .patch, path: "/v1/trials/\(user)", key: support,
        body: #"{"expires_at":"2024-06-23T12:00:00Z","note":"why"}"#),
      Ask(method: .get, path: "/v1/trials?state=running", key: support),
      Ask(
        method: .post, path: "/v1/trials/import",
        body: """
          {"trials":[{"device_id":"44444444-4444-4444-8444-444444444444","started_at":"2024-06-14T12:00:00Z",\
          "expires_at":"2024-06-20T12:00:00Z"}]}
          """),
      Ask(method: .put, path: "/v1/devices/\(other)", key: token, body: "{}"),
      Ask(method: .post, path: "/v1/trials", key: token, body: #"{"device_id":"\#(other)"}"#),
      Ask(method: .post, path: "/v1/trials/\(other)/sessions", key: token, body: "{}"),
      Ask(method: .get, path: "/v1/lookup/u", key: support),
      Ask(method: .get, path: "/v1/profiles/u/history", key: support),
      Ask(method: .post, path: "/v1/profiles/u/revalidation", key: support, body: #"{"note":"why"}"#),
      Ask(method: .get, path: "/v1/profiles/u/export"), Ask(method: .delete, path: "/v1/profiles/u2"),
      Ask(method: .get, path: "/v1/transactions/\(id)", key: support),
      Ask(
        method: .post, path: "/v1/transactions/\(id)/transfer", key: support, body: #"{"to":"u","note":"why"}"#),
      Ask(method: .post, path: "/v1/revalidations", body: #"{"expiring_within":"24h","dry_run":true}"#),
      Ask(
        method: .post, path: "/v1/revalidations", body: #"{"expiring_within":"24h"}"#,
        headers: [TransportHeader("Idempotency-Key", "one")]),
      Ask(method: .get, path: "/v1/revalidations/1"),
      Ask(method: .get, path: "/v1/events"),
      Ask(method: .get, path: "/v1/events/newest?types=subscription.started,subscription.renewed&limit=1"),
      Ask(method: .get, path: "/v1/events/newest?types=paywall_viewed"),
      Ask(method: .post, path: "/v1/events", key: token, body: #"{"events":[{"type":"paywall_viewed"}]}"#),
      Ask(method: .get, path: "/v1/webhooks"), Ask(method: .get, path: "/v1/webhooks/dead?webhook=shop"),
      Ask(method: .post, path: "/v1/webhooks/redeliver", body: #"{"webhook":"shop"}"#),
      Ask(method: .get, path: "/v1/notifications/refused", key: support),
      Ask(method: .get, path: "/v1/notifications/history", key: support),
      Ask(method: .post, path: "/v1/notifications/test", key: support),
      Ask(method: .post, path: "/v1/notifications/history", body: #"{"since":"2020-01-01T00:00:00Z"}"#),
      Ask(method: .get, path: "/v1/purchases/7/consumption", key: support),
      Ask(method: .put, path: "/v1/purchases/7/consumption", body: #"{"customer_consented":true}"#),
      Ask(method: .get, path: "/v1/purchases/7/consumption"),
      Ask(method: .get, path: "/v1/purchases/x/consumption"),
      Ask(method: .get, path: "/v1/purchases/7/extensions", key: support),
      Ask(method: .get, path: "/v1/purchases/7/extensions?environment=moon"),
      Ask(method: .post, path: "/v1/purchases/\(id)/extensions", body: #"{"days":3,"reason":"other"}"#),
      Ask(method: .post, path: "/v1/purchases/7/extensions", body: #"{"days":3,"reason":"other"}"#),
      Ask(
        method: .post, path: "/v1/products/com.example.app.pro.monthly/extensions",
        body: #"{"days":3,"reason":"service_issue"}"#),
      Ask(method: .post, path: "/v1/products/none/extensions", body: #"{"days":3,"reason":"other"}"#),
      Ask(method: .get, path: "/v1/extensions"), Ask(method: .get, path: "/v1/extensions?of=moons"),
      Ask(method: .get, path: "/v1/extensions/1"), Ask(method: .get, path: "/v1/extensions/7000"),
      Ask(method: .get, path: "/v1/figures"), Ask(method: .get, path: "/v1/figures?from=never"),
      Ask(method: .get, path: "/v1/experiments"), Ask(method: .get, path: "/v1/experiments?from=never"),
      Ask(method: .get, path: "/v1/revalidations"), Ask(method: .get, path: "/v1/status"),
      Ask(method: .get, path: "/v1/profiles/u/trials", key: support),
      Ask(method: .get, path: "/v1/brake"), Ask(method: .delete, path: "/v1/brake"),
      Ask(method: .post, path: notifications, key: nil, body: #"{"signedPayload":"none"}"#),
      Ask(
        method: .post, path: events, key: nil,
        body: #"{"event":{"id":"1","type":"TEST","event_timestamp_ms":1718452800000}}"#, headers: [eventHeader]),
      Ask(method: .get, path: "/livez", key: nil), Ask(method: .get, path: "/readyz", key: nil),
      Ask(method: .get, path: "/metrics", key: nil), Ask(method: .get, path: "/openapi.yaml", key: nil),
      Ask(method: .get, path: "/", key: nil), Ask(method: .get, path: "/problems/forbidden", key: nil),
      Ask(method: .get, path: "/support", key: nil), Ask(method: .get, path: "/support/", key: nil),
      Ask(method: .get, path: "/support/page.css", key: nil), Ask(method: .get, path: "/support/none.js", key: nil),
    ]
  }

  @Test func `each operation takes the credentials that are documented, and no others`() async throws {
    let token = try TokenMint.user(Self.user, at: noon)
    let contract = try Contract.shared.get()
    var settings = Settings(server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret])
    settings.revenueCat = Self.revenueCat
    // More than ten requests of a user within a second, where the machine is quick.
    try await RunningService.besideStore(settings: settings) { service, _ in
      var asked: Set<Contract.Operation> = []
      for ask in Self.asks("none", id: "1", token: token) {
        let operation = try #require(contract.operation(ask.method.rawValue, ask.path))
        asked.insert(operation)
        let documented = contract.credentials(of: operation)
        let bare = try await service.send(ask.method, ask.path, key: nil, body: ask.body, headers: ask.headers)
        let users = try await service.send(ask.method, ask.path, key: token, body: ask.body)
        guard !documented.isEmpty else {
          // A file of the support page that is not there is a 404, to anybody.
          #expect(bare.status < 400 || bare.status == 404, "\(operation)")
          continue
        }
        #expect(bare.status == 401, "\(operation)")
        // Another user's data is refused as well.
        let isOwn = ![
          "/v1/profiles/u", "/access", "/u/offers", "/features/children?count=1", "/questions", "/questions/one",
        ]
        .contains { ask.path.hasSuffix($0) }
        #expect((users.status == 403) != (documented.contains("user") && isOwn), "\(operation): \(users.status)")
      }
      #expect(asked == contract.operations)
    }
  }

  /// Asks for extensions with a key of the App Store Server API, which the others do without.
  private static func extend(
    _ simulator: RunningSimulator, _ service: RunningService, _ seen: Seen
  ) async throws {
    let bought = try simulator.issueTransaction(.renewing, subscriber: 10)
    _ = try await service.validate(bought.signedTransaction, user: "extended")
    let (purchase, product) = ("purchases/\(bought.originalTransactionID)", "products/com.example.app.pro.monthly")
    func post(_ subject: String, _ days: Int, _ key: String) async throws -> Int {
      let ask = Ask(
        method: .post, path: "/v1/\(subject)/extensions", body: #"{"days":\#(days),"reason":"other"}"#,
        headers: [TransportHeader("Idempotency-Key", key)])
      return try await Self.ask(ask, service, seen).status
    }
    for (subject, days, status) in [(purchase, 3, 200), (purchase, 4, 422), (product, 3, 202), (product, 4, 422)] {
      #expect(try await post(subject, days, "one") == status, "\(subject)")
    }
    // The job's call would take the trouble.
    try await eventually {
      let list = Ask(method: .get, path: "/v1/extensions")
      return try await Self.ask(list, service, seen).text.contains(#""state":"running""#)
    }
    simulator.setTrouble(.reset, count: 1, service: .serverAPI)
    #expect(try await post(purchase, 5, "two") == 202)
    // Apple does not know the product.
    try await eventually { try await post("products/com.example.app.gone", 3, "three") == 200 }
    _ = try await Self.ask(Ask(method: .get, path: "/v1/extensions/1"), service, seen)
  }

  @Test func `every status that is documented comes about`() async throws {
    let seen = Seen()
    let token = try TokenMint.user(Self.user, at: noon)
    try await SimulatedStore.run { store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      let id = try #require(receipt.originalTransactionIDs.first)
      let asks = Self.asks(receipt.receiptData, id: id, token: token)
      var settings = Settings(server: ["max_body": "64KiB", "user_rate_limit": "0"], jwt: ["secret": TokenMint.secret])
      settings.deviceCheck = .deviceCheck(store)
      settings.products[Self.product] = "{ tier: pro, offers: { loyal: pro, first: never }, introductory_offer: never }"
      settings.appStore["offers"] = store.offerKey
      settings.revenueCat = Self.revenueCat
      // Nobody listens there.
      settings.webhooks = ["name: shop, url: https://127.0.0.1:9/hook"]
      settings.webhookSecrets = ["whsec_" + Data(repeating: 7, count: 32).base64EncodedString()]
      try await RunningService.run(apple: store.apple, settings: settings) { service in
        for ask in asks { _ = try await Self.ask(ask, service, seen) }
        let tag = try #require(try await service.profile("u").header("ETag"))
        let others = [
          Ask(method: .get, path: "/v1/profiles/u", headers: [TransportHeader("If-None-Match", tag)]),
          Ask(method: .get, path: "/v1/profiles/somebody-else", key: token),
          Ask(
            method: .get, path: "/v1/plans", key: nil,
            headers: [TransportHeader("If-None-Match", "*")]),
          Ask(method: .get, path: "/v1/profiles/u/access", headers: [TransportHeader("If-None-Match", "*")]),
          Ask(
            method: .get, path: "/.well-known/jwks.json", key: nil, headers: [TransportHeader("If-None-Match", "*")]),
          Ask(method: .get, path: "/v1/profiles/me/token"),
          Ask(method: .get, path: "/v1/profiles/a%20b/token"),
          Ask(method: .get, path: "/v1/profiles/u/features/none"),
          Ask(method: .post, path: "/v1/offers/promotional", body: Self.offer("first")),
          Ask(method: .post, path: "/v1/offers/promotional", body: Self.offer("none")),
          Ask(method: .post, path: "/v1/offers/promotional", key: Self.support, body: Self.offer("loyal")),
          Ask(method: .post, path: "/v1/offers/introductory", key: Self.support, body: Self.offer("loyal")),
          Ask(method: .post, path: "/v1/offers/introductory", body: #"{"user_id":"u","product_id":"none"}"#),
          Ask(method: .put, path: "/v1/profiles/u/usage/none", body: #"{"count":1}"#),
          Ask(
            method: .post, path: "/v1/profiles/u/usage/questions", body: #"{"amount":2}"#,
            headers: [TransportHeader("Idempotency-Key", "two")]),
          Ask(
            method: .post, path: "/v1/profiles/u/usage/questions", body: #"{"amount":1}"#,
            headers: [TransportHeader("Idempotency-Key", "two")]),
          Ask(method: .post, path: "/v1/profiles/u/usage/none", body: "{}"),
          Ask(method: .post, path: "/v1/trials", body: #"{"user_id":"t","device_id":"\#(Self.user)"}"#),
          Ask(method: .get, path: "/v1/trials/\(Self.user)?user_id=t", key: RunningService.publicKey),
          Ask(method: .get, path: "/v1/trials?limit=0"),
          Ask(
            method: .patch, path: "/v1/trials/22222222-2222-4222-8222-222222222222", body: #"{"sessions_total":9}"#),
          Ask(method: .post, path: "/v1/trials", body: #"{"user_id":"x","device_id":"\#(Self.user)"}"#),
          Ask(
            method: .post, path: "/v1/trials",
            body: #"{"user_id":"y","device_id":"22222222-2222-4222-8222-222222222222","device_token":"AAAA"}"#),
          Ask(method: .post, path: "/v1/trials", key: Self.support, body: "{}"),
          Ask(method: .get, path: "/v1/trials/22222222-2222-4222-8222-222222222222"),
          Ask(method: .get, path: "/v1/trials/none"),
          Ask(method: .delete, path: "/v1/profiles/u/usage/none/k"),
          Ask(method: .delete, path: "/v1/profiles/%ff/usage/questions/k"),
          Ask(method: .put, path: "/v1/devices/\(Self.other)", body: "{}"),
          Ask(method: .put, path: "/v1/devices/none", key: token, body: "{}"),
          Ask(method: .post, path: "/v1/trials/\(Self.other)/sessions", key: Self.support, body: "{}"),
          Ask(method: .post, path: "/v1/trials/none/sessions", key: token, body: "{}"),
          Ask(
            method: .post, path: "/v1/trials/22222222-2222-4222-8222-222222222222/sessions", key: token, body: "{}"),
          Ask(
            method: .post, path: "/v1/validations", body: #"{"user_id":"v","receipt_data":"\#(receipt.receiptData)"}"#),
          Ask(method: .post, path: "/v1/validations", body: #"{"user_id":"u","original_transaction_id":"7"}"#),
          // An app's public key is for the dialects.
          Ask(method: .post, path: "/v1/validations", key: RunningService.publicKey, body: "{}"),
          Ask(
            method: .post, path: "/v1/validations",
            body: #"{"user_id":"u","receipt_data":"\#(try store.simulator.issueReceipt(.wrongApp).receiptData)"}"#),
          Ask(
            method: .post, path: "/v1/profiles/u/grants", body: #"{"tier":"pro","for":"2d"}"#,
            headers: [TransportHeader("Idempotency-Key", "one")]),
          Ask(
            method: .post, path: "/v1/revalidations", body: #"{"expiring_within":"48h"}"#,
            headers: [TransportHeader("Idempotency-Key", "one")]),
          Ask(method: .delete, path: "/v1/profiles/u/grants/7"),
          Ask(method: .get, path: "/v1/transactions/7", key: Self.support),
          Ask(
            method: .post, path: "/v1/transactions/7/transfer", key: Self.support, body: #"{"to":"u","note":"why"}"#),
          Ask(method: .get, path: "/v1/events?limit=0"), Ask(method: .get, path: "/v1/events?after=evt_1_99"),
          Ask(method: .post, path: "/v1/events", key: Self.support, body: "{}"),
          Ask(method: .get, path: "/v1/webhooks/dead?webhook=none"),
          Ask(method: .get, path: "/v1/webhooks/dead?webhook=shop&after=x"),
          Ask(method: .post, path: "/v1/webhooks/redeliver", body: #"{"webhook":"none"}"#),
          Ask(method: .get, path: "/v1/revalidations/77"), Ask(method: .get, path: "/problems/none", key: nil),
          Ask(
            method: .post, path: Self.notifications, key: nil,
            body: #"{"notification_type":"DID_RENEW","password":"not ours"}"#),
          Ask(
            method: .post, path: Self.notifications, key: nil, body: "{}",
            headers: [TransportHeader("Content-Encoding", "gzip")]),
          Ask(
            method: .post, path: Self.events, key: nil, body: "{}",
            headers: [TransportHeader("Content-Encoding", "gzip"), Self.eventHeader]),
        ]
        for ask in others { _ = try await Self.ask(ask, service, seen) }
        for var ask in asks {
          let key = ask.key
          // No credential, somebody else's, and a request that is no good.
          ask.key = nil
          _ = try await Self.ask(ask, service, seen)
          ask.key = token
          _ = try await Self.ask(ask, service, seen)
          ask.key = key
          ask.path = ask.path.replacing("/u", with: "/%ff").replacing(id, with: String(repeating: "7", count: 65))
          _ = try await Self.ask(ask, service, seen)
          guard let body = ask.body else { continue }
          ask.path = ask.path.replacing("/%ff", with: "/u").replacing(String(repeating: "7", count: 65), with: id)
          ask.body = "{"
          _ = try await Self.ask(ask, service, seen)
          ask.body = body + String(repeating: " ", count: 600_000)
          _ = try await Self.ask(ask, service, seen)
          ask.body = body
          ask.headers = [TransportHeader("Content-Type", "text/plain")]
          _ = try await Self.ask(ask, service, seen)
        }
        store.simulator.setTrouble(.http503, count: nil, environment: nil)
        let later = try store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
        let pending = Ask(method: .post, path: "/v1/validations", body: #"{"user_id":"w","receipt_data":"\#(later)"}"#)
        _ = try await Self.ask(pending, service, seen)
      }
      // A purchase that nobody has is looked up before it is given away.
      store.simulator.setTrouble(nil)
      var strict = Settings(policy: ["sandbox": "reject"])
      strict.products["com.example.app.gone"] = "{ tier: pro }"
      try await RunningService.run(apple: store.apple(), settings: strict) { service in
        let others = try store.simulator.issueTransaction(.renewing, subscriber: 8, appAccountToken: UUID())
        let tester = try store.simulator.issueTransaction(.renewing, environment: .sandbox, subscriber: 9)
        for id in [others.originalTransactionID, tester.originalTransactionID] {
          let ask = Ask(
            method: .post, path: "/v1/transactions/\(id)/transfer", key: Self.support,
            body: #"{"to":"\#(Self.user)","note":"why","create":true}"#
          )
          _ = try await Self.ask(ask, service, seen)
        }
        try await Self.extend(store.simulator, service, seen)
        // It is configured everywhere else.
        _ = try await Self.ask(Ask(method: .post, path: "/v1/notifications/revenuecat", body: "{}"), service, seen)
      }
      let slow = Settings(
        server: ["rate_limit": "1", "user_rate_limit": "1"], jwt: ["secret": TokenMint.secret])
      try await RunningService.run(apple: store.apple, settings: slow) { service in
        for ask in asks where ask.key != nil {
          for _ in 0..<5 where try await Self.ask(ask, service, seen).status != 429 {}
        }
      }
      // Who needs no credential is known by the address only, and this machine's counts where it is a proxy's.
      var proxied = Settings(
        server: ["address_rate_limit": "1", "trusted_proxies": "[127.0.0.1]"], jwt: ["secret": TokenMint.secret])
      proxied.revenueCat = Self.revenueCat
      try await RunningService.run(apple: store.apple, settings: proxied) { service in
        for var ask in asks where ask.key == nil && ask.path != "/livez" {
          ask.headers = [TransportHeader("X-Forwarded-For", "192.0.2.1")]
          for _ in 0..<5 where try await Self.ask(ask, service, seen).status != 429 {}
        }
      }
      let apart = Settings(server: ["admin": "{ port: 0 }"])
      try await RunningService.run(apple: store.apple, settings: apart) { service in
        let admin = try #require(service.adminPort)
        for path in ["/livez", "/readyz", "/metrics"] {
          let answer = try await RawClient.exchange(
            port: admin, ["GET \(path) HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"])
          #expect(answer.hasPrefix("HTTP/1.1 421 "), "\(path): \(answer)")
          seen.note(try #require(try Contract.shared.get().operation("GET", path)), 421)
        }
      }
      var patient = Settings(jwt: ["secret": TokenMint.secret])
      patient.revenueCat = Self.revenueCat
      try await RunningService.run(
        apple: store.apple, settings: patient, now: { noon },
        bodyPatience: .milliseconds(100)
      ) { service in
        for ask in asks where ask.body != nil {
          let answer = try await service.exchange(
            "\(ask.method.rawValue) \(ask.path) HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
              + "Authorization: Bearer \(ask.key ?? "none")\r\n\r\n{")
          #expect(answer.hasPrefix("HTTP/1.1 408 "), "\(ask.path): \(answer)")
          let operation = try #require(try Contract.shared.get().operation(ask.method.rawValue, ask.path))
          seen.note(operation, 408)
        }
      }
    }
    let contract = try Contract.shared.get()
    for operation in contract.operations.sorted(by: { "\($0)" < "\($1)" }) {
      let documented = contract.statuses(of: operation).subtracting(Self.faults)
      let came = Set(seen.all.filter { $0.operation == operation }.map(\.status)).subtracting(Self.faults)
      #expect(came == documented, "\(operation): \(documented.subtracting(came).sorted()) never came")
    }
  }
}

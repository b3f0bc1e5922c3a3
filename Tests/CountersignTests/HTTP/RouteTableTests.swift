import Foundation
import Testing
import TestSupport

@testable import CountersignServer

/// Who may do what: every route, with every method, tried with every credential.
///
/// A route that is not in `rows` fails the test, so that nobody adds one without saying whom it is for.
@Suite struct RouteTableTests {
  static let own = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  static let other = "00000000-0000-4000-8000-000000000002"

  /// The statuses of a row's request for each caller who is somebody; the others get 401.
  struct Row: Sendable {
    var method: String
    /// As the router has it.
    var route: String
    var path: String
    var body: String?
    /// The user whom the path is about.
    var own: Int
    var other: Int
    var service: Int
    var support: Int
    /// For everybody, with a credential or without.
    var isOpen: Bool
    /// The public key of an app, which names no user.
    var app: Int

    /// - Parameter path: what is asked for; the route of a user of ours, and of what has the number 7, unless it is said.
    init(
      _ method: String, _ route: String, path: String? = nil, body: String? = nil, own: Int = 403, other: Int = 403,
      service: Int = 403, support: Int = 403, isOpen: Bool = false, app: Int = 403
    ) {
      (self.method, self.route, self.body) = (method, route, body)
      self.path = path ?? route.replacing("{user_id}", with: RouteTableTests.own).replacing(/{[a-z_]+}/, with: "7")
      (self.own, self.other, self.service, self.support) = (own, other, service, support)
      (self.isOpen, self.app) = (isOpen, app)
    }

    static func open(_ route: String, path: String? = nil) -> Row {
      Row("GET", route, path: path, own: 200, other: 200, service: 200, support: 200, isOpen: true)
    }
  }

  /// The table. A status of 404 is that of somebody who may ask about a purchase that does not exist.
  static let rows: [Row] = [
    .open("/livez"), .open("/readyz"), .open("/metrics"), .open("/openapi.yaml"),
    .open("/v1/plans"), .open("/"), .open("/.well-known/jwks.json"),
    .open("/problems/{code}", path: "/problems/forbidden"),
    // The page holds nothing; what it shows comes from the routes below.
    .open("/support"), .open("/support/{file}", path: "/support/page.js"),
    // Apple's: what it posts is worth what its signature proves.
    Row(
      "POST", "/v1/notifications/app-store", body: "{}", own: 200, other: 200, service: 200, support: 200, isOpen: true),
    // RevenueCat's: its own header proves it, and no credential of ours does.
    Row(
      "POST", "/v1/notifications/revenuecat", body: "{}", own: 401, other: 401, service: 401, support: 401, isOpen: true
    ),
    // RevenueCat's SDKs keep a purchase while the dialect is off.
    Row("POST", "/v1/receipts", body: "{}", own: 503, other: 503, service: 503, support: 503, isOpen: true),
    Row(
      "POST", "/v1/validations", body: #"{"original_transaction_id":"7","user_id":"\#(own)"}"#, own: 404, other: 404,
      service: 404, support: 404),
    Row("GET", "/v1/profiles/{user_id}", own: 200, service: 200, support: 200),
    Row("GET", "/v1/profiles/{user_id}", path: "/v1/profiles/me", own: 200, other: 200),
    Row("GET", "/v1/profiles/{user_id}/token", own: 200),
    Row("GET", "/v1/profiles/{user_id}/token", path: "/v1/profiles/me/token", own: 200, other: 200),
    Row("GET", "/v1/profiles/{user_id}/access", own: 200, service: 200, support: 200),
    Row(
      "GET", "/v1/profiles/{user_id}/features/{feature}", path: "/v1/profiles/\(own)/features/filters", own: 200,
      service: 200, support: 200),
    // A request that is allowed and wrong: only a meter is consumed.
    Row(
      "POST", "/v1/profiles/{user_id}/usage/{feature}", path: "/v1/profiles/\(own)/usage/children", body: "{}",
      own: 400, service: 400, support: 400),
    Row(
      "PUT", "/v1/profiles/{user_id}/usage/{feature}", path: "/v1/profiles/\(own)/usage/children",
      body: #"{"count":1}"#, service: 200),
    Row(
      "DELETE", "/v1/profiles/{user_id}/usage/{feature}/{key}", path: "/v1/profiles/\(own)/usage/questions/k", own: 404,
      service: 404, support: 404),
    Row("GET", "/v1/profiles/{user_id}/offers", own: 200, service: 200, support: 200),
    // No key signs offers here.
    Row(
      "POST", "/v1/offers/promotional", body: #"{"user_id":"\#(own)","product_id":"p","offer_id":"o"}"#, own: 404,
      other: 404, service: 404),
    Row(
      "POST", "/v1/offers/introductory", body: #"{"user_id":"\#(own)","product_id":"p"}"#, own: 404, other: 404,
      service: 404),
    Row("POST", "/v1/trials", body: "{}", own: 400, other: 400, service: 400, app: 400),
    Row("GET", "/v1/trials", service: 200, support: 200),
    Row("POST", "/v1/trials/import", body: #"{"trials":[]}"#, service: 400),
    Row(
      "GET", "/v1/trials/{device_id}", path: "/v1/trials/\(own)", own: 404, other: 404, service: 404, support: 404,
      app: 404),
    Row(
      "PATCH", "/v1/trials/{device_id}", path: "/v1/trials/\(own)", body: #"{"sessions_total":9,"note":"why"}"#,
      service: 404, support: 404),
    Row(
      "POST", "/v1/trials/{device_id}/sessions", path: "/v1/trials/\(own)/sessions", body: "{}", own: 404, other: 404,
      service: 404, app: 404),
    Row("PUT", "/v1/devices/{device_id}", path: "/v1/devices/\(own)", body: "{}", own: 200, other: 200, app: 200),
    Row("GET", "/v1/profiles/{user_id}/history", support: 200),
    Row("POST", "/v1/profiles/{user_id}/revalidation", body: #"{"note":"why"}"#, service: 200, support: 200),
    Row("GET", "/v1/profiles/{user_id}/grants", service: 200, support: 200),
    Row(
      "POST", "/v1/profiles/{user_id}/grants", body: #"{"tier":"pro","for":"1d","note":"why"}"#, service: 201,
      support: 201),
    Row(
      "DELETE", "/v1/profiles/{user_id}/grants/{grant_id}", path: "/v1/profiles/\(own)/grants/7000",
      body: #"{"note":"why"}"#, service: 404, support: 404),
    Row("GET", "/v1/profiles/{user_id}/export", service: 200, support: 200),
    Row("DELETE", "/v1/profiles/{user_id}", service: 200, support: 200),
    Row("GET", "/v1/lookup/{id}", support: 200),
    Row("GET", "/v1/transactions/{original_transaction_id}", support: 404),
    Row(
      "POST", "/v1/transactions/{original_transaction_id}/transfer", body: #"{"to":"\#(own)","note":"why"}"#,
      support: 404),
    Row("POST", "/v1/revalidations", body: #"{"expiring_within":"24h","dry_run":true}"#, service: 200),
    Row("GET", "/v1/revalidations/{run_id}", service: 404, support: 404),
    Row("GET", "/v1/events", service: 200),
    Row("GET", "/v1/events/newest", path: "/v1/events/newest?types=subscription.refunded", service: 200, support: 200),
    // A server has to name the user of each event.
    Row("POST", "/v1/events", body: #"{"events":[{"type":"paywall_viewed"}]}"#, own: 200, other: 200, service: 400),
    Row("GET", "/v1/figures", service: 200, support: 200),
    Row("GET", "/v1/experiments", service: 200, support: 200),
    Row("GET", "/v1/revalidations", service: 200, support: 200),
    Row("GET", "/v1/status", service: 200, support: 200),
    Row("GET", "/v1/profiles/{user_id}/refunds", service: 200, support: 200),
    Row("GET", "/v1/profiles/{user_id}/trials", service: 200, support: 200),
    Row("GET", "/v1/webhooks", service: 200, support: 200),
    // None is configured here.
    Row("GET", "/v1/webhooks/dead", path: "/v1/webhooks/dead?webhook=none", service: 404, support: 404),
    Row("POST", "/v1/webhooks/redeliver", body: #"{"webhook":"none"}"#, service: 404, support: 404),
    Row("GET", "/v1/notifications/history", service: 200, support: 200),
    Row("POST", "/v1/notifications/test", service: 200, support: 200),
    Row("POST", "/v1/notifications/history", body: #"{"since":"2020-01-01T00:00:00Z"}"#, service: 202, support: 202),
    Row("GET", "/v1/notifications/refused", service: 200, support: 200),
    Row("GET", "/v1/purchases/{transaction_id}/consumption", service: 404, support: 404),
    Row(
      "PUT", "/v1/purchases/{transaction_id}/consumption", path: "/v1/purchases/8/consumption",
      body: #"{"customer_consented":true}"#, service: 200),
    Row("GET", "/v1/purchases/{original_transaction_id}/extensions", service: 200, support: 200),
    // There is no key of the App Store Server API here.
    Row(
      "POST", "/v1/purchases/{original_transaction_id}/extensions", body: #"{"days":3,"reason":"other","note":"why"}"#,
      service: 404, support: 404),
    Row(
      "POST", "/v1/products/{product_id}/extensions", path: "/v1/products/pro/extensions",
      body: #"{"days":3,"reason":"other","note":"why"}"#, service: 404, support: 404),
    Row("GET", "/v1/extensions", service: 200, support: 200),
    Row("GET", "/v1/extensions/{extension_id}", service: 404, support: 404),
    Row("GET", "/v1/brake", service: 200, support: 200),
    Row("DELETE", "/v1/brake", service: 200, support: 200),
  ]

  /// A caller, what they send as `Authorization`, and what they get.
  struct Credential {
    var name: String
    var header: String?
    /// `nil`: nobody.
    var status: (@Sendable (Row) -> Int)?
  }

  static func credentials() throws -> [Credential] {
    let good = try TokenMint.user(own, at: noon)
    let signature = try #require(good.split(separator: ".").last)
    func nobody(_ name: String, _ header: String?) -> Credential { Credential(name: name, header: header) }
    return [
      nobody("none", nil), nobody("an empty one", "Bearer "), nobody("another scheme", "Basic \(good)"),
      nobody("garbage", "Bearer garbage"), nobody("garbage of three parts", "Bearer a.b.c"),
      nobody("a key that is not ours", "Bearer service-key-for-test"),
      nobody("an expired token", "Bearer \(try TokenMint.user(own, at: noon - 7200))"),
      nobody("a token of tomorrow", "Bearer \(try TokenMint.user(own, at: noon + 86_400))"),
      nobody(
        "a token of another secret",
        "Bearer \(try TokenMint.token(header: #"{"alg":"HS256"}"#, claims: "{}", by: .hs256(Data("other".utf8))))"),
      nobody("an unsigned token", "Bearer \(good.dropLast(signature.count))"),
      nobody("the anon key", "Bearer \(try TokenMint.user(own, at: noon, role: "anon"))"),
      nobody("the service_role key", "Bearer \(try TokenMint.user(own, at: noon, role: "service_role"))"),
      Credential(name: "the user", header: "Bearer \(good)") { $0.own },
      Credential(name: "another user", header: "Bearer \(try TokenMint.user(other, at: noon))") { $0.other },
      Credential(name: "a service key", header: "Bearer \(RunningService.serviceKey)") { $0.service },
      Credential(name: "a support key", header: "Bearer \(RunningService.supportKey)") { $0.support },
      // The key may do whatever either role may do.
      Credential(name: "a key of both roles", header: "Bearer \(RunningService.ownerKey)") {
        [$0.service, $0.support].filter { $0 != 403 }.min() ?? 403
      },
      Credential(name: "a public key", header: "Bearer \(RunningService.publicKey)") { $0.app },
    ]
  }

  @Test func `no credential reaches more than the table says, on any route there is`() async throws {
    var settings = Settings(
      server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    settings.revenueCat = ["authorization_file": ["nobody's here"]]
    let credentials = try Self.credentials()
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      #expect(service.routes.count > 20)
      for route in service.routes {
        let path = route.path
        let ofPath = Self.rows.filter { $0.route == path }
        #expect(!ofPath.isEmpty, "\(path) is not in the table: who may use it?")
        guard let any = ofPath.first else { continue }
        // HEAD is GET without its body.
        let method = route.method == "HEAD" ? "GET" : route.method
        let rows = ofPath.filter { $0.method == method }
        // Of those who are nobody, three are enough where there is nothing to reach.
        let callers = rows.isEmpty ? credentials.filter { $0.status != nil } + credentials.prefix(3) : credentials
        for row in rows.isEmpty ? [Self.notAllowed(any, method)] : rows {
          for credential in callers {
            let expected = row.isOpen ? row.own : credential.status?(row) ?? 401
            let status = try await Self.status(route.method, row, credential.header, service.port)
            #expect(status == expected, "\(route.method) \(row.path) with \(credential.name)")
          }
        }
      }
      for row in Self.rows {
        #expect(
          service.routes.contains(ServiceRoute(path: row.route, method: row.method)),
          "\(row.method) \(row.route) is in the table and not in the service")
      }
    }
  }

  /// Another method of the same path: 405 for whoever may be told that there is such a path.
  private static func notAllowed(_ row: Row, _ method: String) -> Row {
    var row = row
    row.method = method
    (row.own, row.other, row.service, row.support, row.app) = (405, 405, 405, 405, 405)
    return row
  }

  private static func status(_ method: String, _ row: Row, _ credential: String?, _ port: Int) async throws -> Int? {
    let body = row.body ?? ""
    var head = "\(method) \(row.path) HTTP/1.1\r\nHost: a\r\n"
    head += "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n"
    if let credential { head += "Authorization: \(credential)\r\n" }
    let answer = try await RawClient.exchange(port: port, [head + "\r\n" + body])
    return answer.split(separator: " ").dropFirst().first.flatMap { Int($0) }
  }
}

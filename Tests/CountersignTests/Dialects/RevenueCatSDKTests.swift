import CountersignAPI
import Crypto
import Entitlements
import Foundation
import HTTPTransport
import Ledger
import LedgerFixtures
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// RevenueCat's SDK against the running service: what it reads, what it posts, and who may.
@Suite struct RevenueCatSDKTests {
  // MARK: Customers

  @Test func `somebody new is a customer with every member that decoders require`() async throws {
    try await RevenueCatApp.run { app, _, _, clock in
      let answer = try await app.send(.get, "/v1/subscribers/u1")
      #expect(answer.status == 201 && answer.header("X-RevenueCat-Request-Time") == "1718452800000")
      let subscriber =
        #"{"entitlements":{},"first_seen":"2024-06-15T12:00:00Z","last_seen":"2024-06-15T12:00:00Z","#
        + #""management_url":null,"non_subscriptions":{},"original_app_user_id":"u1","#
        + #""original_application_version":null,"original_purchase_date":null,"subscriptions":{}}"#
      #expect(
        answer.text
          == #"{"request_date":"2024-06-15T12:00:00Z","request_date_ms":1718452800000,"subscriber":\#(subscriber)}"#
          + "\n")
      clock.advance(by: 3 * 86_400)
      let again = try await app.send(.get, "/v1/subscribers/u1")
      let info = try RevenueCatApp.info(again)
      #expect(
        again.status == 200 && info.subscriber.firstSeen == noon
          && info.subscriber.lastSeen == clock.date)
    }
  }

  @Test func `an ID is the same however a client spells it in the path`() async throws {
    try await RevenueCatApp.run { app, store, _, _ in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await app.post(receipt, of: RevenueCatApp.anonymous).status == 200)
      for spelling in [RevenueCatApp.anonymous, RevenueCatApp.encoded(RevenueCatApp.anonymous)] {
        let answer = try await app.send(.get, "/v1/subscribers/\(spelling)")
        #expect(answer.status == 200)
        #expect(try RevenueCatApp.info(answer).active == ["pro"])
      }
      let strange = "日本 & <x>".replacing(" ", with: "+")
      #expect(try await app.send(.get, "/v1/subscribers/\(RevenueCatApp.encoded(strange))").status == 201)
      #expect(try await app.read(strange).subscriber.originalAppUserID == strange)
      for id in ["null", "a b", "a/b", "a\u{7}b", String(repeating: "x", count: 101), "(null)", "[object Object]"] {
        let refused = try await app.send(.get, "/v1/subscribers/\(RevenueCatApp.encoded(id))")
        #expect(refused.status == 400 && refused["code"] == "7256", "\(id)")
      }
    }
  }

  @Test func `an ID of any signs is the same to the backend, to support and in a token`() async throws {
    try await RevenueCatApp.run { app, store, profiles, clock async throws in
      let (id, path) = ("anna#1~\u{e9}", "anna%231~%C3%A9")
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: id).status == 200)
      #expect(try await app.service.profile(path).verdict == "pro active renewing")
      // As Apple's systems spell it at times.
      #expect(try await app.service.profile("anna%231~e%CC%81")["user_id"] == id)
      let token = try TokenMint.user(id, at: clock.date)
      #expect(try await app.service.profile("me", key: token).verdict == "pro active renewing")
      for part in ["access", "history", "grants"] {
        let answer = try await app.service.send(
          .get, "/v1/profiles/\(path)/\(part)", key: RunningService.supportKey)
        #expect(answer.status == 200, "\(answer.text)")
      }
      let found = try await app.service.send(.get, "/v1/lookup/\(path)", key: RunningService.supportKey)
      #expect(found["user_id"] == id)
      let asked = try await app.service.send(
        .post, "/v1/profiles/\(path)/revalidation", key: RunningService.supportKey, body: #"{"note":"why"}"#)
      #expect(asked.status == 200, "\(asked.text)")
      try await eventually(clock) { profiles.row(id)?["subscription_tier"] == .text("pro") }
    }
  }

  // MARK: Signing in

  @Test func `a user who signs in keeps earlier purchases`() async throws {
    try await RevenueCatApp.run { app, store, profiles, clock async throws in
      let anonymous = RevenueCatApp.anonymous
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: anonymous).status == 200)
      clock.advance(by: 60)
      let answer = try await app.identify(anonymous, as: "anna")
      #expect(answer.status == 201)
      let anna = try RevenueCatApp.info(answer)
      #expect(anna.active == ["pro"] && anna.subscriber.originalAppUserID == anonymous)
      #expect(anna.subscriber.firstSeen == noon)
      #expect(try await app.service.profile("anna").verdict == "pro active renewing")
      // Both IDs mean one customer from now on.
      var before = try await app.read(anonymous)
      before.requestDate = anna.requestDate
      #expect(before.subscriber == anna.subscriber)
      #expect(try await app.service.profile(RevenueCatApp.encoded(anonymous)).verdict == "pro active renewing")
      try await eventually(clock) { profiles.row("anna")?["subscription_tier"] == .text("pro") }
      #expect(profiles.row(anonymous) == nil)
      // A purchase under the old ID counts for the user.
      let more = try store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      #expect(try RevenueCatApp.info(try await app.post(more, of: anonymous)).active == ["pro", "premium"])
      #expect(try await app.service.profile("anna").verdict == "premium active lifetime")
      #expect(try await app.identify(anonymous, as: "anna").status == 200)
    }
  }

  @Test func `two named users are never joined`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: "anna").status == 200)
      let answer = try await app.identify("anna", as: "ben")
      #expect(answer.status == 201)
      #expect(try RevenueCatApp.info(answer).active.isEmpty)
      #expect(try await app.read("anna").active == ["pro"])
      // An anonymous ID that is anna's already cannot be made ben's.
      #expect(try await app.identify(RevenueCatApp.anonymous, as: "anna").status == 200)
      #expect(try RevenueCatApp.info(try await app.identify(RevenueCatApp.anonymous, as: "ben")).active.isEmpty)
      #expect(try await app.read(RevenueCatApp.anonymous).active == ["pro"])
    }
  }

  @Test func `the alias of older SDKs joins as well`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      let id = RevenueCatApp.anonymous
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: id).status == 200)
      let answer = try await app.send(
        .post, "/v1/subscribers/\(RevenueCatApp.encoded(id))/alias", #"{"new_app_user_id":"anna"}"#)
      #expect(answer.status == 200 && answer.text == "{}\n")
      #expect(try await app.read("anna").active == ["pro"])
    }
  }

  @Test func `grants to the anonymous user and a receipt that waits come along`() async throws {
    try await RevenueCatApp.run { app, store, _, clock async throws in
      let id = RevenueCatApp.anonymous
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: id).status == 200)
      let given = try await app.service.send(
        .post, "/v1/profiles/\(RevenueCatApp.encoded(id))/grants", body: #"{"tier":"premium","for":"1h"}"#)
      #expect(given.status == 201)
      #expect(try RevenueCatApp.info(try await app.identify(id, as: "anna")).active == ["pro", "premium"])
      clock.advance(by: 2 * 3600)
      #expect(try await app.read("anna").active == ["pro"])
      store.simulator.setTrouble(nil)
      clock.advance(by: 2 * 3600)
      store.simulator.setClock(clock.date)
      try await eventually(clock) { try await app.service.ledger.backlog(at: clock.date).pendingReceipts == 0 }
      let settled = try await app.service.profile("anna")
      #expect(settled.verdict == "pro active renewing" && settled["provisional"] == "false")
    }
  }

  // MARK: The rest

  @Test func `attributes are kept, the newest by the device's clock`() async throws {
    try await RevenueCatApp.run { app, _, _, _ in
      func set(_ body: String) async throws -> Answer {
        try await app.send(.post, "/v1/subscribers/u1/attributes", body)
      }
      #expect(
        try await set(
          #"{"attributes":{"$email":{"value":"a@example.com","updated_at_ms":20},"my\/name":{"value":"x","updated_at_ms":20.0}}}"#
        ).text == "{}\n")
      #expect(try await set(#"{"attributes":{"$email":{"value":"old@example.com","updated_at_ms":10}}}"#).status == 200)
      let kept = try await app.service.ledger.attributes(of: "u1")
      #expect(kept["$email"]?.value == "a@example.com" && kept["my/name"]?.value == "x")
      _ = try await set(#"{"attributes":{"$email":{"value":null,"updated_at_ms":30}}}"#)
      #expect(try await app.service.ledger.attributes(of: "u1")["$email"]?.value == nil)
      let refused = try await set(
        #"{"attributes":{"9":{"value":"x","updated_at_ms":1},"long":{"value":"\#(String(repeating: "x", count: 2_001))","updated_at_ms":1}}}"#
      )
      #expect(refused.status == 200 && refused.text.contains(#""key_name":"9""#))
      #expect(refused.text.contains(#""key_name":"long""#))
      #expect(try await app.service.ledger.attributes(of: "u1").count == 2)
    }
  }

  @Test func `offerings and the mapping are the catalog's`() async throws {
    let products = ["com.example.app.coins": "{ kind: consumable }"]
    try await RevenueCatApp.run(products: products) { app, _, _, _ in
      let mapping = try await app.send(.get, "/v1/product_entitlement_mapping").text
      #expect(
        mapping.contains(
          #""com.example.app.pro.monthly":{"base_plan_id":null,"entitlements":["pro"],"#
            + #""product_identifier":"com.example.app.pro.monthly"}"#))
      #expect(mapping.contains(#""com.example.app.coins":{"base_plan_id":null,"entitlements":[]"#))
      let offerings = try await app.send(.get, "/v1/subscribers/u1/offerings")
      #expect(
        offerings.text
          == #"{"current_offering_id":null,"offerings":[],"placements":{"fallback_offering_id":null,"offering_ids_by_placement":{}},"targeting":null}"#
          + "\n")
    }
    try await SimulatedStore.run { store in
      var settings = Settings(catalog: [
        "offerings":
          "{ default: { current: true, packages: { $rc_monthly: com.example.app.pro.monthly }, "
          + "metadata: { best_value: $rc_monthly } } }"
      ])
      settings.dialects = ["revenuecat"]
      try await RunningService.run(apple: store.apple, settings: settings) { service in
        let text = try await RevenueCatApp(service: service).send(.get, "/v1/subscribers/u1/offerings").text
        #expect(text.hasPrefix(#"{"current_offering_id":"default","offerings":[{"description":"default""#))
        #expect(
          text.contains(
            #""packages":[{"identifier":"$rc_monthly","platform_product_identifier":"com.example.app.pro.monthly"}]"#))
        #expect(text.contains(#""metadata":{"best_value":"$rc_monthly"}"#))
      }
    }
  }

  @Test func `an introductory price that was had is not to be had again`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      #expect(try await app.post(try store.simulator.issueReceipt(.trial).receiptData).status == 200)
      let answer = try await app.send(
        .post, "/v1/subscribers/u1/intro_eligibility",
        #"{"product_identifiers":["com.example.app.pro.monthly","other"],"fetch_token":"x"}"#)
      #expect(answer.text == #"{"com.example.app.pro.monthly":false,"other":null}"# + "\n")
    }
  }

  @Test func `an introductory price that was had before the last renewal is not to be had again`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData).status == 200)
      func ask() async throws -> String {
        try await app.send(
          .post, "/v1/subscribers/u1/intro_eligibility", #"{"product_identifiers":["com.example.app.pro.monthly"]}"#
        ).text
      }
      #expect(try await ask() == #"{"com.example.app.pro.monthly":null}"# + "\n")
      var free = try #require(try await app.service.ledger.profile(of: "u1")?.evidence.first)
      free.purchases = [try #require(free.purchases.first)]
      free.purchases[0].transactionID = "the first"
      free.purchases[0].webOrderLineItemID = nil
      free.purchases[0].isTrial = true
      try await app.service.ledger.keepPast([free])
      #expect(try await ask() == #"{"com.example.app.pro.monthly":false}"# + "\n")
    }
  }

  @Test(arguments: [
    // StoreKit 2 knows accounts that are UUIDs, and StoreKit 1 any text.
    ("u1", "a.b.c", ""), ("u1", "MIIBase64", "u1"), ("U1", "MIIBase64", "u1"),
    ("6F0C2F3E-0D3E-4F83-9A52-2A1C9D6F6A11", "a.b.c", "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"),
    ("6F0C2F3E-0D3E-4F83-9A52-2A1C9D6F6A11", "MIIBase64", "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"),
  ])
  func `a promotional offer is signed for the account that the SDK gives the purchase`(
    id: String, token: String, account: String
  ) async throws {
    let product = "com.example.app.pro.monthly"
    try await RevenueCatApp.run(
      serverAPI: true, products: [product: "{ tier: pro, offers: { first: never, again: expired } }"]
    ) { app, store, _, _ async throws in
      let offers = ["first", "again", "none"].map { #"{"offer_id":"\#($0)","product_id":"\#(product)"}"# }
      let answer = try await app.send(
        .post, "/v1/offers",
        #"{"app_user_id":"\#(id)","fetch_token":"\#(token)","generate_offers":[\#(offers.joined(separator: ","))]}"#)
      let signed = try #require(answer.object["offers"] as? [[String: Any]])
      #expect(signed.map { $0["key_id"] as? String } == [store.simulator.serverAPIKeyID, "", ""])
      let data = try #require(signed.first?["signature_data"] as? [String: Any])
      let (nonce, time) = (try #require(data["nonce"] as? String), try #require(data["timestamp"] as? Int64))
      let text = ["com.example.app", store.simulator.serverAPIKeyID, product, "first", account, nonce, "\(time)"]
        .joined(separator: "\u{2063}")
      let signature = try P256.Signing.ECDSASignature(
        derRepresentation: #require((data["signature"] as? String).flatMap { Data(base64Encoded: $0) }))
      let key = try P256.Signing.PrivateKey(pemRepresentation: store.simulator.serverAPIKeyPEM).publicKey
      #expect(key.isValidSignature(signature, for: Data(text.utf8)))
      for (refused, says) in zip(signed.dropFirst(), ["The offer is for users whose purchases are over.", "no such"]) {
        let error = refused["signature_error"] as? [String: Any]
        #expect(refused["signature_data"] is NSNull && error?["code"] as? Int == 7226)
        #expect((error?["message"] as? String)?.contains(says) == true)
      }
    }
  }

  @Test func `a route that is not offered is answered politely`() async throws {
    try await RevenueCatApp.run { app, _, _, _ in
      let polite: [(TransportRequest.Method, String, String?, Int, String)] = [
        (.get, "/v1/health", nil, 200, "{}\n"),
        (.get, "/v1/subscribers/u1/virtual_currencies", nil, 200, #"{"virtual_currencies":{}}"# + "\n"),
        (.get, "/v1/subscribers/u1/health_report_availability", nil, 200, #"{"report_logs":false}"# + "\n"),
        (.post, "/v1/subscribers/u1/attribution", "{}", 200, "{}\n"),
        (.post, "/v1/subscribers/u1/adservices_attribution", "{}", 200, "{}\n"),
        (.post, "/v1/diagnostics", #"{"entries":[]}"#, 200, "{}\n"),
        (.post, "/v1/events", #"{"events":[]}"#, 200, "{}\n"),
      ]
      for (method, path, body, status, text) in polite {
        let answer = try await app.send(method, path, body)
        #expect(answer.status == status && answer.text == text, "\(path): \(answer.status) \(answer.text)")
      }
      let offers = try await app.send(
        .post, "/v1/offers", #"{"generate_offers":[{"offer_id":"o","product_id":"p"}],"app_user_id":"u1"}"#)
      #expect(offers.status == 200 && offers.text.contains(#""signature_error":{"code":7226"#))
      // iOS reads the reason only where these three are texts.
      #expect(offers.text.contains(#"{"key_id":"","offer_id":"o","product_id":"p","signature_data":null,"#))
      let nameless = try await app.send(.post, "/v1/offers", #"{"generate_offers":[{}],"app_user_id":"u1"}"#)
      #expect(nameless.text.contains(#"{"key_id":"","offer_id":"","product_id":"","signature_data":null,"#))
    }
    // These have no operation of their own in the document, so that their shape is looked at here.
    try await RevenueCatApp.run { app, _, _, _ in
      for path in Self.refused {
        let path = path.replacing("{app_user_id}", with: "u1").replacing(/{[a-z_]+}/, with: "7")
        for method in ["GET", "POST"] {
          let answer = try await app.service.exchange(
            "\(method) \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
              + "Authorization: Bearer \(RunningService.publicKey)\r\nContent-Length: 2\r\n\r\n{}")
          let status = path.hasSuffix("redeem_purchase") && method == "GET" ? 405 : 404
          #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(method) \(path) \(answer)")
          #expect(answer.contains(#""code":7259"#), "\(method) \(path) \(answer)")
        }
      }
    }
  }

  /// The paths that purchases-ios, purchases-android and purchases-js call, and this service does not answer.
  private static let refused = [
    "/v1/config/{domain}", "/v1/offerings", "/v1/customercenter/{app_user_id}",
    "/v1/customercenter/support/create-ticket", "/v1/subscribers/redeem_purchase", "/v1/external_purchase_tokens",
    "/v1/subscribers/{app_user_id}/ads/reward_verifications/{id}", "/v1/subscribers/{app_user_id}/health_report",
    "/v1/subscribers/{app_user_id}/workflows", "/v1/receipts/amazon/{user}/{receipt}", "/v1/health/connectivity",
    "/v1/customer", "/v1/customer/virtual_currencies/spend", "/auth/login", "/auth/token", "/auth/revoke",
    "/rcbilling/v1/branding", "/rcbilling/v1/checkout/start", "/rcbilling/v1/hosted-checkout",
    "/rcbilling/v1/subscribers/{app_user_id}/offering_products", "/rcbilling/v1/purchase",
  ]

  @Test(arguments: refused) func `every route that is not offered is named in the page`(path: String) throws {
    let page = try DocumentationTests.page("dialects/revenuecat.md")
    // A family of routes is named by its beginning.
    let names = path.indices.filter { path[$0] == "/" }.map { path[..<$0] + "/…" } + [path[...]]
    #expect(names.contains { page.contains("`\($0)`") }, "\(path)")
  }

  @Test func `a page sees the products that have a price, and no error for the others`() async throws {
    let (monthly, forever) = ("com.example.app.pro.monthly", "com.example.app.forever")
    let products = [
      monthly: "{ tier: pro, period: P1M, price: { EUR: 4.59, USD: 4.99 } }",
      forever: "{ tier: premium, kind: lifetime, price: { EUR: 99 } }",
      "com.example.app.pro.yearly": "{ tier: pro, price: { USD: 49.99 } }",
      "com.example.app.season": "{ tier: pro, kind: non_renewing, period: P1M, price: { EUR: 9 } }",
    ]
    try await RevenueCatApp.run(products: products) { app, _, _, _ in
      let path = "/rcbilling/v1/subscribers/u1/products"
      let ids = "id=com.example.app.premium.monthly&id=nope&id=com.example.app.pro.yearly"
      let none = try await app.send(.get, "\(path)?\(ids)")
      #expect(none.status == 200 && none.text == #"{"product_details":[]}"# + "\n")
      #expect(try await app.send(.get, path).text == none.text)
      let rest = #""title":"\#(monthly)"}"#
      let one = try await app.send(.get, "\(path)?id=\(monthly)")
      #expect(
        one.text
          == #"{"product_details":[{"default_purchase_option_id":"base_option","description":null,"identifier":"\#(monthly)","#
          + #""product_type":"subscription","purchase_options":{"base_option":{"base":{"cycle_count":1,"#
          + #""period_duration":"P1M","price":{"amount_micros":4990000,"currency":"USD"}},"id":"base_option","#
          + #""intro_price":null,"price_id":"\#(monthly)","trial":null}},\#(rest)]}"# + "\n")
      let both = try await app.send(.get, "\(path)?id=\(monthly)&id=\(forever)&currency=EUR").text
      #expect(both.contains(#""price":{"amount_micros":4590000,"currency":"EUR"}"#))
      #expect(both.contains(#""base_price":{"amount_micros":99000000,"currency":"EUR"}"#))
      #expect(both.contains(#""product_type":"non_consumable""#))
      let season = try await app.send(.get, "\(path)?id=com.example.app.season").text
      #expect(season.contains(#""product_type":"consumable""#))
    }
  }

  @Test func `the SDK for the web may call from any page`() async throws {
    try await RevenueCatApp.run { app, _, _, _ in
      let preflight = try await app.service.exchange(
        "OPTIONS /v1/subscribers/u1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nOrigin: https://app.example\r\n"
          + "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: authorization, x-platform\r\n\r\n")
      #expect(preflight.hasPrefix("HTTP/1.1 204"))
      #expect(preflight.lowercased().contains("access-control-allow-origin: *"))
      #expect(preflight.lowercased().contains("access-control-allow-headers: authorization, x-platform"))
      let answer = try await app.send(.get, "/v1/subscribers/u1")
      #expect(answer.header("Access-Control-Allow-Origin") == "*")
      let refused = try await RevenueCatApp(service: app.service, key: nil).send(.get, "/v1/subscribers/u1")
      #expect(refused.status == 401 && refused.header("Access-Control-Allow-Origin") == "*")
      // Our own routes are for no page.
      #expect(try await app.service.profile("u1").header("Access-Control-Allow-Origin") == nil)
    }
  }

  // MARK: Who may

  @Test func `a public key is for these routes, and these routes are for public keys and servers`() async throws {
    try await RevenueCatApp.run { app, _, _, clock in
      let user = try TokenMint.user("6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11", at: clock.date)
      let own: [(TransportRequest.Method, String, String?)] = [
        (.get, "/v1/subscribers/u1", nil), (.get, "/v1/subscribers/u1/offerings", nil),
        (.post, "/v1/subscribers/identify", #"{"app_user_id":"u1","new_app_user_id":"u1"}"#),
        (.post, "/v1/subscribers/u1/alias", #"{"new_app_user_id":"u1"}"#),
        (.post, "/v1/subscribers/u1/attributes", #"{"attributes":{}}"#),
        (.post, "/v1/subscribers/u1/restore/eligibility", "{}"),
        (.post, "/v1/subscribers/u1/intro_eligibility", "{}"),
        (.get, "/v1/subscribers/u1/virtual_currencies", nil),
        (.post, "/v1/subscribers/u1/attribution", "{}"), (.post, "/v1/subscribers/u1/adservices_attribution", "{}"),
        (.get, "/v1/product_entitlement_mapping", nil), (.post, "/v1/offers", #"{"app_user_id":"u1"}"#),
        (.get, "/rcbilling/v1/subscribers/u1/products", nil),
        (.post, "/v1/diagnostics", "{}"),
        (.post, "/v1/receipts", #"{"app_user_id":"u1","app_transaction":"x"}"#),
      ]
      for (method, path, body) in own {
        for (key, status) in [
          (RunningService.publicKey, 200), (RunningService.serviceKey, 200), (RunningService.supportKey, 403),
          (user, 403), ("appl_unknown1", 401), (nil, 401),
        ] as [(String?, Int)] {
          let answer = try await RevenueCatApp(service: app.service, key: key).send(method, path, body)
          // The SDK forgets both after any other answer.
          let isKept = path == "/v1/receipts" || path.hasSuffix("/attributes")
          let expected = isKept && status >= 400 ? 503 : status
          #expect([expected, expected == 200 ? 201 : expected].contains(answer.status), "\(path) \(answer.status)")
          if expected >= 400 { #expect(answer["code"] == "7225") }
        }
      }
      let native = app.service.routes.filter { route in
        !own.contains { $0.1 == route.path } && !route.path.hasPrefix("/v1/subscribers")
          && !route.path.hasPrefix("/rcbilling") && route.method != "HEAD"
      }
      let open = [
        "/livez", "/readyz", "/metrics", "/openapi.yaml", "/", "/problems/{code}", "/support", "/support/{file}",
        "/v1/plans", "/v1/notifications/app-store", "/v1/health", "/.well-known/jwks.json",
      ]
      // In an app without accounts the device has the trial.
      let ofDevices: Set<ServiceRoute> = [
        ServiceRoute(path: "/v1/trials", method: "POST"), ServiceRoute(path: "/v1/trials/{device_id}", method: "GET"),
        ServiceRoute(path: "/v1/trials/{device_id}/sessions", method: "POST"),
        ServiceRoute(path: "/v1/devices/{device_id}", method: "PUT"),
      ]
      // The SDK sends no key with it.
      let report = try await RevenueCatApp(service: app.service, key: nil)
        .send(.get, "/v1/subscribers/u1/health_report_availability")
      #expect(report.status == 200 && report.text == #"{"report_logs":false}"# + "\n")
      // Telemetry is taken where others report events.
      #expect(try await RevenueCatApp(service: app.service).send(.post, "/v1/events", "{}").text == "{}\n")
      for route in native
      where !open.contains(route.path) && !ofDevices.contains(route)
        && route != ServiceRoute(path: "/v1/events", method: "POST")
      {
        let path = route.path.replacing("{user_id}", with: "u1").replacing(/{[a-z_]+}/, with: "7")
        let answer = try await app.service.exchange(
          "\(route.method) \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
            + "Authorization: Bearer \(RunningService.publicKey)\r\nContent-Length: 2\r\n\r\n{}")
        let status = answer.split(separator: " ").dropFirst().first ?? ""
        #expect(["403", "405"].contains(status), "\(route.method) \(route.path): \(status)")
      }
    }
  }
}

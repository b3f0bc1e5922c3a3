import Foundation
import HTTPTransport
import TestSupport
import Testing

/// A text of whatever characters is refused, or kept within the bytes that are allowed.
@Suite struct TextBoundsTests {
  /// Requests with a text of the caller's in the place of `TEXT`, in the path percent-encoded.
  private static let routes: [(method: TransportRequest.Method, path: String, body: String?, key: String)] = {
    let (app, server, desk) = (RunningService.publicKey, RunningService.serviceKey, RunningService.supportKey)
    let device = "/v1/devices/6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
    let id = #""device_id":"6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11""#
    return [
      (.get, "/v1/subscribers/TEXT", nil, app),
      (.post, "/v1/subscribers/u1/attributes", #"{"attributes":{"a":{"value":"TEXT","updated_at_ms":1}}}"#, app),
      (.post, "/v1/subscribers/u1/attributes", #"{"attributes":{"aTEXT":{"value":"x","updated_at_ms":1}}}"#, app),
      (.post, "/v1/subscribers/TEXT/attributes", #"{"attributes":{"a":{"value":"x","updated_at_ms":1}}}"#, app),
      (.post, "/v1/subscribers/identify", #"{"app_user_id":"u1","new_app_user_id":"TEXT"}"#, app),
      (.post, "/v1/subscribers/identify", #"{"app_user_id":"$RCAnonymousID:TEXT","new_app_user_id":"u1"}"#, app),
      (.post, "/v1/subscribers/u1/alias", #"{"new_app_user_id":"TEXT"}"#, app),
      (.post, "/v1/receipts", #"{"app_user_id":"TEXT","fetch_token":"AAAA"}"#, app),
      (
        .post, "/v1/receipts",
        #"{"app_user_id":"u1","fetch_token":"TEXT","attributes":{"a":{"value":"TEXT","updated_at_ms":1}}}"#, app
      ),
      (
        .post, "/v1/offers", #"{"app_user_id":"u1","generate_offers":[{"offer_id":"TEXT","product_id":"TEXT"}]}"#, app
      ),
      (.post, "/v1/offers", #"{"app_user_id":"TEXT","generate_offers":[{"offer_id":"o","product_id":"p"}]}"#, app),
      (.post, "/v1/offers/promotional", #"{"user_id":"u1","product_id":"TEXT","offer_id":"TEXT"}"#, server),
      (.post, "/v1/offers/promotional", #"{"user_id":"TEXT","product_id":"p","offer_id":"o"}"#, server),
      (
        .post, "/v1/offers/introductory", #"{"user_id":"u1","product_id":"p","transaction_id":"TEXT"}"#, server
      ),
      (.post, "/v1/offers/introductory", #"{"user_id":"u1","product_id":"p","bundle_id":"TEXT"}"#, server),
      (.post, "/v1/trials", #"{"trial":"TEXT",\#(id)}"#, app),
      (.post, "/v1/trials", #"{"trial":"week",\#(id),"push_token":"TEXT"}"#, app),
      (.post, "/v1/trials", #"{"trial":"week",\#(id),"device":{"model":"TEXT"}}"#, app),
      (.post, "/v1/trials", #"{"trial":"week",\#(id),"device_token":"TEXT"}"#, app),
      (.post, "/v1/trials", #"{"trial":"week","device_id":"TEXT"}"#, app),
      (.post, "/v1/trials", #"{"trial":"week",\#(id),"user_id":"TEXT"}"#, server),
      (.put, device, #"{"device":{"model":"TEXT","ios_version":"TEXT","app_version":"TEXT"}}"#, app),
      (.put, device, #"{"push_token":"TEXT"}"#, app),
      (
        .post, "/v1/trials/import", #"{"trials":[{"trial":"week","user_id":"TEXT",\#(id),"started_at":"TEXT"}]}"#,
        server
      ),
      (.patch, "/v1/trials/6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11", #"{"note":"TEXT","sessions_total":5}"#, desk),
      (.post, "/v1/events", #"{"events":[{"type":"TEXT","user_id":"u1"}]}"#, server),
      (.post, "/v1/events", #"{"events":[{"type":"a","user_id":"TEXT"}]}"#, server),
      (.post, "/v1/events", #"{"events":[{"type":"a","user_id":"u1","id":"TEXT"}]}"#, server),
      (.post, "/v1/events", #"{"events":[{"type":"a","user_id":"u1","at":"TEXT"}]}"#, server),
      (.post, "/v1/events", #"{"events":[{"type":"a","user_id":"u1","properties":{"TEXT":"TEXT"}}]}"#, server),
      (
        .post, "/v1/events",
        #"{"events":[{"type":"experiment_exposed","user_id":"u1","properties":{"experiment":"TEXT","variant":"TEXT"}}]}"#,
        server
      ),
      (.post, "/v1/validations", #"{"user_id":"TEXT","receipt_data":"AAAA"}"#, server),
      (.post, "/v1/validations", #"{"user_id":"u1","receipt_data":"TEXT"}"#, server),
      (.post, "/v1/validations", #"{"user_id":"u1","receipt_data":"AAAA","transaction_id":"TEXT"}"#, server),
      (.post, "/v1/validations", #"{"user_id":"u1","original_transaction_id":"TEXT"}"#, server),
      (.get, "/v1/profiles/TEXT", nil, server), (.get, "/v1/profiles/TEXT/access", nil, server),
      (.get, "/v1/profiles/u1/features/TEXT", nil, server),
      (.post, "/v1/profiles/TEXT/usage/trips", #"{"amount":1}"#, server),
      (.post, "/v1/profiles/u1/usage/TEXT", #"{"amount":1}"#, server),
      (.post, "/v1/profiles/u1/usage/trips", #"{"amount":1,"time_zone":"TEXT"}"#, server),
      (.post, "/v1/profiles/u1/grants", #"{"tier":"pro","for":"1d","note":"TEXT"}"#, desk),
      (.post, "/v1/profiles/TEXT/grants", #"{"tier":"pro","for":"1d","note":"x"}"#, server),
      (.post, "/v1/profiles/u1/grants", #"{"tier":"TEXT","for":"TEXT","note":"x"}"#, server),
      (.post, "/v1/profiles/u1/revalidation", #"{"note":"TEXT"}"#, desk),
      (.post, "/v1/transactions/1000/transfer", #"{"user_id":"TEXT","note":"TEXT","environment":"production"}"#, desk),
      (.get, "/v1/lookup/TEXT", nil, desk),
      (.post, "/v1/revalidations", #"{"expiring_within":"TEXT"}"#, server),
      (.post, "/v1/notifications/app-store", #"{"signedPayload":"TEXT"}"#, app),
      (.post, "/verifyReceipt", #"{"receipt-data":"TEXT","password":"TEXT"}"#, app),
    ]
  }()

  private static let texts: [(name: String, text: String, isEscaped: Bool)] = [
    ("2,100 combining characters", "e" + String(repeating: "\u{301}", count: 2_100), false),
    ("60,000 combining characters", "e" + String(repeating: "\u{301}", count: 60_000), false),
    ("40 emoji of 25 bytes", String(repeating: "👨‍👩‍👧‍👦", count: 40), false),
    ("20,000 emoji", String(repeating: "😀", count: 20_000), false),
    ("a lone surrogate", #"a\ud83d"#, true), ("NUL", #"a\u0000b"#, true),
  ]

  @Test(.ofTheFile, arguments: texts.indices)
  func `every text is refused or bounded`(index: Int) async throws {
    let (name, text, isEscaped) = Self.texts[index]
    var settings = Settings(
      server: ["user_rate_limit": "0", "address_rate_limit": "0"], jwt: ["secret": TokenMint.secret])
    settings.dialects = ["revenuecat", "verify_receipt"]
    let directory = try TemporaryDirectory()
    try await SimulatedStore.run(at: Date(timeIntervalSince1970: 1_718_452_800.000_123_456)) { [settings] store in
      try await RunningService.run(apple: store.apple, settings: settings, directory: directory.url) { service in
        let inPath =
          isEscaped ? (name == "NUL" ? "a%00b" : "a%ED%A0%BD") : RevenueCatApp.encoded(String(text.prefix(400)))
        for (method, path, body, key) in Self.routes {
          // A head has 16 KiB.
          guard !path.contains("TEXT") || inPath.utf8.count < 12_000 else { continue }
          let answer = try await service.send(
            method, path.replacing("TEXT", with: inPath), key: key, body: body?.replacing("TEXT", with: text))
          #expect(
            (200..<300).contains(answer.status) || (400..<500).contains(answer.status)
              // SDKs keep the purchase.
              || (path == "/v1/receipts" && answer.status == 503),
            "\(path) \(body ?? ""): \(answer.status)")
        }
      }
    }
    let file = try SQLiteFile(directory.url.appending(path: "ledger.sqlite").path(percentEncoded: false))
    for table in try file.all("SELECT name FROM sqlite_master WHERE type = 'table'", as: String.self) {
      for column in try file.all("SELECT name FROM pragma_table_info('\(table)')", as: String.self) {
        let longest = try file.first(
          "SELECT max(length(CAST(\"\(column)\" AS BLOB))) FROM \"\(table)\"", as: Int.self)
        #expect(longest ?? 0 <= 16 * 1024 + 2, "\(name): \(table).\(column) has \(longest ?? 0) bytes")
      }
    }
  }
}

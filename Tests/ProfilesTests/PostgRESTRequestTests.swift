import Entitlements
import Foundation
import HTTPTransport
import SeededRandom
import Testing

@testable import Profiles

@Suite("Requests to PostgREST", .computing)
struct PostgRESTRequestTests {
  private func requests(_ change: (inout PostgRESTProfileStore.Configuration) -> Void = { _ in }) throws
    -> PostgRESTRequests
  {
    var configuration = sampleConfiguration()
    change(&configuration)
    return PostgRESTRequests(configuration: configuration)
  }

  /// A query as a server takes it apart: at `&`, at the first `=`, `+` a blank, `%XX` a byte. `nil`: not a query.
  private func query(of request: TransportRequest) -> [[String]]? {
    let parts = request.url.utf8.split(separator: UInt8(ascii: "?"), omittingEmptySubsequences: false)
    guard parts.count == 2 else { return nil }
    var items: [[String]] = []
    for item in parts[1].split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false) {
      let pair = item.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      guard pair.count == 2, let name = decoded(pair[0]), let value = decoded(pair[1]) else { return nil }
      items.append([name, value])
    }
    return items
  }

  private func decoded(_ text: Substring.UTF8View) -> String? {
    var bytes: [UInt8] = []
    var rest = text[...]
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else { return nil }
        bytes.append(high << 4 | low)
      case 0x21...0x7e: bytes.append(byte)
      default: return nil
      }
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }

  private func body(of request: TransportRequest) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any])
  }

  // MARK: - The query

  @Test func `a write names one user and a lower version`() throws {
    let request = try requests().write(sampleUpdate())
    #expect(request.method == .patch)
    #expect(
      request.url == "https://project.test/rest/v1/profiles?id=eq.\(userA)&subscription_version=lt.100"
        + "&select=id,subscription_tier,subscription_status,subscription_version")
    #expect(request.responseBodyLimit == 65_536)
  }

  @Test func `without a version column only the user is named`() throws {
    let request = try requests { $0.columns.version = nil }.write(sampleUpdate())
    #expect(
      query(of: request) == [
        ["id", "eq.\(userA)"], ["select", "id,subscription_tier,subscription_status"],
      ])
    #expect(try body(of: request).keys.contains("subscription_version") == false)
  }

  @Test func `a slash at the end of the URL is not doubled`() throws {
    let request = try requests { $0.url = "http://[::1]:3000//" }.read(userA)
    #expect(request.url.hasPrefix("http://[::1]:3000/profiles?"))
  }

  @Test func `the id of a hostile user stays one value`() throws {
    let request = try requests().write(sampleUpdate(user: #"a,b"c.(d)&e%*+"#))
    #expect(
      request.url.hasPrefix(
        "https://project.test/rest/v1/profiles?id=eq.a%2Cb%22c.%28d%29%26e%25%2A%2B&subscription_version=lt.100&"))
  }

  @Test func `any of 100 000 random users is one value of one condition, in the read too`() throws {
    var random = SeededRandom(seed: 7)
    let awkward =
      Array(#"a0.,:;"'()[]{}&=%+*?#/\ <>~_-|^`@!$"#.unicodeScalars) + ["\0", "\n", "\u{7f}", "é", "🚲", "\u{202e}"]
    let requests = try requests()
    let shown = "id,subscription_tier,subscription_status,subscription_version"
    var bytes = 0
    var failures: [String] = []
    for number in 0..<SeededRandom.cases(100_000) {
      var text = ""
      // Mostly short, as users are; some as long as they may be.
      let length = Int.random(in: 0...(UInt8.random(in: 0...9, using: &random) == 0 ? 256 : 40), using: &random)
      while let scalar = awkward.randomElement(using: &random), text.utf8.count + 4 <= length {
        // Every fourth from all of Unicode.
        let any = Unicode.Scalar(UInt32.random(in: 0...0x10ffff, using: &random)) ?? scalar
        text.unicodeScalars.append(Bool.random(using: &random) && Bool.random(using: &random) ? any : scalar)
      }
      bytes += text.utf8.count
      let update = sampleUpdate(user: UserID(text), version: Int64.random(in: .min ... .max, using: &random))
      // Compared without a macro, which would keep every value: this runs 100 000 times.
      let isWritten =
        query(of: requests.write(update))
        == [["id", "eq.\(text)"], ["subscription_version", "lt.\(update.version)"], ["select", shown]]
      let isRead =
        number % 10 != 0
        || query(of: requests.read(update.user)) == [["id", "eq.\(text)"], ["select", shown], ["limit", "2"]]
      if !isWritten || !isRead { failures.append(text) }
    }
    #expect(failures.isEmpty)
    #expect(bytes > SeededRandom.cases(2_000_000))
  }

  @Test func `the write that is to find no row contradicts itself on the id`() throws {
    let request = try requests().writeNothing()
    #expect(request.method == .patch)
    #expect(
      query(of: request)?.dropLast() == [
        ["id", "is.null"], ["id", "not.is.null"], ["subscription_version", "lt.9223372036854775807"],
      ])
    #expect(try query(of: requests { $0.columns.version = nil }.writeNothing())?.count == 3)
    // All columns are in it, or the database would not be asked for the privilege.
    #expect(
      Set(try body(of: request).keys) == [
        "subscription_tier", "subscription_status", "subscription_expires_at", "original_transaction_id",
        "subscription_version",
      ])
    #expect(try body(of: request).values.allSatisfy { $0 is NSNull })
  }

  // MARK: - Headers

  private func headers(_ request: TransportRequest) -> [String: String] {
    Dictionary(request.headers.map { ($0.name, $0.value) }) { _, _ in "twice" }
  }

  @Test func `a token is sent twice, as the gateway and as PostgREST want it`() throws {
    let request = try requests { $0.key = serviceToken }.write(sampleUpdate())
    #expect(headers(request)["apikey"] == serviceToken.exposed)
    #expect(headers(request)["Authorization"] == "Bearer \(serviceToken.exposed)")
  }

  @Test(arguments: ["sb_secret_abc", "plain", "a.b", "a.b.c.d"])
  func `a key without two dots is no bearer token`(key: String) throws {
    let request = try requests { $0.key = Secret(key) }.write(sampleUpdate())
    #expect(headers(request)["apikey"] == key)
    #expect(headers(request)["Authorization"] == nil)
  }

  @Test func `a write asks for the row, and for one row at most`() throws {
    let write = headers(try requests().write(sampleUpdate()))
    #expect(write["Prefer"] == "return=representation,handling=strict,max-affected=1")
    #expect(write["Content-Type"] == "application/json")
    #expect(write["Accept"] == "application/json")
    // The transport's own; a key is refused by Supabase when it looks like a browser's.
    #expect(write["User-Agent"] == nil)
    #expect(write["Content-Profile"] == nil)
  }

  @Test func `a schema is named in the header of its direction`() throws {
    let requests = try requests { $0.schema = PostgRESTName("billing") }
    #expect(headers(requests.write(sampleUpdate()))["Content-Profile"] == "billing")
    #expect(headers(requests.write(sampleUpdate()))["Accept-Profile"] == nil)
    #expect(headers(requests.read(userA))["Accept-Profile"] == "billing")
    #expect(headers(requests.read(userA))["Content-Profile"] == nil)
  }

  // MARK: - The body

  @Test func `the body is what another reader takes it for`() throws {
    let odd = "\"\\\u{0}\u{1}\u{8}\t\n\u{1f}\u{7f}/é🚲\u{2028}"
    var update = sampleUpdate()
    update.tier = Tier(odd)
    update.originalTransactionID = OriginalTransactionID(odd)
    let body = try body(of: requests().write(update))
    #expect(body["subscription_tier"] as? String == odd)
    #expect(body["original_transaction_id"] as? String == odd)
    #expect(body["subscription_status"] as? String == "active")
    #expect(body["subscription_expires_at"] as? String == "2026-12-01T00:00:00.123Z")
    #expect((body["subscription_version"] as? NSNumber)?.int64Value == 100)
  }

  @Test func `an unknown column is null, and not absent`() throws {
    var update = sampleUpdate()
    update.expiresAt = nil
    update.originalTransactionID = nil
    let body = try body(of: requests().write(update))
    #expect(body["subscription_expires_at"] is NSNull)
    #expect(body["original_transaction_id"] is NSNull)
  }

  @Test(
    arguments: [
      (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
      (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
      (1_798_761_599_999, "2026-12-31T23:59:59.999Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
      (Int64.max, "9999-12-31T23:59:59.999Z"), (Int64.min, "0001-01-01T00:00:00.000Z"),
    ] as [(Int64, String)])
  func `a moment is written in UTC to the millisecond`(milliseconds: Int64, text: String) {
    #expect(Date(millisecondsSince1970: milliseconds).rfc3339(alwaysWithMilliseconds: true) == text)
  }

  // MARK: - Names

  @Test(
    arguments: [
      "", "1a", "a b", "a-b", "a.b", "a\"", "é", "a,b", "a)", "order", "select", "limit", "offset", "and", "or", "not",
      "columns", "on_conflict", "rpc", String(repeating: "a", count: 64),
    ])
  func `a name that could be more than a name is none`(text: String) {
    #expect(PostgRESTName(text) == nil)
  }

  @Test(arguments: ["a", "_", "Order", "subscription_expires_at", "x1", String(repeating: "a", count: 63)])
  func `a plain name is one`(text: String) {
    #expect(PostgRESTName(text)?.text == text)
  }
}

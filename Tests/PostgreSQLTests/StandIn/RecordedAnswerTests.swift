import Foundation
import Testing

/// Sends the stand-in what was sent to the real PostgREST 14.17, in the same order and over the same rows, and compares.
@Suite struct RecordedAnswerTests {
  /// One request and what the real server answered.
  private struct Recording {
    let title: String
    let caller: String
    let request: APIRequest
    let status: Int
    let headers: [String: String]
    let body: NSObject?

    init(_ json: [String: Any]) throws {
      title = try #require(json["title"] as? String)
      let sent = try #require(json["request"] as? [String: Any])
      let answer = try #require(json["response"] as? [String: Any])
      caller = try #require(sent["as_"] as? String)
      let headers = try #require(sent["headers"] as? [String: String])
      request = APIRequest(
        method: try #require(sent["method"] as? String), target: try #require(sent["path"] as? String),
        headers: headers.map { ($0.key, $0.value) }, body: try Self.text(sent["body"]))
      status = try #require(answer["status"] as? Int)
      self.headers = try #require(answer["headers"] as? [String: String])
      body = (answer["body"] as? NSObject).flatMap { $0 is NSNull ? nil : $0 }
    }

    private static func text(_ body: Any?) throws -> String {
      switch body {
      case nil, is NSNull: ""
      case let text as String: text
      case let value?: String(decoding: try JSONSerialization.data(withJSONObject: value), as: UTF8.self)
      }
    }
  }

  /// How the recorded database differed from the files in `samples/supabase`.
  private static let setUp = """
    alter table public.profiles add constraint profiles_original_transaction_id_key unique (original_transaction_id);
    alter table public.profiles drop constraint profiles_subscription_tier_check,
      add constraint profiles_subscription_tier_check check (subscription_tier in ('free', 'pro'));
    update public.profiles set updated_at = '2026-11-21T07:32:37.885631Z';
    create function public.raise_state(s text) returns void language plpgsql as $$
      begin raise exception 'raised %', s using errcode = s, detail = 'd', hint = 'h'; end $$;
    """

  /// The effects on the rows of requests that are answered 501 here.
  private static let effects = [
    "PATCH unfiltered": "update public.profiles set display_name = 'all'",
    "POST insert minimal":
      "insert into public.profiles (id, display_name, updated_at) select '\(UserIDs.c)', 'C', updated_at from "
      + "public.profiles where id = '\(UserIDs.a)'",
    "RPC applied": """
    update public.profiles set subscription_tier = 'pro', subscription_expires_at = '2026-12-31T00:00:00Z',
      original_transaction_id = 'otx-2', subscription_version = 200 where id = '\(UserIDs.b)'
    """,
  ]

  private static let headersThatMatter = [
    "Content-Range", "Content-Location", "Content-Profile", "Content-Type", "Preference-Applied", "Proxy-Status",
    "Retry-After", "WWW-Authenticate",
  ]

  @Test func `the stand-in answers as PostgREST 14.17 did, or not at all`() async throws {
    let database = try await TestDatabase(.wide)
    let owner = try await database.owner()
    try await owner.run(Self.setUp)
    let now = Date(timeIntervalSince1970: 1_790_000_000)
    let tokens = TokenVerifier(secret: "a secret of at least thirty-two bytes", now: { now })
    let standIn = PostgRESTStandIn(database: database, tokens: tokens)

    let json = try JSONSerialization.jsonObject(with: SQLFile.recorded("postgrest-14.17.json")) as? [[String: Any]]
    let recordings = try #require(json).map(Recording.init)
    var compared = 0
    var refused: [String] = []
    var differences: [String] = []
    for recording in recordings {
      var request = recording.request
      if let authorization = Self.authorization(recording.title, recording.caller, tokens, now) {
        request.headers.append(("Authorization", authorization))
      }
      let answer = await standIn.answer(request)
      if let effect = Self.effects[recording.title] { try await owner.run(effect) }
      guard answer.status != 501 else {
        refused.append(recording.title)
        continue
      }
      compared += 1
      differences += Self.differences(answer, recording).map { "\(recording.title): \($0)" }
    }
    print("PostgREST 14.17: \(compared) compared, \(refused.count) answered 501, \(differences.count) differences")
    #expect(differences == [])
    #expect(compared == 54, "not compared: \(refused)")
    #expect(Set(Self.effects.keys).isSubset(of: refused))
  }

  @Test(
    arguments: [
      ("PATCH", "/profiles", ""), ("PATCH", "/profiles?select=id", ""),
      ("PATCH", "/profiles?id=like.*", ""), ("PATCH", "/profiles?or=(id.is.null,id.not.is.null)", ""),
      ("PATCH", "/profiles?id=eq.\(UserIDs.a)&limit=1", ""), ("POST", "/profiles", ""), ("DELETE", "/profiles", ""),
      ("PATCH", "/profiles?id=eq.\(UserIDs.a)", "resolution=merge-duplicates"),
      ("GET", "/profiles?select=id::text", ""),
      ("POST", "/rpc/apply_subscription_update", ""), ("GET", "/", ""),
    ])
  func `a request that was never compared is answered 501 and changes nothing`(
    method: String, target: String, prefer: String
  ) async throws {
    let database = try await TestDatabase(.wide)
    let owner = try await database.owner()
    let before = try await owner.query("select * from public.profiles order by id")
    let tokens = TokenVerifier(secret: "secret", now: { Date(timeIntervalSince1970: 0) })
    let answer = await PostgRESTStandIn(database: database, tokens: tokens).answer(
      APIRequest(
        method: method, target: target,
        headers: [
          ("Authorization", "Bearer \(tokens.token(claims: Caller.service.claims))"),
          ("Content-Type", "application/json"), ("Prefer", prefer),
        ].filter { !$0.1.isEmpty },
        body: #"{"display_name":"changed"}"#))
    #expect(answer.status == 501)
    #expect(try await owner.query("select * from public.profiles order by id") == before)
  }

  private static func authorization(_ title: String, _ caller: String, _ tokens: TokenVerifier, _ now: Date) -> String?
  {
    func bearer(_ claims: String) -> String { "Bearer \(tokens.token(claims: claims))" }
    let seconds = Int(now.timeIntervalSince1970)
    return switch title {
    case "JWT expired": bearer(#"{"role":"service_role","exp":\#(seconds - 3600)}"#)
    case "JWT expired <30s (leeway)": bearer(#"{"role":"service_role","exp":\#(seconds - 10)}"#)
    case "JWT bad sig": bearer(#"{"role":"service_role"}"#).dropLast(4) + "AAAA"
    case "JWT not a jwt": "Bearer sb_secret_abc"
    case "JWT unknown role": bearer(#"{"role":"nobody"}"#)
    case "JWT no role": bearer("{}")
    case "empty bearer": "Bearer "
    default:
      switch caller {
      case "service_role": bearer(Caller.service.claims)
      case "authenticated:A": bearer(Caller.a.claims)
      default: nil
      }
    }
  }

  private static func differences(_ answer: APIAnswer, _ recording: Recording) -> [String] {
    var differences: [String] = []
    if answer.status != recording.status { differences.append("\(answer.status) and not \(recording.status)") }
    for name in headersThatMatter {
      let value = answer.headers.first { $0.0 == name }?.1
      if value != recording.headers[name] {
        differences.append("\(name) is \(value ?? "absent") and not \(recording.headers[name] ?? "absent")")
      }
    }
    let body = answer.body.flatMap {
      try? JSONSerialization.jsonObject(with: Data($0.utf8), options: .fragmentsAllowed) as? NSObject
    }
    if body != recording.body {
      differences.append("\(answer.body ?? "no body") and not \(String(describing: recording.body))")
    }
    // The body to the byte, by its length.
    if let length = recording.headers["Content-Length"], let body = answer.body, "\(body.utf8.count)" != length {
      differences.append("\(body.utf8.count) bytes and not \(length)")
    }
    return differences
  }
}

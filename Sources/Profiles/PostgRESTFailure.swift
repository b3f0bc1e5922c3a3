import Entitlements
import HTTPTransport
import JSON

/// A response from PostgREST, or from a gateway before it, without rows; or no response at all.
struct PostgRESTFailure: Error, Hashable {
  enum Kind: Hashable {
    /// The store refuses this update; others may pass.
    case refused
    /// The store refuses every update until the configuration is corrected.
    case misconfigured
    /// PostgREST's schema cache is older than a migration, or the migration was not run.
    case schemaCache
    /// A retry may help. The update may have been applied.
    case unavailable
  }

  let kind: Kind
  let trouble: ProfileStoreTrouble
  let retryAfter: Duration?

  init(
    _ kind: Kind, _ code: String, _ sentence: String, retryAfter: Duration? = nil, mayStillBeApplied: Bool = false
  ) {
    self.kind = kind
    trouble = ProfileStoreTrouble(code: code, sentence: sentence, mayStillBeApplied: mayStillBeApplied)
    self.retryAfter = retryAfter
  }
}

// MARK: - Responses

extension PostgRESTFailure {
  /// The only parts of a response that are kept: `details`, `hint` and `message` may contain a user's whole row.
  struct Signs: Hashable {
    var status: Int
    /// An SQLSTATE (`23505`) or a PostgREST code (`PGRST204`); `nil`: the response has none, so it is a gateway's.
    var code: String?
    /// Whether the lock of `samples/supabase` refused the update, by its marker word.
    var isLocked = false
    /// Whether an insufficient privilege is other than a missing grant: a row policy's, or a trigger's.
    var isBeyondGrants = false
    var retryAfter: Duration?
  }

  init(_ signs: Signs) {
    let code = signs.code ?? "http_\(signs.status)"
    if signs.code == "42501", signs.isLocked {
      self.init(
        .misconfigured, code,
        "The profile store's lock lets service_role alone write the subscription; profile_store.key must be a secret "
          + "key or a token of service_role")
      return
    }
    if signs.code == "42501", signs.status != 401, signs.isBeyondGrants {
      self.init(
        .misconfigured, ProfileStoreTrouble.forbiddenByStore,
        "A row level security policy or a trigger of the profiles forbids the update; the role of our key has to pass it"
      )
      return
    }
    guard let rule = Self.rules.first(where: { $0.matches(signs) }) else {
      self.init(.unavailable, code, "The profile store gave an answer that has no meaning here")
      return
    }
    // PostgREST responds with an error after its transaction has ended. A gateway's response leaves the state behind it
    // open.
    let isGateways = signs.code == nil && rule.kind == .unavailable && rule.sentence == Self.gateway
    self.init(
      rule.kind, code, rule.sentence, retryAfter: signs.retryAfter ?? rule.pause, mayStillBeApplied: isGateways)
  }

  /// One line of the table: the pattern of a response, its meaning, and the remedy.
  private struct Rule {
    let codes: [Substring]
    let status: ClosedRange<Int>
    let kind: Kind
    let sentence: String
    let pause: Duration?

    /// - Parameters:
    ///   - code: prefixes of the code, with blanks between; the first two characters of an SQLSTATE are its class. Empty:
    ///     any code, or none.
    ///   - pause: how long to wait if the response does not say.
    init(
      code: String = "", status: ClosedRange<Int> = 0...999, _ kind: Kind, _ sentence: String, pause: Duration? = nil
    ) {
      codes = code.split(separator: " ")
      self.status = status
      self.kind = kind
      self.sentence = sentence
      self.pause = pause
    }

    func matches(_ signs: Signs) -> Bool {
      status.contains(signs.status) && (codes.isEmpty || codes.contains { signs.code?.hasPrefix($0) == true })
    }
  }

  private static let key =
    "The profile store does not accept our key; check profile_store.key, and whether it was revoked or has expired"
  private static let grant =
    "The role of our key may not write the profiles; grant it SELECT and UPDATE on the columns of profile_store.columns"
  private static let missing =
    "The profile store does not know the table or a column; check profile_store.table and .columns, run the migration, "
    + "then: notify pgrst, 'reload schema'"
  private static let types =
    "A column of the profile store does not take a value of ours: tier, status or transaction ID has another type or "
    + "form there"
  private static let own = "A trigger, policy or function of the profile store fails"
  private static let database = "The database behind the profile store is away, restarting or out of connections"
  private static let gateway =
    "The gateway of the profile store did not get an answer; the update may have been applied"
  private static let paused: Duration = .seconds(300)

  /// The first match counts: codes before statuses.
  ///
  /// https://docs.postgrest.org/en/stable/references/errors.html,
  /// https://www.postgresql.org/docs/current/errcodes-appendix.html
  private static let rules: [Rule] = [
    // PostgREST's own codes.
    Rule(code: "PGRST00", .unavailable, database),
    Rule(code: "PGRST106", .misconfigured, "PostgREST does not expose the schema; check profile_store.schema"),
    Rule(code: "PGRST117", .misconfigured, "The profile store takes no PATCH; is profile_store.url PostgREST's?"),
    Rule(code: "PGRST122", .misconfigured, "This PostgREST does not know max-affected; use version 13 or later"),
    Rule(code: "PGRST124", .refused, "More than one row has this user ID; make the id column of the store unique"),
    Rule(code: "PGRST125", .misconfigured, "PostgREST has nothing at this path; check profile_store.url"),
    Rule(code: "PGRST1", .refused, "PostgREST did not understand the request"),
    Rule(code: "PGRST202 PGRST204 PGRST205", .schemaCache, missing),
    Rule(code: "PGRST2", .misconfigured, missing),
    Rule(code: "PGRST3", .misconfigured, key),
    Rule(code: "PGRSTX", .unavailable, "PostgREST failed inside; the update may have been applied"),

    // Raised on purpose: PT and the HTTP status.
    Rule(code: "PT", status: 400...428, .refused, own),
    Rule(code: "PT", status: 430...499, .refused, own),
    Rule(code: "PT", .unavailable, own),

    // Constraints and values.
    Rule(
      code: "23505", .refused,
      "Another user's profile has this original transaction ID; it has to let go of it first"),
    Rule(code: "23514", .refused, "A check on the profiles forbids the update; does it know every tier and status?"),
    Rule(code: "23503", .refused, "A foreign key of the profiles forbids the update; does it know every tier?"),
    Rule(code: "23502", .refused, "A column of the profiles does not take null; expiry and transaction ID need it"),
    Rule(code: "23", .refused, "A constraint of the profiles forbids the update"),
    // "role … does not exist": the token names a role that the database lacks.
    Rule(code: "22023", status: 401...403, .misconfigured, key),
    Rule(
      code: "22003", .misconfigured,
      "A number is out of range for its column; the one of profile_store.columns.version has to be a bigint: "
        + "alter table … alter column … type bigint"),
    Rule(code: "22", .refused, types),
    Rule(code: "09 21 27 38 39 P0", .refused, own),
    Rule(code: "44", .refused, "The profiles are a view that would not show the row after the update"),
    Rule(code: "XX", .refused, "PostgreSQL failed inside; its log says more"),

    // Key, privileges, tables. PostgREST responds 401 when only the anonymous role is left.
    Rule(
      code: "42501", status: 401...401, .misconfigured,
      "The profile store takes us for anonymous; profile_store.key must be a secret key or a token of service_role"),
    Rule(code: "42501", .misconfigured, grant),
    Rule(code: "42P17", .misconfigured, "A row level security policy on the profiles reads its own table"),
    Rule(code: "42 3F", .misconfigured, missing),
    Rule(code: "0L 0P", .misconfigured, grant),
    Rule(code: "28", .misconfigured, key),
    Rule(code: "0A", .misconfigured, "The profiles cannot be updated as they are; is the table a view or foreign?"),

    // The database is busy or unreachable.
    Rule(
      code: "25006", .unavailable,
      "The database behind the profile store is read only: its disk is full, or it is a replica"),
    Rule(code: "25", .unavailable, "The database ended the transaction; the update was undone"),
    Rule(code: "40", .unavailable, "The update was undone: others wrote the same row"),
    Rule(code: "55P03", .unavailable, "The row is locked; the update was undone"),
    Rule(code: "55006", .unavailable, "The table is locked; the update was undone"),
    Rule(code: "55", .misconfigured, "The profiles cannot be updated as they are; are they a view?"),
    Rule(
      code: "57014", .unavailable, "The database gave up after its time limit, often for a lock; the update was undone"),
    Rule(code: "08 53 57 58", .unavailable, database),

    // Responses of a gateway, and codes not listed above.
    Rule(status: 200...299, .unavailable, notRows),
    Rule(
      status: 300...399, .misconfigured,
      "The profile store has moved; redirects are not followed, set profile_store.url"),
    Rule(status: 401...401, .misconfigured, key),
    Rule(
      status: 402...402, .unavailable, "Supabase has restricted the project: a quota is used up or a bill unpaid",
      pause: paused),
    Rule(status: 403...403, .misconfigured, "Something before the profile store turns us away; firewall, or the key"),
    Rule(status: 404...404, .misconfigured, "There is no PostgREST at this address; check profile_store.url"),
    Rule(status: 405...407, .misconfigured, "This is not PostgREST as we know it; check profile_store.url"),
    Rule(status: 408...409, .unavailable, gateway),
    Rule(status: 410...410, .misconfigured, "The profile store is gone; check profile_store.url"),
    Rule(status: 425...425, .unavailable, gateway),
    Rule(status: 429...429, .unavailable, "The profile store wants fewer requests"),
    Rule(status: 400...499, .refused, "The profile store refused the update and did not say why"),
    Rule(
      status: 540...540, .unavailable, "The Supabase project is paused; resume it in the dashboard", pause: paused),
    Rule(status: 500...999, .unavailable, gateway),
  ]

  private static let notRows =
    "The profile store's answer is not what PostgREST sends; is profile_store.url right? The update may have been applied"

  /// Whether the database could not convert one of our values to its column's type: `invalid_text_representation`,
  /// `numeric_value_out_of_range`, `character_not_in_repertoire`, `untranslatable_character`.
  var isAboutValue: Bool { ["22P02", "22003", "22021", "22P05"].contains(trouble.code) }

  static let versionType = PostgRESTFailure(
    .misconfigured, "version_type", "profile_store.columns.version names a column that is not a bigint")

  static let unreadable = PostgRESTFailure(.unavailable, "unreadable_answer", notRows)
}

// MARK: - No response

extension PostgRESTFailure {
  init(_ error: TransportError) {
    switch error {
    case .invalidRequest:
      self.init(
        .misconfigured, "invalid_request",
        "The request cannot be sent as written; check profile_store.url, and profile_store.key for control characters")
    case .resolve:
      self.init(.unavailable, "resolve", "The profile store's host name does not resolve")
    case .connect:
      self.init(.unavailable, "connect", "The profile store takes no connection")
    case .tls:
      self.init(
        .unavailable, "tls",
        "The profile store's certificate was refused, or TLS failed; a CA of your own belongs in profile_store.ca_file")
    case .timedOut:
      self.init(
        .unavailable, "timed_out", "The profile store did not answer in time; the update may have been applied",
        mayStillBeApplied: true)
    case .tooLarge:
      self.init(.unavailable, "too_large", "The profile store's answer is longer than any that PostgREST sends")
    case .reset:
      self.init(
        .unavailable, "reset", "The profile store broke off the connection; the update may have been applied",
        mayStillBeApplied: true)
    case .protocolViolation:
      self.init(
        .unavailable, "protocol", "What answers for the profile store does not speak HTTP", mayStillBeApplied: true)
    case .overloaded:
      self.init(.unavailable, "overloaded", "Too many requests to the profile store are waiting already; not sent")
    case .cancelled:
      self.init(
        .unavailable, "cancelled", "The update was given up from our side; it may have been applied",
        mayStillBeApplied: true)
    case .shutDown:
      self.init(.unavailable, "shut_down", "The service is shutting down; the update was not sent")
    case .other(let code):
      self.init(.unavailable, "curl_\(code)", "The request to the profile store failed", mayStillBeApplied: true)
    }
  }
}

// MARK: - Parsing responses

extension PostgRESTFailure.Signs {
  /// At least a second: PostgREST sends `Retry-After: 0` while the database is unreachable. At most ten minutes.
  static let retryAfterRange: ClosedRange<Duration> = .seconds(1)...(.seconds(600))

  static func read(_ response: TransportResponse) async -> PostgRESTFailure.Signs {
    struct Error: Sendable {
      var code: String?
      var isLocked: Bool
      var isBeyondGrants: Bool
    }
    let error = try? await JSONReader.shared.read(response.body) { body throws(JSONError) -> Error in
      Error(
        code: body["code"]?.string, isLocked: body["hint"]?.string == "subscription_is_read_only",
        isBeyondGrants: body["message"]?.string.map { !$0.hasPrefix("permission denied") } ?? false)
    }
    // An error whose body was lost leaves its header alone: `PostgREST; error=PGRST116`.
    let header = response.header("Proxy-Status")?.split(separator: "error=", maxSplits: 1).last.map(String.init)
    let pause = response.retryAfter().map { min(max($0, retryAfterRange.lowerBound), retryAfterRange.upperBound) }
    return PostgRESTFailure.Signs(
      status: response.status, code: [error?.code, header].compactMap(\.self).first(where: isCode),
      isLocked: error?.isLocked == true, isBeyondGrants: error?.isBeyondGrants == true, retryAfter: pause)
  }

  /// Five characters of an SQLSTATE, or PGRST and three more: too short to contain a value of a row.
  private static func isCode(_ text: String) -> Bool {
    (text.utf8.count == 5 || text.utf8.count == 8 && text.hasPrefix("PGRST"))
      && text.utf8.allSatisfy { $0.isDigit || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
  }
}

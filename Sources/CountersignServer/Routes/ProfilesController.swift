import CountersignAPI
import Cryptography
import Entitlements
import HTTPTypes
import Hummingbird
import Ledger
import NIOCore
import Resilience
import Validation

import struct FoundationEssentials.Date

/// `GET /v1/profiles/{user_id}`, or `me` for a user: the entitlement as the ledger knows it, without asking Apple.
struct ProfilesController: Sendable {
  var ledger: Ledger
  var rules: EntitlementRules
  var hasProfileStore: Bool
  var now: @Sendable () -> Date
  /// Answers as sent before: some 10 MB of them.
  private let answers = LRUCache<UserID, Answer>(limit: 10_000)

  /// An answer with what it rests on.
  private struct Answer: Sendable {
    var body: ByteBuffer
    var tag: String
    var headers: HTTPFields
    /// The ledger's number of the user from before it was read.
    var generation: UInt64
    var readAt: Date
    /// When time alone may change it.
    var until: Date?

    func holds(at now: Date, _ generation: UInt64) -> Bool {
      self.generation == generation && readAt <= now && (until.map { now < $0 } ?? true)
    }
  }

  func profile(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireUserOr(.service, .support)
    guard let name = context.parameters.get("user_id").flatMap(UserID.percentDecoded) else {
      throw Problem(.malformedRequest, "The user ID in the path is not percent-encoded UTF-8.")
    }
    let user = try Self.user(name, as: caller)
    let now = now()
    let generation = ledger.generation(of: user)
    if let known = answers.value(for: user), known.holds(at: now, generation) {
      return Self.response(known, to: request)
    }
    let profile: LedgerProfile?
    do { profile = try await ledger.profile(of: user) } catch {
      context.logLedgerTrouble(error)
      throw Problem(.ledgerUnavailable, "The ledger cannot be read now; try again.")
    }
    // Unknown and never bought read the same.
    let entitlement = rules.standing(of: user, profile, at: now)
    let write: ProfileWrite =
      if hasProfileStore, let profile {
        ProfileWrite(profile.write).telling(entitlement, recorded: profile.entitlement)
      } else { .none }
    let body = JSONBody.write(
      EntitlementResponse(user: user, entitlement: entitlement, isFromLedger: true, write: write))
    let tag = Self.tag(of: body)
    let answer = Answer(
      body: body, tag: tag,
      headers: [
        .eTag: tag, .cacheControl: "private, no-cache", .vary: "Authorization", .contentType: "application/json",
      ], generation: generation, readAt: now,
      until: rules.nextChange(
        of: profile?.evidence ?? [], given: profile?.given ?? [], recorded: profile?.entitlement, after: now))
    // Of unknown users there are as many as somebody cares to make up.
    if profile != nil { answers.insert(answer, for: user) }
    return Self.response(answer, to: request)
  }

  /// The user whom a caller may ask about.
  private static func user(_ name: String, as caller: Caller) throws(Problem) -> UserID {
    switch caller {
    case .server:
      guard name != "me" else { throw Problem(.forbidden, "'me' is for users; a key has to name the user.") }
      return try UserID(checking: name)
    case .user(let user):
      // No other name is looked up, so that the answer does not reveal whether the user exists.
      guard name == "me" || UserID(name) == user else {
        throw Problem(.forbidden, "A user's token reads that user's profile only: /v1/profiles/me.")
      }
      return user
    }
  }

  /// With a strong entity tag over the bytes, and 304 where the caller has them already (RFC 9110, section 13.1.2).
  private static func response(_ answer: Answer, to request: Request) -> Response {
    let known = request.headers[values: .ifNoneMatch].flatMap { $0.split(separator: ",") }
    if known.contains(where: { matches(answer.tag, $0) }) {
      var headers = answer.headers
      headers[.contentType] = nil
      return Response(status: .notModified, headers: headers)
    }
    return Response(status: .ok, headers: answer.headers, body: ResponseBody(byteBuffer: answer.body))
  }

  private static func tag(of body: ByteBuffer) -> String {
    "\"\(SHA256Digest(of: body.readableBytesView).hexadecimal.prefix(24))\""
  }

  private static func matches(_ tag: String, _ candidate: Substring) -> Bool {
    var candidate = candidate.drop { $0 == " " }
    while candidate.last == " " { candidate.removeLast() }
    if candidate == "*" { return true }
    return (candidate.hasPrefix("W/") ? candidate.dropFirst(2) : candidate) == tag[...]
  }
}

import CountersignAPI
import Crypto
package import Entitlements
import HTTPTypes
package import Hummingbird
package import Ledger
import NIOCore
import Validation

package import struct FoundationEssentials.Date

/// `GET /v1/profiles/{user_id}`, or `me` for a user: the entitlement as the ledger knows it, without asking Apple.
package struct ProfilesController: Sendable {
  package var ledger: any Ledger
  package var rules: EntitlementRules
  package var hasProfileStore: Bool
  package var now: @Sendable () -> Date

  package init(ledger: any Ledger, rules: EntitlementRules, hasProfileStore: Bool, now: @escaping @Sendable () -> Date)
  {
    self.ledger = ledger
    self.rules = rules
    self.hasProfileStore = hasProfileStore
    self.now = now
  }

  package func profile(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireUserOr(.service, .support)
    guard let name = context.parameters.get("user_id").flatMap(UserID.percentDecoded) else {
      throw Problem(.malformedRequest, "The user ID in the path is not percent-encoded UTF-8.")
    }
    let user = try Self.user(name, as: caller)
    let profile: LedgerProfile?
    do { profile = try await ledger.profile(of: user) } catch {
      context.logLedgerTrouble(error)
      throw Problem(.ledgerUnavailable, "The ledger cannot be read now; try again.")
    }
    // Unknown and never bought read the same.
    let entitlement = rules.standing(of: user, profile, at: now())
    let write: ProfileWrite =
      if hasProfileStore, let profile {
        ProfileWrite(profile.write).telling(entitlement, recorded: profile.entitlement)
      } else { .none }
    return Self.response(
      EntitlementResponse(user: user, entitlement: entitlement, isFromLedger: true, write: write), to: request)
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
  private static func response(_ entitlement: EntitlementResponse, to request: Request) -> Response {
    let body = JSONBody.write(entitlement)
    let tag = Self.tag(of: body)
    let headers: HTTPFields = [.eTag: tag, .cacheControl: "private, no-cache", .vary: "Authorization"]
    let known = request.headers[values: .ifNoneMatch].flatMap { $0.split(separator: ",") }
    if known.contains(where: { matches(tag, $0) }) { return Response(status: .notModified, headers: headers) }
    var response = Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: body))
    response.headers[.contentType] = "application/json"
    return response
  }

  private static func tag(of body: ByteBuffer) -> String {
    let digest = body.withUnsafeReadableBytes { SHA256.hash(data: $0) }
    let digits = Array("0123456789abcdef".utf8)
    var tag = [UInt8(ascii: "\"")]
    for byte in digest.prefix(12) { tag += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
    tag.append(UInt8(ascii: "\""))
    return String(decoding: tag, as: UTF8.self)
  }

  private static func matches(_ tag: String, _ candidate: Substring) -> Bool {
    var candidate = candidate.drop { $0 == " " }
    while candidate.last == " " { candidate.removeLast() }
    if candidate == "*" { return true }
    return (candidate.hasPrefix("W/") ? candidate.dropFirst(2) : candidate) == tag[...]
  }
}

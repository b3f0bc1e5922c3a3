import CountersignAPI
import Entitlements
import Hummingbird
import Ledger
import Resilience
import Validation

import struct FoundationEssentials.Date

/// `GET /v1/profiles/{user_id}`, or `me` for a user: the entitlement as the ledger knows it, without asking Apple.
struct ProfilesController: Sendable {
  var reader: StandingReader
  var now: @Sendable () -> Date
  /// Answers as sent before: some 10 MB of them.
  private let answers = LRUCache<UserID, CachedAnswer>(limit: 10_000)

  func profile(_ request: Request, _ context: ServiceRequestContext) throws -> Reply {
    let user = try context.requireUserInPath()
    let now = now()
    if let known = answers.value(for: user), known.validity.holds(at: now, reader.ledger.generation(of: user)) {
      return .now(known.response(to: request))
    }
    return .later { try await read(user, at: now, request, context) }
  }

  private func read(
    _ user: UserID, at now: Date, _ request: Request, _ context: ServiceRequestContext
  ) async throws -> Response {
    let standing = try await context.reading(await reader.standing(of: user, at: now))
    let body = EntitlementResponse(
      user: user, entitlement: standing.entitlement, isFromLedger: true, write: standing.write)
    let answer = CachedAnswer(JSONBody.write(body.writeMembers), standing.validity)
    // Anybody can make up unknown users, as many as they like: those stay out of the cache.
    if standing.isKnown { answers.insert(answer, for: user) }
    return answer.response(to: request)
  }
}

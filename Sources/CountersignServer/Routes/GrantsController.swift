import CountersignAPI
import Entitlements
import Hummingbird
import Ledger
import Validation

import struct FoundationEssentials.Date

/// `/v1/profiles/{user_id}/grants`: access that is given and not bought.
struct GrantsController: Controller {
  var grants: AccessGrants
  var catalog: Catalog
  var body = JSONRequestBody(limit: BodyBudgets.supportLimit)
  var budget: ByteBudget
  var now: @Sendable () -> Date

  /// The length of a grant: from a minute to a century.
  static let length: ClosedRange<Duration> = .seconds(60) ... .seconds(36_525 * 86_400)

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/profiles/{user_id}/grants", [.get: list, .post: give])
    routes.serve("/v1/profiles/{user_id}/grants/{grant_id}", [.delete: end])
  }

  func give(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support, .service)
    let user = try context.checkedUserInPath()
    let key = try request.headers.idempotencyKey()
    let posted = try await body.decode(GrantRequest.self, from: request, budget.loan()).value
    let now = now()
    let tier = try tier(posted.tier)
    let kind = try Self.kind(posted.kind)
    let endsAt = try Self.end(posted, from: now)
    let note = try NoteText.checked(posted.note, by: caller)
    let outcome = try await context.validating(
      await grants.give(
        kind, tier, to: user, from: now, until: endsAt, author: caller.name, note: note,
        requestID: context.requestID, idempotencyKey: key, logger: context.logger))
    switch outcome {
    case .given(let record), .repeated(let record):
      var response = JSONBody.uncached(GrantResponse(record), status: .created)
      response.headers[.location] = "\(request.uri.path)/\(record.period.id)"
      return response
    case .mismatch:
      throw Problem(.idempotencyMismatch, "This 'Idempotency-Key' was used for another grant to this user.")
    }
  }

  func list(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    let user = try context.checkedUserInPath()
    let records = try await context.validating(await grants.list(of: user))
    return JSONBody.uncached(GrantsResponse(grants: records.map(GrantResponse.init)))
  }

  func end(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support, .service)
    let user = try context.checkedUserInPath()
    guard let id = context.number("grant_id") else { throw Self.unknown }
    let posted = try await body.decodeIfPresent(GrantEndRequest.self, from: request, budget.loan())?.value
    let why = try NoteText.checked(posted?.note, by: caller)
    let note = Note(
      author: caller.name, text: why ?? "A grant was ended.", requestID: context.requestID, recordedAt: now())
    let outcome = try await context.validating(await grants.end(id, of: user, note: note, logger: context.logger))
    switch outcome {
    case .ended(let record), .over(let record): return JSONBody.uncached(GrantResponse(record))
    case .unknown: throw Self.unknown
    }
  }

  private static let unknown = Problem(.notFound, "This user was never given a grant with this ID.")

  private func tier(_ name: String) throws(Problem) -> Tier {
    let tier = Tier(name)
    let given = catalog.tiers.filter { $0 != catalog.defaultTier }
    guard given.contains(tier) else {
      throw Problem(.malformedRequest, "'tier' has to be one of: \(given.map(\.rawValue).joined(separator: ", ")).")
    }
    return tier
  }

  private static func kind(_ name: String?) throws(Problem) -> GivenPeriod.Kind {
    guard let name else { return .support }
    guard let kind = GivenPeriod.Kind(rawValue: name), kind != .trial else {
      throw Problem(.malformedRequest, "'kind' has to be 'support', 'promotion', 'tester' or 'migration'.")
    }
    return kind
  }

  private static func end(_ posted: GrantRequest, from now: Date) throws(Problem) -> Date {
    switch (posted.endsAt, posted.length) {
    case (nil, let text?):
      do throws(Duration.TextError) {
        return now.advanced(by: try Duration(configurationText: text, in: length))
      } catch { throw Problem(.malformedRequest, "'for' \(error.sentence(in: length)).") }
    case (let text?, nil):
      let end = try Date(checking: text, named: "ends_at")
      guard end > now, end <= now.advanced(by: length.upperBound) else {
        throw Problem(.malformedRequest, "'ends_at' has to be in the future, and within a century.")
      }
      return end
    case (nil, nil), (.some, .some): throw Problem(.malformedRequest, "Give the end: either 'ends_at' or 'for'.")
    }
  }
}

extension GrantResponse {
  init(_ record: GivenRecord) {
    self.init(
      id: String(record.period.id), userID: record.user.rawValue, kind: record.period.kind.rawValue,
      tier: record.period.tier.rawValue, startsAt: record.period.startsAt, endsAt: record.endsAt,
      isEndedEarly: record.endedAt != nil, author: record.author, note: record.note)
  }
}

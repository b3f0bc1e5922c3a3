import Access
import CountersignAPI
import Entitlements
import Hummingbird
import Ledger
import NIOCore
import Validation

import struct FoundationEssentials.Date

/// `/v1/profiles/{user_id}/usage/{feature}`: consuming, giving back, and counts that are kept here.
struct UsageController: Controller {
  var usage: FeatureUsage
  var body = JSONRequestBody(limit: BodyBudgets.runLimit)
  var budgets: BodyBudgets
  /// Consumptions by feature and outcome. A key that is used again counts again.
  var consumptions: LabelledCounter
  var reserve: DiskReserve
  var now: @Sendable () -> Date

  /// The amounts that one request may consume.
  static let amounts = 1...1_000_000
  /// The numbers of things that may exist.
  static let counts = 0...1_000_000_000

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/profiles/{user_id}/usage/{feature}", [.post: consume, .put: setCount])
    routes.serve("/v1/profiles/{user_id}/usage/{feature}/{key}", [.delete: giveBack])
  }

  func consume(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (user, feature) = (try context.requireUserInPath(), try usage.plans.feature(in: context))
    guard feature.kind == .meter else {
      throw Problem(.malformedRequest, "'\(feature.name)' is a \(feature.kind.rawValue): only a meter is consumed.")
    }
    try reserve.requireRoom()
    let key = try request.headers.idempotencyKey()
    let loan = budgets.access(by: context.caller)
    let posted = try await body.decodeIfPresent(UsageRequest.self, from: request, loan)?.value ?? UsageRequest()
    let amount = posted.amount ?? 1
    guard Self.amounts.contains(amount) else {
      throw Problem(.malformedRequest, "'amount' has to be a whole number from 1 to 1000000.")
    }
    let zone = ZoneChoice(
      usual: usage.plans.timeZone,
      named: try posted.timeZone.map { text throws(Problem) in try Zone(checking: text) },
      isTrusted: context.isServer)
    let (outcome, tier) = try await context.reading(
      await usage.consume(
        amount, of: feature, by: user, in: zone, idempotencyKey: key,
        request: "\(amount) \(posted.timeZone ?? "")", at: now()))
    switch outcome {
    case .consumed(let answer):
      consumptions.increment(feature.name.rawValue, "consumed")
      return JSONBody.uncached(FeatureResponse(answer, of: feature))
    case .refused(let access):
      consumptions.increment(feature.name.rawValue, "refused")
      throw Problem(
        .limitReached, Self.sentence(feature, access),
        feature: FeatureResponse(FeatureAnswer(tier: tier, access: access), of: feature))
    case .mismatch:
      throw Problem(.idempotencyMismatch, "This 'Idempotency-Key' was used for another amount or time zone.")
    }
  }

  func giveBack(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (user, feature) = (try context.requireUserInPath(), try usage.plans.feature(in: context))
    guard let key = context.parameters["key"].flatMap(UserID.percentDecoded), HTTPFields.isIdempotencyKey(key)
    else { throw Self.unknownKey }
    let (outcome, tier) = try await context.reading(
      await usage.giveBack(key, of: feature, by: user, isByUser: !context.isServer, at: now()))
    switch outcome {
    case .returned(let access):
      consumptions.increment(feature.name.rawValue, "returned")
      return JSONBody.uncached(FeatureResponse(FeatureAnswer(tier: tier, access: access), of: feature))
    case .unknown: throw Self.unknownKey
    case .tooLate:
      throw Problem(
        .forbidden, "A user gives back one of the last 1000 consumptions, within ten minutes; a server whenever.")
    case .tooOften:
      throw Problem(.forbidden, "This user has given back as often as the feature's rules allow to consume.")
    }
  }

  func setCount(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service)
    let (user, feature) = (try context.requireUserInPath(), try usage.plans.feature(in: context))
    guard feature.kind == .limit else {
      throw Problem(.malformedRequest, "'\(feature.name)' is a \(feature.kind.rawValue): only a limit has a count.")
    }
    let count = try await body.decode(CountRequest.self, from: request, budgets.access(by: context.caller)).value.count
    guard Self.counts.contains(count) else {
      throw Problem(.malformedRequest, "'count' has to be a whole number from 0 to 1000000000.")
    }
    let one = try await context.reading(await usage.setCount(count, of: feature, by: user, at: now()))
    return JSONBody.uncached(FeatureResponse(one, of: feature))
  }

  private static let unknownKey = Problem(.notFound, "This user consumed nothing of the feature under this key.")

  private static func sentence(_ feature: Feature, _ access: FeatureAccess) -> String {
    let used = access.limit.map { " (\(access.current ?? 0) of \($0) are used)" } ?? ""
    let way = access.upgradeTo.map { "; the tier '\($0)' would allow it" } ?? ""
    return "The limit of '\(feature.name)' is reached\(used)\(way)."
  }
}

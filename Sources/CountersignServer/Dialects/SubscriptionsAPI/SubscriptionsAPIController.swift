import Access
import CountersignAPI
import Entitlements
import HTTPTypes
import Hummingbird
import Ledger
import NIOCore
import Validation

import struct FoundationEssentials.UUID

/// `/api/subscriptions/…`: plans, limits, purchases and trials in the words of an app that had a backend of its own for
/// them. What such a backend took from the app unproven is proven here, or taken from nobody.
struct SubscriptionsAPIController: DialectController {
  private let common: DialectParts
  private let names: SubscriptionsAPIFeatures
  private let purchaseBody: JSONRequestBody
  private let trialBody = JSONRequestBody(limit: BodyBudgets.trialLimit)
  private let planBodies: [Tier: SubscriptionsAPIPlan]
  private let plansBody: ByteBuffer
  private let plansTag: String
  private let health: SubscriptionsHealth

  init(_ common: DialectParts) {
    self.common = common
    let names = SubscriptionsAPIFeatures(common.useCases.plans.features)
    self.names = names
    purchaseBody = JSONRequestBody(limit: common.maxBody)
    let catalog = common.useCases.reader.rules.catalog
    let plans = common.useCases.plans.plans.map { SubscriptionsAPIPlan($0, common.useCases.plans, catalog) }
    planBodies = Dictionary(zip(common.useCases.plans.plans.map(\.tier), plans)) { first, _ in first }
    plansBody = JSONBody.encode(
      SubscriptionsAPIPlans(
        plans: zip(common.useCases.plans.plans, plans).filter(\.0.isActive).map { plan, body in
          SubscriptionsAPIPlans.Plan(plan: body, features: names.limits(of: plan.tier))
        }))
    plansTag = CachedAnswer.tag(of: plansBody)
    health = SubscriptionsHealth(common)
  }

  func addRoutes(to routes: Routes, authenticated: Routes) {
    routes.serve("/api/subscriptions/plans", [.get: plans])
    authenticated.serve("/api/subscriptions/current", [.get: current])
    authenticated.serve("/api/subscriptions/limits", [.get: limits])
    authenticated.serve("/api/subscriptions/check/{resource}", [.get: check])
    authenticated.serve("/api/subscriptions/feature/{feature}", [.get: feature])
    authenticated.serve("/api/subscriptions/verify", [.post: verify])
    authenticated.serve("/api/subscriptions/restore", [.post: restore])
    authenticated.serve("/api/subscriptions/start-trial", [.post: startTrial])
    authenticated.serve("/api/subscriptions/cancel", [.post: cancel])
    authenticated.serve("/api/health/subscriptions", [.get: health.health])
  }

  let errors = SuccessError.errors(at: "/api/subscriptions", "/api/health/subscriptions")

  // MARK: Reads

  private func plans(_ request: Request, _ context: ServiceRequestContext) -> Response {
    CachedAnswer.response(
      plansBody, plansTag,
      [.eTag: plansTag, .cacheControl: "public, max-age=300", .contentType: "application/json"], to: request)
  }

  private func current(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUser()
    let overview = try await context.reading(await common.access.usage.overview(of: user, in: nil, at: common.now()))
    var answer = try await answer(about: user, overview.standing.entitlement, context)
    answer.usage = names.usage(overview.features)
    return JSONBody.uncached(answer)
  }

  private func limits(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let tier = try await tier(of: try context.requireUser(), context)
    return JSONBody.uncached(SubscriptionsAPILimits(limits: names.limits(of: tier)))
  }

  /// Whether one more may exist, or be consumed: the app's own route refuses, and this one only says so.
  private func check(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUser()
    let (resource, feature) = try named("resource", in: context)
    guard feature.kind != .flag else {
      throw Problem(.unknownFeature, "'\(feature.name)' is a flag and no resource: ask for it under 'feature'.")
    }
    let one = try await common.access.look(at: feature, of: user, request, context).access
    return JSONBody.uncached(
      SubscriptionsAPICheck(
        resource: resource, allowed: one.isAllowed, current: one.current ?? 0,
        limit: one.limit ?? SubscriptionsAPIFeatures.unlimited))
  }

  private func feature(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUser()
    let (name, feature) = try named("feature", in: context)
    let tier = try await tier(of: user, context)
    return JSONBody.uncached(
      SubscriptionsAPIFeature(
        feature: name, hasAccess: PlansResponse.Allowance(feature.allowance(of: tier)).isIncluded))
  }

  /// The feature that the path names, with the name as it came.
  private func named(
    _ parameter: String, in context: ServiceRequestContext
  ) throws(Problem) -> (name: String, feature: Feature) {
    guard let name = context.parameters[parameter].flatMap(UserID.percentDecoded), let feature = names[name] else {
      throw Problem(.unknownFeature, "The catalog has no feature with this name.")
    }
    return (name, feature)
  }

  private func tier(of user: UserID, _ context: ServiceRequestContext) async throws(Problem) -> Tier {
    try await context.reading(await common.access.usage.tier(of: user, at: common.now()))
  }

  // MARK: Purchases

  private func verify(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUser()
    let posted = try await purchaseBody.decode(SubscriptionsAPIPurchase.self, from: request, common.loan(for: context))
    defer { withExtendedLifetime(posted.loan) {} }
    guard let proof = posted.value.proof else { throw Self.unproven }
    let entitlement = try await validate(proof, of: user, context)
    let text =
      entitlement.givesAccess ? "The subscription is active." : "The purchase is genuine, and gives no access now."
    return JSONBody.uncached(try await answer(about: user, entitlement, context, message: text))
  }

  /// As `verify`. With nothing that proves a purchase it answers with what is known of the user.
  private func restore(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUser()
    let entitlement = try await restored(request, of: user, context)
    var answer = try await answer(
      about: user, entitlement, context,
      message: entitlement.givesAccess ? "The subscription is restored." : "There is no subscription to restore.")
    answer.restored = entitlement.givesAccess
    return JSONBody.uncached(answer)
  }

  private func restored(
    _ request: Request, of user: UserID, _ context: ServiceRequestContext
  ) async throws -> Entitlement {
    let posted = try await purchaseBody.decodeIfPresent(
      SubscriptionsAPIPurchase.self, from: request, common.loan(for: context))
    defer { withExtendedLifetime(posted?.loan) {} }
    if let proof = posted?.value.proof {
      do { return try await validate(proof, of: user, context) } catch let problem as Problem {
        // Nothing of the user's is known by this ID: then what is known is all there is.
        guard problem.code == .unknownTransaction else { throw problem }
      }
    }
    return try await standing(of: user, context)
  }

  private func validate(
    _ proof: ReceiptSubmission.Proof, of user: UserID, _ context: ServiceRequestContext
  ) async throws -> Entitlement {
    do { return try await common.validate(proof, of: user, context).entitlement } catch let problem as Problem {
      if case .originalTransactionID = proof { throw ValidationsController.withoutHint(problem) }
      throw problem
    }
  }

  private func standing(of user: UserID, _ context: ServiceRequestContext) async throws(Problem) -> Entitlement {
    try await context.reading(await common.useCases.reader.standing(of: user, at: common.now()).entitlement)
  }

  private static let unproven = Problem(
    .unknownTransaction,
    "No purchase of yours is proven by this: post the signed transaction or the receipt as 'receipt_data'.")

  /// Nobody but the store ends a subscription: the app opens the page on which the customer does.
  private func cancel(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUser()
    let entitlement = try await standing(of: user, context)
    let page = DialectParts.managementURL(of: entitlement.originalTransactionID?.store ?? "app_store")
    var answer = try await answer(
      about: user, entitlement, context,
      message: "Only the customer can cancel, in the store\(page == nil ? "" : ": open 'managementUrl'").")
    answer.cancelled = false
    answer.managementUrl = page
    return JSONBody.uncached(answer)
  }

  // MARK: Trials

  private func startTrial(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUser()
    let loan = common.budgets.access(by: context.caller)
    let posted =
      try await trialBody.decodeIfPresent(SubscriptionsAPITrialStart.self, from: request, loan)?.value
      ?? SubscriptionsAPITrialStart()
    let terms = try common.trials.terms(posted.trial ?? common.trials.trials.terms.first?.name)
    let device = try await device(posted.deviceId, of: user, for: terms, context)
    let tokens = try TrialsController.tokens(posted.deviceToken, posted.secondDeviceToken, posted.development)
    let (_, isNew) = try await common.trials.begin(
      terms, for: user, on: Device(id: device, app: common.trials.trials.settings.soleApp),
      keepsDevice: posted.deviceId != nil, tokens: tokens, context)
    return JSONBody.uncached(
      try await answer(
        about: user, try await standing(of: user, context), context,
        message: isNew ? "The trial has begun." : "The trial of this user, which began before."))
  }

  /// The device that the app names. Without a name any will do, where the user can have one trial only.
  private func device(
    _ id: String?, of user: UserID, for terms: TrialTerms, _ context: ServiceRequestContext
  ) async throws(Problem) -> DeviceID {
    if let id { return try DeviceID(checking: id) }
    guard terms.oncePer.contains(.user) else {
      throw Problem(.malformedRequest, "'deviceId' is missing: this trial is once per device.")
    }
    let own = try await context.reading(await common.useCases.ledger.trial(of: user))
    return own?.device ?? DeviceID(UUID().uuidString)
  }

  // MARK: -

  private func answer(
    about user: UserID, _ entitlement: Entitlement, _ context: ServiceRequestContext, message: String? = nil
  ) async throws(Problem) -> SubscriptionsAPIAnswer {
    let profile = try await context.reading(await common.useCases.ledger.profile(of: user))
    return SubscriptionsAPIAnswer(
      message: message, subscription: SubscriptionsAPISubscription(entitlement, profile, common.useCases.plans),
      plan: planBodies[entitlement.tier] ?? SubscriptionsAPIPlan(unlisted: entitlement.tier),
      limits: names.limits(of: entitlement.tier), entitlement, at: common.now())
  }
}

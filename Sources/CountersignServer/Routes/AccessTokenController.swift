import Access
import CountersignAPI
import Entitlements
import HTTPTypes
import Hummingbird
import Ledger
import Logging
import NIOCore
import Tokens
import Validation

import struct FoundationEssentials.Date

/// `GET /v1/profiles/me/token` and `GET /.well-known/jwks.json`: what a user may do, signed, and the keys to check it with.
struct AccessTokenController: Sendable {
  var settings: AccessTokenSettings
  var usage: FeatureUsage
  var rules: EntitlementRules
  var now: @Sendable () -> Date

  func addRoutes(to routes: Routes, authenticated: Routes) {
    routes.serve("/.well-known/jwks.json", [.get: keys])
    authenticated.serve("/v1/profiles/{user_id}/token", [.get: token])
  }

  /// Tokens are for users themselves: a server asks for what it needs to know.
  func token(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let user = try context.requireUserInPath()
    guard case .user = context.caller else { throw Problem(.forbidden, "This route is for a user's own token.") }
    let now = now()
    let overview = try await context.reading(await usage.overview(of: user, in: nil, at: now))
    let entitlement = overview.standing.entitlement
    var token = AccessToken(
      user: user.rawValue, tier: entitlement.tier.rawValue, status: entitlement.status.rawValue,
      environment: entitlement.environment?.rawValue,
      features: Dictionary(
        uniqueKeysWithValues: usage.plans.features.compactMap { feature in
          overview.features[feature.name].map { (feature.name.rawValue, AccessToken.Feature($0, of: feature)) }
        }), until: rules.accessEnd(of: entitlement, at: now), now: now)
    token.issuer = settings.issuer
    token.audience = settings.audience
    let signed: String
    do { signed = try settings.keyring.current.token(token) } catch {
      context.logger.error("an access token cannot be signed")
      throw Problem(.internalError, "The token could not be signed; try again.")
    }
    return JSONBody.uncached(
      AccessTokenResponse(token: signed, expiresAt: Date(timeIntervalSince1970: Double(token.expiresAt))))
  }

  func keys(_ request: Request, _ context: ServiceRequestContext) -> Response {
    let body = JSONBody.encode(["keys": settings.keyring.current.published])
    let tag = CachedAnswer.tag(of: body)
    return CachedAnswer.response(
      body, tag,
      [
        .eTag: tag, .cacheControl: "public, max-age=3600", .contentType: "application/json",
        .accessControlAllowOrigin: "*",
      ], to: request)
  }
}

extension AccessToken.Feature {
  fileprivate init(_ access: FeatureAccess, of feature: Feature) {
    self =
      feature.kind == .flag
      ? .flag(access.isAllowed)
      : .counted(isAllowed: access.isAllowed, limit: access.limit, remaining: access.remaining)
  }
}

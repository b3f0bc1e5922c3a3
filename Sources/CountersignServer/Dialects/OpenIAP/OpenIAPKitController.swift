import Entitlements
import Hummingbird
import Ledger
import NIOCore
import Validation

/// The questions of OpenIAP's `kitApi`, with `baseUrl` set to this service: the state of a user, and the catalog.
///
/// The app's key stands in the path, so it may be a public one alone: URLs end in the logs of proxies. It names no user;
/// whoever has a user's ID reads what it names.
struct OpenIAPKitController: Sendable {
  private static let subscriptions = "/v1/subscriptions/"
  private static let products = "/v1/products/"

  private let common: DialectParts
  private let body: JSONRequestBody
  private let catalog: OpenIAPProducts

  init(_ common: DialectParts) {
    self.common = common
    body = JSONRequestBody(limit: common.maxBody)
    catalog = OpenIAPProducts(common.useCases.reader.rules.catalog, common.useCases.plans, at: common.now())
  }

  func addRoutes(to routes: Routes) {
    // The credential is in the path.
    routes.serve("/v1/subscriptions/status/{api_key}", [.get: status])
    routes.serve("/v1/subscriptions/entitlements/{api_key}", [.get: entitlements])
    routes.serve("/v1/subscriptions/bind-user/{api_key}", [.post: bindUser])
    routes.serve("/v1/products/{api_key}", [.get: products])
  }

  /// A longer path is our own: `/v1/products/{product_id}/extensions`.
  static func covers(_ path: String) -> Bool {
    path.hasPrefix(subscriptions) || path.hasPrefix(products) && !path.dropFirst(products.count).contains("/")
  }

  private func status(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (user, _) = try user(of: request, context)
    let state = try await OpenIAPUserState(of: user, common, context)
    return JSONBody.uncached(OpenIAPStatus(active: state.isActive, subscription: state.running.first ?? state.ended))
  }

  private func entitlements(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (user, name) = try user(of: request, context)
    let running = try await OpenIAPUserState(of: user, common, context).running
    return JSONBody.uncached(
      OpenIAPEntitlements(userId: name, productIds: Set(running.map(\.productId)).sorted(), subscriptions: running))
  }

  private struct PostedBinding: Decodable {
    /// A signed transaction.
    var purchaseToken: String
    var userId: String
  }

  /// Validates the purchase for the user, as the app does that posts it here by `verifyPurchaseWithProvider`.
  private func bindUser(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let app = try app(in: context)
    var context = context
    context.caller = .app(app)
    let read = try await body.decode(PostedBinding.self, from: request, common.loan(for: context))
    defer { withExtendedLifetime(read.loan) {} }
    let user = try user(named: read.value.userId, context)
    let token = read.value.purchaseToken
    _ = try common.transaction(in: token, named: "purchaseToken", context)
    _ = try await common.validate(.receipt(token), of: user, app: app.bundleID, context)
    return JSONBody.uncached(["ok": true, "bound": true])
  }

  private func products(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try app(in: context)
    switch try request.parameter("platform") {
    case nil, "IOS": return JSONBody.uncached(catalog)
    case "Android": return JSONBody.uncached(OpenIAPProducts.none)
    default: throw Problem(.malformedRequest, "'platform' has to be 'IOS' or 'Android'.")
    }
  }

  // MARK: Parts

  /// The app whose public key is in the path.
  private func app(in context: ServiceRequestContext) throws(Problem) -> PublicKey {
    guard let key = context.parameters["api_key"].flatMap(UserID.percentDecoded),
      let app = common.keyring.app(presenting: key)
    else {
      throw Problem(
        .unauthenticated, "The path has to end with a key of auth.public_keys; no other credential belongs in a URL.")
    }
    return app
  }

  /// The user in the query, and as they are named there.
  private func user(of request: Request, _ context: ServiceRequestContext) throws(Problem) -> (UserID, name: String) {
    _ = try app(in: context)
    guard let name = try request.parameter("userId") else {
      throw Problem(.malformedRequest, "'userId' is missing.")
    }
    return (try user(named: name, context), name)
  }

  private func user(named name: String, _ context: ServiceRequestContext) throws(Problem) -> UserID {
    let user = try UserID(checking: name, named: "userId")
    try common.admit(namedByApp: user, context)
    return user
  }
}

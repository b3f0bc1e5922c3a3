import CountersignAPI
import Foundation

extension CountersignClient {
  /// A client for previews and screenshots: no StoreKit, no service, no request. What it is told to buy is bought.
  ///
  ///     #Preview { SettingsView(client: .preview(.grace)) }
  ///
  /// - Parameters:
  ///   - preview: what the user has.
  ///   - features: by name.
  ///   - plans: the catalog; a free tier and a paid one with two products by default.
  ///   - products: the store's.
  public static func preview(
    _ preview: Preview = .pro, features: [String: Access.Feature] = [:], plans: PlansResponse = Preview.plans,
    products: [StoreProduct] = Preview.products
  ) -> CountersignClient {
    let service = PreviewService(preview, features, plans, products)
    var options = Options()
    options.keys = [SigningKey(kid: PreviewService.kid, x: "", y: "")]
    options.verify = { _, _, _ in true }
    options.store = service
    options.storage = service
    options.cache = service
    options.transport = service
    let url = URL(string: "https://preview.invalid") ?? URL(fileURLWithPath: "/")
    return CountersignClient(baseURL: url, user: PreviewService.user, token: { "preview" }, options: options)
  }

  /// The subscription of a preview's user.
  public enum Preview: String, CaseIterable, Sendable {
    /// Nothing, and never had.
    case free
    /// A subscription that renews.
    case pro
    /// A free period at the store.
    case trial
    /// A trial of the app's own: five days, five sessions. `startTrial` begins one in `.free` as well.
    case appTrial
    /// A payment that failed.
    case grace
    /// A subscription that ends in two days.
    case ending
    /// A subscription that has ended.
    case expired
    /// The service was never asked.
    case unknown

    /// The catalog of a preview.
    public static let plans = PlansResponse(
      plans: [
        .init(tier: "free", name: "Free", description: nil, features: [:], products: []),
        .init(
          tier: "pro", name: "Pro", description: "Everything", features: [:],
          products: [
            .init(
              productID: "pro.monthly", name: "Monthly", kind: .subscription, period: "P1M", prices: ["USD": "4.99"]),
            .init(
              productID: "pro.yearly", name: "Yearly", kind: .subscription, period: "P1Y", prices: ["USD": "39.99"]),
          ]),
      ],
      offerings: [
        .init(
          name: "default",
          packages: [
            .init(name: "$rc_monthly", productID: "pro.monthly"), .init(name: "$rc_annual", productID: "pro.yearly"),
          ], metadata: [:])
      ], currentOffering: "default")

    /// The store of a preview.
    public static let products = [
      StoreProduct(
        id: "pro.monthly", displayName: "Pro Monthly", price: 4.99, displayPrice: "$4.99", currencyCode: "USD",
        period: Period(1, .month)),
      StoreProduct(
        id: "pro.yearly", displayName: "Pro Yearly", price: 39.99, displayPrice: "$39.99", currencyCode: "USD",
        period: Period(1, .year),
        introductoryOffer: .init(mode: .freeTrial, price: 0, displayPrice: "$0.00", period: Period(1, .week), count: 1),
        isEligibleForIntroductoryOffer: true),
    ]
  }
}

/// The service, the store and the storage of a preview, in memory.
private final class PreviewService: Transport, Store, Storage {
  static let kid = "preview"
  static let user = "00000000-0000-4000-8000-000000000000"

  private let preview: Locked<CountersignClient.Preview>
  private let sessionsUsed = Locked(0)
  private let features: [String: Access.Feature]
  private let plans: PlansResponse
  private let catalog: [StoreProduct]
  private let kept = Locked<[String: Data]>([:])

  init(
    _ preview: CountersignClient.Preview, _ features: [String: Access.Feature], _ plans: PlansResponse,
    _ products: [StoreProduct]
  ) {
    self.preview = Locked(preview)
    self.features = features
    self.plans = plans
    catalog = products
  }

  // The token stands in the storage, so that the state is there at once.
  func read(_ name: String) throws -> Data? {
    if name.hasPrefix("token@"), preview.withLock({ $0 }) != .unknown { return Data(token.utf8) }
    return kept.withLock { $0[name] }
  }
  func write(_ data: Data?, to name: String) throws { kept.withLock { $0[name] = data } }

  func updates() -> AsyncStream<StoreTransaction> { AsyncStream { $0.finish() } }
  func unfinished() async -> [StoreTransaction] { [] }
  func currentEntitlements() async -> [StoreTransaction] { [] }
  func sync() async throws {}
  func products(_ ids: [String]) async throws -> [StoreProduct] { catalog.filter { ids.contains($0.id) } }
  func purchase(productID: String, appAccountToken: UUID?, offer: StoreOffer?) async throws -> StorePurchase {
    .success(StoreTransaction(id: 1, jwsRepresentation: "preview") {})
  }

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    let shown = preview.withLock { $0 }
    guard shown != .unknown else { throw URLError(.notConnectedToInternet) }
    switch request.url.path {
    case "/v1/profiles/me/token": return Self.json(["token": token])
    case "/v1/profiles/me": return Self.json(profile)
    case "/v1/profiles/me/access": return Self.json(["experiments": [String: String]()])
    case "/v1/plans": return Self.json(plans)
    case "/v1/profiles/me/offers": return Self.json(OffersResponse(promotional: [], introductory: [], winBack: []))
    case "/v1/events": return Self.json(["recorded": 1])
    case "/v1/validations":
      preview.withLock { $0 = .pro }
      return Self.json(profile)
    case let path where path.hasPrefix("/v1/profiles/me/usage/"):
      return Self.json(
        FeatureResponse(
          feature: request.url.lastPathComponent, tier: state.tier,
          state: FeatureState(kind: .meter, isAllowed: true, isMoreAllowed: true)))
    case "/v1/trials":
      if shown == .free { preview.withLock { $0 = .appTrial } }
      return Self.json(trial)
    case let path where path.hasPrefix("/v1/devices/"):
      return Self.json(
        DeviceResponse(deviceID: request.url.lastPathComponent, trial: shown == .appTrial ? trial : nil))
    case let path where path.hasPrefix("/v1/trials/") && (shown == .appTrial || trial.state != .running):
      if path.hasSuffix("/sessions") {
        guard trial.state == .running else { return Self.problem("trial_over", status: 403) }
        sessionsUsed.withLock { $0 += 1 }
        if trial.state != .running { preview.withLock { $0 = .free } }
      }
      return Self.json(trial)
    default: return Self.problem("not_found", status: 404)
    }
  }

  private var trial: TrialResponse {
    let used = sessionsUsed.withLock { $0 }
    let now = Date()
    return TrialResponse(
      trial: "default", userID: Self.user, deviceID: Self.user, tier: paid?.tier ?? "pro", startedAt: now,
      expiresAt: now + 5 * 86_400, sessionsTotal: 5, sessionsUsed: used, sessionsRemaining: 5 - used,
      state: used < 5 ? .running : .usedUp)
  }

  private var paid: PlansResponse.Plan? { plans.plans.last { !$0.products.isEmpty } }

  private var state: EntitlementState {
    let product = paid?.products.first?.productID
    let day: TimeInterval = 86_400
    func state(
      _ status: EntitlementState.Status, _ reason: EntitlementState.Reason, for days: Double, renews: Bool,
      isTrial: Bool = false
    ) -> EntitlementState {
      // Whole seconds: the service tells no others.
      let end = Date(timeIntervalSince1970: (Date().timeIntervalSince1970 + days * day).rounded())
      return EntitlementState(
        tier: days > 0 ? paid?.tier ?? "pro" : plans.plans.first?.tier ?? "free", status: status, reason: reason,
        expiresAt: end, accessUntil: days > 0 ? end : nil, productID: product, willRenew: renews, isTrial: isTrial,
        isStale: false, isProvisional: false)
    }
    switch preview.withLock({ $0 }) {
    case .free, .unknown:
      return EntitlementState(
        tier: plans.plans.first?.tier ?? "free", status: .expired, reason: .noPurchases, isTrial: false, isStale: false,
        isProvisional: false)
    case .pro: return state(.active, .renewing, for: 20, renews: true)
    case .trial: return state(.active, .renewing, for: 5, renews: true, isTrial: true)
    case .appTrial: return state(.active, .trial, for: 5, renews: false, isTrial: true)
    case .grace: return state(.gracePeriod, .billingGrace, for: 10, renews: true)
    case .ending: return state(.cancelled, .renewalOff, for: 2, renews: false)
    case .expired: return state(.expired, .voluntary, for: -2, renews: false)
    }
  }

  private var profile: EntitlementResponse {
    EntitlementResponse(
      userID: Self.user, entitlement: state, profileWrite: .none, isTransactionFound: true)
  }

  /// Its signature is none; the preview's client takes any.
  private var token: String {
    struct Feature: Encodable {
      var allowed: Bool
      var limit: Int?
      var remaining: Int?
    }
    struct Claims: Encodable {
      var sub: String
      var iat: Int
      var exp: Int
      var offline_until: Int
      var access_until: Int?
      var tier: String
      var status: EntitlementState.Status
      var features: [String: Feature]
    }
    let state = state
    let now = Int(Date().timeIntervalSince1970)
    let claims = Claims(
      sub: Self.user, iat: now, exp: now + 3600, offline_until: now + 3600,
      access_until: state.accessUntil.map { Int($0.timeIntervalSince1970) }, tier: state.tier, status: state.status,
      features: features.mapValues { Feature(allowed: $0.isAllowed, limit: $0.limit, remaining: $0.remaining) })
    let parts = [
      Data(#"{"alg":"ES256","typ":"access+jwt","kid":"\#(Self.kid)"}"#.utf8),
      (try? JSONEncoder().encode(claims)) ?? Data(),
      Data(count: 64),
    ]
    return parts.map(\.base64URL).joined(separator: ".")
  }

  private static func problem(_ code: String, status: Int) -> TransportResponse {
    json(
      ProblemDocument(
        type: "about:blank", title: "Preview", status: status, detail: "A preview has none of this.", code: code,
        isRetryable: false, requestID: "preview"), status: status)
  }

  private static func json(_ body: some Encodable, status: Int = 200) -> TransportResponse {
    TransportResponse(status: status, body: (try? JSONEncoder.countersign.encode(body)) ?? Data())
  }
}

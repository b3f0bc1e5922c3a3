import CountersignAPI
import Foundation

extension CountersignClient {
  /// The tiers with their names, features and products, and the offerings, as the service's catalog has them.
  ///
  /// The service is asked once in five minutes at most. While it is away the last answer counts, also that of an earlier run
  /// of the app.
  public func plans() async throws -> PlansResponse {
    try checkSignedIn()
    let now = options.now()
    if let kept = keptAnswer("plans"), kept.at <= now, now < kept.at + 300, let plans = kept.decoded(PlansResponse.self)
    {
      return plans
    }
    do {
      return try await answer(PlansResponse.self, to: "/v1/plans", keptAs: "plans", isOpen: true)
    } catch CountersignError.later(let retryAfter) {
      if let plans = keptAnswer("plans")?.decoded(PlansResponse.self) { return plans }
      throw CountersignError.later(retryAfter: retryAfter)
    }
  }

  /// The products of a paywall with the store's prices. A new product or another order needs no release of the app.
  ///
  ///     let offerings = try await client.offerings()
  ///     for package in offerings.current?.packages ?? [] { show(package.product?.displayPrice) }
  ///
  /// - Parameter experiment: an experiment whose variants are named after offerings: the one of the user's variant is the
  ///   current one. Report it with `noteExposure(to:of:)` when the app shows it.
  public func offerings(experiment: String? = nil) async throws -> Offerings {
    let plans = try await plans()
    let products = await storeProducts(plans.offerings.flatMap { $0.packages.map(\.productID) })
    var chosen: String?
    if let experiment {
      do { chosen = try await variant(of: experiment) } catch CountersignError.later {
        chosen = keptAnswer("access")?.decoded(VariantsAnswer.self)?.experiments[experiment]
      }
    }
    return Offerings(plans, products, variant: chosen)
  }

  /// The store's products; none where there is no store. A purchase uses up an introductory offer, and a storefront changes
  /// prices: they are asked for each time, and those that are known serve while the store is away, which is told to
  /// `options.onError`.
  func storeProducts(_ ids: [String]) async -> [StoreProduct] {
    if let store = options.store, !ids.isEmpty {
      do {
        let found = try await store.products(Set(ids).sorted())
        for id in ids { products[id] = found.first { $0.id == id } }
      } catch {
        report(error as? CountersignError ?? .refused(code: "store_error", detail: error.localizedDescription))
      }
    }
    return ids.compactMap { products[$0] }
  }
}

/// The members that are read of `GET /v1/profiles/me/access`.
struct VariantsAnswer: Decodable {
  var experiments: [String: String]
}

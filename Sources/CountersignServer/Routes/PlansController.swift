import Access
import CountersignAPI
import Entitlements
import HTTPTypes
import Hummingbird
import NIOCore

/// `GET /v1/plans`: what a paywall shows. The catalog is read at the start, so the answer is made once.
struct PlansController: Controller {
  private let body: ByteBuffer
  private let tag: String
  private let headers: HTTPFields

  init(_ plans: Plans, _ catalog: Catalog) {
    body = JSONBody.encode(PlansResponse(plans, catalog))
    tag = CachedAnswer.tag(of: body)
    headers = [.eTag: tag, .cacheControl: "public, max-age=300", .contentType: "application/json"]
  }

  func addRoutes(to routes: Routes) { routes.serve("/v1/plans", prompt: [.get: plans]) }

  func plans(_ request: Request, _ context: ServiceRequestContext) -> Reply {
    .now(CachedAnswer.response(body, tag, headers, to: request))
  }
}

extension PlansResponse {
  init(_ plans: Plans, _ catalog: Catalog) {
    self.init(
      plans: plans.plans.map { plan in
        Plan(
          tier: plan.tier.rawValue, name: plan.name ?? plan.tier.rawValue, description: plan.description,
          active: plan.isActive,
          features: Dictionary(
            uniqueKeysWithValues: plans.features.map { ($0.name.rawValue, Allowance($0.allowance(of: plan.tier))) }),
          products: Product.all(of: plan.tier, plans, catalog))
      },
      offerings: plans.offerings.map { offering in
        Offering(
          name: offering.name,
          packages: offering.packages.map { Package(name: $0.name, productID: $0.product.rawValue) },
          metadata: offering.metadata.mapValues(JSONMember.init))
      },
      currentOffering: plans.currentOffering?.name)
  }
}

extension PlansResponse.Allowance {
  init(_ allowance: Allowance) {
    switch allowance {
    case .flag(let isOn): self.init(kind: .flag, isIncluded: isOn)
    case .limit(let limit): self.init(kind: .limit, isIncluded: limit != 0, limit: limit)
    case .meter(let rules):
      self.init(kind: .meter, isIncluded: rules.allSatisfy { $0.maximum > 0 }, rules: rules.map(\.text))
    }
  }
}

extension PlansResponse.Product {
  fileprivate static func all(of tier: Tier, _ plans: Plans, _ catalog: Catalog) -> [Self] {
    catalog.products.filter { $0.value.tier == tier && $0.value.kind != .consumable }
      .sorted { $0.key.rawValue < $1.key.rawValue }
      .map { id, product in
        let terms = plans.terms[id]
        return Self(
          productID: id.rawValue, name: terms?.name ?? id.rawValue, active: terms?.isActive ?? true,
          kind: Kind(rawValue: product.kind.rawValue), period: terms?.period?.text,
          prices: terms?.prices.mapValues(\.text) ?? [:])
      }
  }
}

extension PlansResponse.JSONMember {
  init(_ metadata: Access.Offering.Metadata) {
    self =
      switch metadata {
      case .null: .null
      case .boolean(let value): .boolean(value)
      case .integer(let value): .integer(value)
      case .number(let value): .number(value)
      case .text(let value): .text(value)
      case .list(let values): .list(values.map(Self.init))
      case .mapping(let members): .object(members.mapValues(Self.init))
      }
  }
}

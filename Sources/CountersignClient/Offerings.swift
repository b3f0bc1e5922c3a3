import CountersignAPI
import Foundation

/// The products of a paywall, as the service's catalog has them, with the store's prices.
public struct Offerings: Hashable, Sendable {
  /// Every offering of the catalog.
  public var all: [Offering]
  /// The offering to show; `nil` where the catalog has none.
  public var current: Offering?
  /// The user's variant of the experiment that was named, for `noteExposure(to:of:)`; `nil` without one.
  public var variant: String?

  public subscript(_ name: String) -> Offering? { all.first { $0.name == name } }
}

/// Packages that a paywall shows together.
public struct Offering: Hashable, Sendable {
  public var name: String
  /// In the order of the catalog.
  public var packages: [Package]
  /// For the app's own use.
  public var metadata: [String: PlansResponse.JSONMember]

  public subscript(_ name: String) -> Package? { packages.first { $0.name == name } }

  /// A product in its place on a paywall.
  public struct Package: Hashable, Sendable {
    /// `$rc_monthly`, or any other.
    public var name: String
    /// For `purchase(_:)`.
    public var productID: String
    /// The tier that it gives, with its name and features; `nil` where the catalog has no such product.
    public var plan: PlansResponse.Plan?
    public var kind: PlansResponse.Product.Kind?
    /// The store's, else the catalog's; `nil` for a purchase for life, and where neither says it.
    public var period: Period?
    /// The store's price and words; `nil` where the store does not sell it, or cannot be reached.
    public var product: StoreProduct?
  }
}

/// A length of time by the calendar: of a subscription's period, or of an offer.
public struct Period: Codable, Hashable, Sendable {
  public enum Unit: String, Codable, Hashable, Sendable { case day, week, month, year }

  public var unit: Unit
  public var count: Int

  public init(_ count: Int, _ unit: Unit) {
    self.unit = unit
    self.count = count
  }

  /// One unit of ISO 8601: `P1M`, `P7D`.
  public init?(iso8601 text: String) {
    let units: [Character: Unit] = ["D": .day, "W": .week, "M": .month, "Y": .year]
    guard text.first == "P", let unit = text.last.flatMap({ units[$0] }),
      let count = Int(text.dropFirst().dropLast()), count > 0
    else { return nil }
    self.init(count, unit)
  }
}

extension Offerings {
  /// - Parameters:
  ///   - products: the store's; those that it does not sell are absent.
  ///   - variant: an offering of this name is the current one.
  init(_ plans: PlansResponse, _ products: [StoreProduct], variant: String?) {
    let sold = Dictionary(products.map { ($0.id, $0) }) { first, _ in first }
    all = plans.offerings.map { offering in
      Offering(
        name: offering.name,
        packages: offering.packages.map { package in
          let plan = plans.plan(of: package.productID)
          let listed = plan?.products.first { $0.productID == package.productID }
          let product = sold[package.productID]
          return Offering.Package(
            name: package.name, productID: package.productID, plan: plan, kind: listed?.kind,
            period: product?.period ?? listed?.period.flatMap(Period.init(iso8601:)), product: product)
        }, metadata: offering.metadata)
    }
    self.variant = variant
    current = variant.flatMap { self[$0] } ?? plans.currentOffering.flatMap { self[$0] }
  }
}

extension PlansResponse {
  func plan(of productID: String) -> Plan? {
    plans.first { $0.products.contains { $0.productID == productID } }
  }

  /// The place of a tier, the lowest being 0.
  func rank(of tier: String) -> Int? { plans.firstIndex { $0.tier == tier } }
}

import Access
import Entitlements

extension Plans {
  /// A product's name for people: its own, that of its plan, else its ID.
  func title(of id: ProductID, _ product: Catalog.Product) -> String {
    if let name = terms[id]?.name { return name }
    guard product.kind != .consumable else { return id.rawValue }
    return plans.first { $0.tier == product.tier }?.name ?? id.rawValue
  }
}

extension Plans.Terms {
  /// A price in millionths of the currency's unit.
  ///
  /// - Parameter currency: the one that is wanted. Without a price in it, it is US dollars, else the first by the alphabet.
  func price(in currency: String? = nil) -> (micros: Int64, currency: String)? {
    let wanted = [currency, "USD"].compactMap(\.self).first { prices[$0] != nil }
    guard let currency = wanted ?? prices.keys.min(), let price = prices[currency] else { return nil }
    return (price.milliunits * 1000, currency)
  }
}

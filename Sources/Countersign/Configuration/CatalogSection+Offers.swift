import Access
import CountersignServer
import Entitlements
import YAML

extension CatalogSection {
  /// Reads the promotional offers of a product: from Apple's identifier to who may have it.
  static func offers(
    _ node: Node?, _ what: String, _ origin: String, tiers: [String], _ reader: inout ConfigurationReader
  ) -> [PromotionalOffer] {
    guard let node else { return [] }
    guard let mapping = node.mapping, !mapping.isEmpty else {
      reader.findings.problem(
        origin, "\(what): offers must be a mapping from offer to who may have it, such as {winter: [expired]}")
      return []
    }
    return mapping.compactMap { idNode, node in
      let origin = reader.file.origin(of: "catalog.products", line: idNode.line)
      guard let id = reader.name(idNode, "\(what): an offer's identifier", origin: origin) else { return nil }
      return audiences(node, "\(what): offer \(Quotation.of(id))", origin, tiers: tiers, &reader)
        .map { PromotionalOffer(id: id, audiences: $0) }
    }
  }

  /// One word, or a list of words: `never`, `expired`, or a tier.
  static func audiences(
    _ node: Node, _ what: String, _ origin: String, tiers: [String], _ reader: inout ConfigurationReader
  ) -> Set<OfferAudience>? {
    let words = reader.words(node, "\(what)", origin: origin)
    guard !words.isEmpty else {
      if node.sequence?.isEmpty == true { reader.findings.problem(origin, "\(what) is for nobody") }
      return nil
    }
    let audiences = words.compactMap { word -> OfferAudience? in
      switch word {
      case "never": return .never
      case "expired": return .expired
      case _ where tiers.contains(word): return .tier(Tier(word))
      default:
        let known = ["never", "expired"] + tiers
        reader.findings.problem(
          origin,
          "\(what) is for never, expired, or a tier of catalog.tiers, not \(Quotation.of(word))"
            + Suggestion.clause(for: word, among: known))
        return nil
      }
    }
    return audiences.count == words.count ? Set(audiences) : nil
  }
}

extension Plans.Terms {
  /// Whether the catalog says who may have an offer of the product.
  var hasOffers: Bool { !offers.isEmpty || introductoryOffer != nil }
}

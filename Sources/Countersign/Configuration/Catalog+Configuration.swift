import CountersignServer
import Entitlements
import Yams

extension Catalog {
  /// Reads `catalog`: the tiers, and a mapping from product ID to tier and kind.
  init?(_ reader: inout ConfigurationReader) {
    let tiers = reader.list(
      "catalog.tiers", of: .text, atLeastOne: "tier",
      "The app's plans in ascending order; the first is for users who have bought nothing")
    let key = "catalog.products"
    let rows = reader.mapping(
      key, "from product ID to {tier: …}",
      "Product ID to `{tier, kind}`; kind is `subscription` (default) or `lifetime`")
    var products: [ProductID: Product] = [:]
    for (idNode, node) in rows {
      let origin = reader.file.origin(of: key, line: idNode.mark?.line)
      guard let id = idNode.plainKey, !id.isEmpty, id.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
        reader.findings.problem(origin, "a product ID must be one word")
        continue
      }
      let what = "product \(Quotation.of(id))"
      guard
        let fields = reader.fields(
          of: node, known: ["tier", "kind"], required: ["tier"], what: what, origin: origin),
        let tier = fields["tier"],
        let kind = reader.field(
          fields["kind"] ?? ProductKind.subscription.rawValue, ValueForm<ProductKind>.choice, "\(what): kind",
          origin: origin)
      else { continue }
      if tiers.contains(tier) {
        products[ProductID(id)] = Product(tier: Tier(tier), kind: kind)
      } else if !tiers.isEmpty {
        reader.findings.problem(
          origin,
          "\(what): catalog.tiers does not list the tier \(Quotation.of(tier))"
            + Suggestion.clause(for: tier, among: tiers))
      }
    }
    if rows.isEmpty {
      reader.warning(key, "no product is catalogued: no purchase grants more than the lowest tier")
    }
    // Every reason to refuse it was reported above, where a message can give the line.
    do throws(Invalid) { try self.init(tiers: tiers.map { Tier($0) }, products: products) } catch { return nil }
  }
}

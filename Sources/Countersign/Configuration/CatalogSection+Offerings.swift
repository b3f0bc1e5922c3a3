import Access
import CountersignServer
import Entitlements
import YAML

extension CatalogSection {
  /// Reads `catalog.offerings`: from a name to what a paywall shows.
  static func offerings(_ reader: inout ConfigurationReader, products: [String]) -> [Offering] {
    let key = "catalog.offerings"
    let rows = reader.mapping(
      key, "from offering to {packages: …}",
      "Offering to `{current, packages, metadata}`: packages from a name to a product ID, metadata for the app; a "
        + "paywall shows the current one, else the first")
    var offerings: [Offering] = []
    for (nameNode, node) in rows {
      let origin = reader.file.origin(of: key, line: nameNode.line)
      guard let name = reader.name(nameNode, "an offering's name", origin: origin) else { continue }
      let what = "offering \(Quotation.of(name))"
      guard
        let members = reader.members(
          of: node, known: ["current", "packages", "metadata"], required: ["packages"], what: what, origin: origin),
        let list = members["packages"]
      else { continue }
      let isCurrent = reader.boolean(members["current"], "\(what): current", origin: origin) ?? false
      if isCurrent, let other = offerings.first(where: \.isCurrent) {
        reader.findings.problem(origin, "\(what) is current, and so is \(Quotation.of(other.name))")
      }
      offerings.append(
        Offering(
          name: name, isCurrent: isCurrent, packages: packages(list, what, key, products: products, &reader),
          metadata: metadata(members["metadata"], what, origin, &reader)))
    }
    return offerings
  }

  private static func packages(
    _ node: Node, _ what: String, _ key: String, products: [String], _ reader: inout ConfigurationReader
  ) -> [Offering.Package] {
    guard let mapping = node.mapping, !mapping.isEmpty else {
      reader.findings.problem(
        reader.file.origin(of: key, line: node.line),
        "\(what): packages must be a mapping from name to product ID")
      return []
    }
    return mapping.compactMap { nameNode, productNode in
      let origin = reader.file.origin(of: key, line: nameNode.line)
      guard let name = reader.name(nameNode, "\(what): a package's name", origin: origin) else { return nil }
      guard let product = reader.single(productNode, "\(what): package \(Quotation.of(name))", origin: origin) else {
        return nil
      }
      if !products.contains(product) {
        reader.findings.problem(
          origin,
          "\(what): catalog.products does not list the product \(Quotation.of(product))"
            + Suggestion.clause(for: product, among: products))
      }
      return Offering.Package(name: name, product: ProductID(product))
    }
  }

  private static func metadata(
    _ node: Node?, _ what: String, _ origin: String, _ reader: inout ConfigurationReader
  ) -> [String: Offering.Metadata] {
    guard let node else { return [:] }
    guard case .mapping(let members)? = Offering.Metadata(node) else {
      reader.findings.problem(origin, "\(what): metadata must be a mapping of JSON values")
      return [:]
    }
    return members
  }

  // MARK: - Experiments

  /// Reads `catalog.experiments`: from a name to variants with their weights.
  static func experiments(_ reader: inout ConfigurationReader) -> [Experiment] {
    let key = "catalog.experiments"
    let rows = reader.mapping(
      key, "from experiment to {variants: …}",
      "Experiment to `{variants, salt}`: variants from a name to a weight; the salt is the name by default, and a "
        + "new one reassigns users who have seen no variant")
    return rows.compactMap { nameNode, node in
      let origin = reader.file.origin(of: key, line: nameNode.line)
      guard let name = reader.name(nameNode, "an experiment's name", origin: origin) else { return nil }
      let what = "experiment \(Quotation.of(name))"
      guard
        let members = reader.members(
          of: node, known: ["variants", "salt"], required: ["variants"], what: what, origin: origin)
      else { return nil }
      let salt = reader.text(members["salt"], upTo: 200, "\(what): salt", origin: origin)
      guard let mapping = members["variants"]?.mapping else {
        reader.findings.problem(origin, "\(what): variants must be a mapping from name to weight")
        return nil
      }
      let variants = mapping.compactMap { nameNode, weight -> Experiment.Variant? in
        guard let variant = reader.name(nameNode, "\(what): a variant's name", origin: origin) else { return nil }
        let text = weight.scalar?.string ?? ""
        guard text.wholeMatch(of: /[0-9]{1,9}(\.[0-9]{1,9})?/) != nil, let weight = Double(text) else {
          reader.findings.problem(
            origin, "\(what): the weight of \(variant) must be a number such as 50 or 0.5, not \(Quotation.of(text))")
          return nil
        }
        return Experiment.Variant(name: variant, weight: weight)
      }
      if variants.count == mapping.count, !variants.contains(where: { $0.weight > 0 }) {
        reader.findings.problem(origin, "\(what) has no variant with a weight")
      }
      return Experiment(name: name, salt: salt, variants: variants)
    }
  }
}

extension Offering.Metadata {
  /// A value as JSON has it; `nil` for one with a key that is no text.
  fileprivate init?(_ node: Node) {
    switch node.content {
    case .scalar(let scalar):
      // A quoted scalar is text.
      let isPlain = scalar.isPlain
      let text = scalar.string
      if isPlain, node.isNull {
        self = .null
      } else if isPlain, text == "true" || text == "false" {
        self = .boolean(text == "true")
      } else if isPlain, text.wholeMatch(of: /-?(0|[1-9][0-9]*)/) != nil, let number = Int(text) {
        self = .integer(number)
      } else if isPlain, text.wholeMatch(of: /-?(0|[1-9][0-9]*)\.[0-9]+/) != nil, let number = Double(text) {
        self = .number(number)
      } else {
        self = .text(text)
      }
    case .sequence(let items):
      let values = items.compactMap { Self($0) }
      guard values.count == items.count else { return nil }
      self = .list(values)
    case .mapping(let members):
      var values: [String: Self] = [:]
      for (key, node) in members {
        guard let key = key.plainKey, let value = Self(node) else { return nil }
        values[key] = value
      }
      self = .mapping(values)
    }
  }
}

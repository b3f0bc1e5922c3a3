import Access
import CountersignServer
import Entitlements
import YAML

extension CatalogSection {
  /// Reads `catalog.features`: from a name to a kind and to what each tier has.
  static func features(_ reader: inout ConfigurationReader, plans: [Plans.Plan]) -> [Feature] {
    let tiers = plans.map(\.tier)
    let retired = Set(plans.filter { !$0.isActive }.map(\.tier))
    let key = "catalog.features"
    let rows = reader.mapping(
      key, "from feature to {tier: value}",
      "Feature to `{kind, tier: value, …}`; a `flag` (default) is true or false, a `limit` a number, a `meter` rules "
        + "such as `10 per month`. A tier without a value has the next lower tier's")
    return rows.compactMap { nameNode, node in
      let line = nameNode.line
      let origin = reader.file.origin(of: key, line: line)
      guard let name = reader.name(nameNode, "a feature's name", origin: origin) else { return nil }
      let what = "feature \(Quotation.of(name))"
      guard let mapping = node.mapping else {
        reader.findings.problem(origin, "\(what) must be a mapping from tier to value")
        return nil
      }
      guard let kind = kind(mapping, what, origin, &reader) else { return nil }
      var values: [Tier: Allowance] = [:]
      for (tierNode, value) in mapping where tierNode.plainKey != "kind" && !value.isNull {
        let origin = reader.file.origin(of: key, line: tierNode.line)
        let tier = tierNode.plainKey ?? ""
        guard tiers.contains(Tier(tier)) else {
          reader.reportUnlisted(tier: tier, among: tiers.map(\.rawValue), what, origin: origin)
          continue
        }
        values[Tier(tier)] = allowance(value, kind, "\(what): \(tier)", origin, &reader)
      }
      if !mapping.contains(where: { $0.key.plainKey != "kind" && !$0.value.isNull }) {
        reader.findings.problem(origin, "\(what) says of no tier what it has")
      }
      return Feature(name: FeatureName(name), kind: kind, values: values, tiers: tiers, retired: retired)
    }
  }

  private static func kind(
    _ mapping: Node.Mapping, _ what: String, _ origin: String, _ reader: inout ConfigurationReader
  ) -> Feature.Kind? {
    guard let node = mapping.first(where: { $0.key.plainKey == "kind" })?.value, !node.isNull else { return .flag }
    return reader.value(node, .choice, "\(what): kind", origin: origin)
  }

  private static func allowance(
    _ node: Node, _ kind: Feature.Kind, _ what: String, _ origin: String, _ reader: inout ConfigurationReader
  ) -> Allowance? {
    switch kind {
    case .flag:
      // The kind is easily forgotten.
      if let texts = texts(node), (try? MeterRule.rules(texts)) != nil {
        reader.findings.problem(origin, "\(what) must be true or false; a meter's rules need kind: meter")
        return nil
      }
      if let text = node.scalar?.string, Int(text) != nil {
        reader.findings.problem(origin, "\(what) must be true or false; a number needs kind: limit")
        return nil
      }
      return reader.boolean(node, what, origin: origin).map { .flag($0) }
    case .limit:
      guard let text = reader.single(node, what, origin: origin) else { return nil }
      if text == MeterRule.unlimited { return .limit(nil) }
      return reader.field(text, .integer(0...MeterRule.largestMaximum), what, origin: origin).map { .limit($0) }
    case .meter:
      guard let texts = texts(node), !texts.isEmpty else {
        reader.findings.problem(origin, "\(what) must be a rule such as 10 per month, or a list of rules")
        return nil
      }
      do throws(MeterRule.TextError) { return .meter(try MeterRule.rules(texts)) } catch {
        reader.findings.problem(
          origin,
          "\(what) \(error.sentence), not \(Quotation.of(error.word))"
            + Suggestion.clause(for: error.word, among: error.known))
        return nil
      }
    }
  }

  /// A single value, or a list of them.
  private static func texts(_ node: Node) -> [String]? {
    if let text = node.scalar?.string { return [text] }
    guard let items = node.sequence else { return nil }
    let texts = items.compactMap { $0.scalar?.string }
    return texts.count == items.count ? texts : nil
  }
}

import CountersignServer
import Entitlements
import FoundationEssentials
import YAML

extension CatalogSection {
  /// The rules for customers who had the app before it sold subscriptions.
  static func originalPurchase(_ reader: inout ConfigurationReader, tiers: [String]) -> [OriginalPurchaseRule] {
    let key = "catalog.original_purchase"
    let rows = reader.mappings(
      key, "of {before_version, tier} or {before, tier}",
      "The tier for life of customers who had the app early enough: `{before_version: \"3.0\", tier: pro}`, on iOS "
        + "by the build number (`CFBundleVersion`), or `{before: 2026-01-15, tier: pro}`, a day in UTC or a time")
    return rows.compactMap { node in
      let origin = reader.file.origin(of: key, line: node.line)
      let what = "an original purchase"
      guard
        let fields = reader.fields(
          of: node, known: ["before_version", "before", "tier"], required: ["tier"], what: what, origin: origin),
        let tier = fields["tier"]
      else { return nil }
      guard tiers.contains(tier) else {
        reader.reportUnlisted(tier: tier, among: tiers, what, origin: origin)
        return nil
      }
      guard tier != tiers.first else {
        reader.findings.problem(origin, "\(what): everybody has the tier \(Quotation.of(tier))")
        return nil
      }
      let bound: OriginalPurchaseRule.Bound?
      switch (fields["before_version"], fields["before"]) {
      case (let version?, nil): bound = reader.field(version, .appVersion, "\(what): before_version", origin: origin)
      case (nil, let date?): bound = reader.field(date, .moment, "\(what): before", origin: origin)
      default:
        reader.findings.problem(origin, "\(what) has either before_version or before")
        return nil
      }
      return bound.map { OriginalPurchaseRule(before: $0, tier: Tier(tier)) }
    }
  }
}

extension ValueForm<OriginalPurchaseRule.Bound> {
  fileprivate static var appVersion: Self {
    Self(name: "version") {
      AppVersion($0).map { .version($0) }
    } or: {
      "must be numbers with dots between them such as \"3.0\", not \(Quotation.of($0))"
    }
  }

  fileprivate static var moment: Self {
    Self(name: "date") { text in
      (try? Date(text.utf8.count == 10 ? text + "T00:00:00Z" : text, strategy: .iso8601)).map { .date($0) }
    } or: {
      "must be a day such as 2026-01-15 or a time such as 2026-01-15T12:00:00Z, not \(Quotation.of($0))"
    }
  }
}

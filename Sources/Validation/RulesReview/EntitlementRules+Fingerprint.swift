import Cryptography
import Entitlements
import FoundationEssentials

extension EntitlementRules {
  /// The fingerprint of everything that decides a verdict: verdicts of rules with the same one need no comparison.
  var fingerprint: String {
    struct Rules: Encodable {
      /// The revision, raised if a release evaluates the same evidence otherwise.
      var revision = 2
      var tiers: [String]
      /// `nil` where no tier was renamed.
      var formerNames: [String: String]?
      var products: [String: [String]]
      /// `nil` where an original purchase gives nothing.
      var originalPurchase: [[String]]?
      var billingRetryAccess: String
      var outageHold: String
      var lateRenewal: String
      /// The testers; `nil`: everybody's sandbox purchases count.
      var testers: [String]?
    }
    let testers: [String]? =
      switch sandbox {
      case .accept: nil
      case .testers(let users): users.map(\.rawValue).sorted()
      case .reject: []
      }
    let rules = Rules(
      tiers: catalog.tiers.map(\.rawValue),
      formerNames: catalog.formerNames.isEmpty
        ? nil : Dictionary(uniqueKeysWithValues: catalog.formerNames.map { ($0.rawValue, $1.rawValue) }),
      products: Dictionary(
        uniqueKeysWithValues: catalog.products.map {
          ($0.rawValue, [$1.tier.rawValue, $1.kind.rawValue, $1.period?.text ?? ""])
        }),
      originalPurchase: catalog.originalPurchase.isEmpty
        ? nil
        : catalog.originalPurchase.map { rule in
          switch rule.before {
          case .version(let version): [version.text, rule.tier.rawValue]
          case .date(let date): [date.rfc3339, rule.tier.rawValue]
          }
        },
      billingRetryAccess: policy.billingRetryAccess.configurationText, outageHold: policy.outageHold.configurationText,
      lateRenewal: policy.lateRenewal.configurationText,
      testers: testers)
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    // Strings and numbers can always be encoded.
    let text = (try? encoder.encode(rules)) ?? Data()
    return String(SHA256Digest(of: text).hexadecimal.prefix(32))
  }
}

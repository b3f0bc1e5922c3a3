import Crypto
import Entitlements
import FoundationEssentials

extension EntitlementRules {
  /// Names everything that bears on a verdict: verdicts of rules with the same name need not be compared.
  var fingerprint: String {
    struct Rules: Encodable {
      /// Raised where a release judges the same evidence otherwise.
      var revision = 1
      var tiers: [String]
      var products: [String: [String]]
      var billingRetryAccess: String
      var outageHold: String
      /// `nil`: everybody's sandbox purchases count.
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
      products: Dictionary(
        uniqueKeysWithValues: catalog.products.map { ($0.rawValue, [$1.tier.rawValue, $1.kind.rawValue]) }),
      billingRetryAccess: policy.billingRetryAccess.configurationText, outageHold: policy.outageHold.configurationText,
      testers: testers)
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    // Strings and numbers: there is nothing in it that JSON could not hold.
    let text = (try? encoder.encode(rules)) ?? Data()
    return SHA256.hash(data: text).prefix(16).map { byte in
      String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
    }.joined()
  }
}

package import Access
package import Entitlements
import Foundation
package import Ledger

package let annasAccount = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

/// Anna has everything that a user can have, as a UUID that her app writes in capitals; Ben has something to do with her.
package enum Anna {
  package static let id = UserID(annasAccount.uppercased())
  package static let alias: UserID = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
  package static let phone: DeviceID = "11111111-1111-4111-8111-111111111111"
  package static let email = "anna.of.the.tests@example.com"
  package static let pushToken = "push-token-of-annas-phone"
  /// The name that a gateway gives her in the IDs of her requests.
  package static let session = "gateway-session-of-anna"
  /// The names that nobody may find afterwards, in whichever spelling.
  package static let names = [annasAccount, annasAccount.uppercased(), alias.rawValue, email, pushToken, session]

  package static let receipt = Data("a receipt that names \(annasAccount)".utf8).base64EncodedString()
  package static let meter = Feature(
    name: "questions", kind: .meter, values: ["free": .meter([]), "pro": .meter([])], tiers: ["free", "pro"])
  package static let reset = Entitlement.none(
    tier: "free", reason: .noPurchases,
    explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: at(9_000)))

  package static func erasure(_ user: UserID = id, hasRows: Bool = true, at seconds: Double = 9_000) -> Erasure {
    Erasure(user: user, reset: hasRows ? reset : nil, evaluationContext: reevaluated(at: seconds))
  }

  package static func trial(_ user: UserID, on device: DeviceID = phone, at seconds: Double = 75) -> StartTrial {
    StartTrial(
      TrialTerms(name: "week", tier: "pro", length: .seconds(100_000), sessions: 30), user: user,
      device: Device(id: device, model: "iPhone", pushToken: pushToken), author: "the app", requestID: session,
      evaluationContext: reevaluated(at: seconds))
  }
}

package import Entitlements

/// A receipt in the form that can be sent to Apple again.
package struct KeptReceipt: Hashable, Sendable {
  /// Standard base64, as Apple accepts it.
  package var base64: String
  package var environment: StoreEnvironment
  package var bundleID: BundleID
  /// The owner of the purchase that it proves, if decided; set by the ledger on receipts that it returns.
  package var owner: UserID?
  /// The owner comes from the account token, without proof; set by the ledger when a purchase is requested.
  package var isOwnedByName = false

  package init(base64: String, environment: StoreEnvironment, bundleID: BundleID, owner: UserID? = nil) {
    self.base64 = base64
    self.environment = environment
    self.bundleID = bundleID
    self.owner = owner
  }

  /// The text in the place of an erased user's receipt: nothing that could be decoded.
  static let erasedText = "erased"

  /// Whether the receipt was an erased user's: only its purchase is known.
  package var isErased: Bool { base64 == Self.erasedText }
}

/// The outcome of earlier validations of a receipt.
package struct ReceiptKnowledge: Hashable, Sendable {
  /// Apple's answer to it was recorded for this user.
  package var wasEvaluated: Bool
  /// The user's subscriptions whose newest evidence came from it.
  package var proves: Set<SubscriptionKey>
}

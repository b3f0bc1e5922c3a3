package import AppStore
package import Ledger

/// The reason why a submission got no verdict. Nothing was recorded, and nobody's tier changed.
package enum ValidationError: Error, Sendable {
  /// Not a receipt; the sentence names what it is instead.
  case undecodableReceipt(detail: String)
  /// Apple signed it, and this version cannot read it: no fault of the sender's.
  case unreadableSignedData(detail: String)
  /// A kind of receipt that no source here can answer about.
  case unsupportedReceipt(detail: String)
  /// Apple or the signature says that the receipt is not genuine.
  case notAuthentic(detail: String, appleStatus: AppleStatus?)
  /// Authentic, for an app that is not ours.
  case wrongApp(appleStatus: AppleStatus?)
  /// A purchase of another of our apps than the caller's public key: an operator's mistake, which may lose no purchase.
  case keyOfAnotherApp
  /// A sandbox purchase, which the policy does not accept from this user.
  case sandboxRefused(appleStatus: AppleStatus?)
  case ownedByAnotherUser
  /// A purchase of an ownership that this version does not know: it belongs to nobody.
  case ofUnknownOwnership
  /// An original transaction ID that neither the ledger nor Apple knows, or that Apple cannot be asked about.
  case unknownTransaction
  /// A purchase that is known by its signature alone, without a key to ask about it.
  case notAskable
  /// The signature is later than our clock, which is wrong.
  case clockBehind
  /// Apple could not be asked, and no known state can replace the answer.
  case appStoreUnavailable(AppStoreError)
  case overloaded
  /// The ledger could not be read or written; the cause is for the log.
  case ledgerUnavailable(LedgerError)
  /// The caller went away.
  case cancelled
  /// Not now: the verdict would lower a tier and too many did at once, or another receipt comes first. Only for jobs of
  /// the service.
  case heldBack

  /// The number of Apple's answer, if there was one.
  package var appleStatus: Int? {
    switch self {
    case .notAuthentic(_, let status), .wrongApp(let status), .sandboxRefused(let status): status?.rawValue
    case .appStoreUnavailable(let cause): cause.appleStatus
    case .undecodableReceipt, .unreadableSignedData, .unsupportedReceipt, .keyOfAnotherApp, .ownedByAnotherUser,
      .ofUnknownOwnership, .unknownTransaction, .notAskable, .clockBehind, .overloaded, .ledgerUnavailable, .cancelled,
      .heldBack:
      nil
    }
  }

  var code: String {
    switch self {
    case .undecodableReceipt: "undecodable_receipt"
    case .unsupportedReceipt: "unsupported_receipt"
    case .notAuthentic: "not_authentic"
    case .wrongApp: "wrong_app"
    case .sandboxRefused: "sandbox_refused"
    case .ownedByAnotherUser: "owned_by_another_user"
    case .ofUnknownOwnership: "unknown_ownership"
    case .unknownTransaction, .notAskable: "unknown_transaction"
    case .clockBehind, .appStoreUnavailable: "app_store_unavailable"
    case .overloaded, .cancelled: "overloaded"
    case .ledgerUnavailable: "ledger_unavailable"
    case .heldBack, .keyOfAnotherApp, .unreadableSignedData: "internal_error"
    }
  }
}

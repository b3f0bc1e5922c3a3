package import Ledger

/// Why a submission got no verdict. Nothing was recorded, and nobody's tier changed.
package enum ValidationError: Error, Sendable {
  /// Not a receipt; the sentence names what it is instead.
  case undecodableReceipt(detail: String)
  /// A receipt of a kind of which nobody can be asked here.
  case unsupportedReceipt(detail: String)
  /// Apple, or the signature, says that it is no genuine receipt.
  case notAuthentic(detail: String, appleStatus: Int?)
  /// Authentic, for an app that is not ours.
  case wrongApp(appleStatus: Int?)
  /// A sandbox purchase, and the policy does not take one from this user.
  case sandboxRefused(appleStatus: Int?)
  case ownedByAnotherUser
  /// An original transaction ID that the service has never seen, and that Apple does not know or cannot be asked about.
  case unknownTransaction
  /// A purchase that is known by a signature of Apple's alone, and there is no key to ask about it.
  case notAskable
  /// Apple signed it later than it is by our clock, which is wrong then.
  case clockBehind
  /// Apple could not be asked, and nothing is known that could stand in for an answer.
  case appStoreUnavailable(appleStatus: Int?)
  /// Too much is in flight.
  case overloaded
  /// The ledger could not be read or written; the cause is for the log.
  case ledgerUnavailable(LedgerError)
  /// The caller went away.
  case cancelled
  /// Not now: the verdict would lower a tier, and too many of those came at once; or another receipt comes first. Only in
  /// work that the service does by itself.
  case heldBack

  /// The code under which callers are told of it, and by which the log names it.
  package var code: String {
    switch self {
    case .undecodableReceipt: "undecodable_receipt"
    case .unsupportedReceipt: "unsupported_receipt"
    case .notAuthentic: "not_authentic"
    case .wrongApp: "wrong_app"
    case .sandboxRefused: "sandbox_refused"
    case .ownedByAnotherUser: "owned_by_another_user"
    case .unknownTransaction, .notAskable: "unknown_transaction"
    case .clockBehind, .appStoreUnavailable: "app_store_unavailable"
    case .overloaded, .cancelled: "overloaded"
    case .ledgerUnavailable: "ledger_unavailable"
    case .heldBack: "internal_error"
    }
  }
}

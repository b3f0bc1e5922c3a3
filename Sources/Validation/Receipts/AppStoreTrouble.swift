import AppStore
import Ledger

/// Why there is no answer of Apple's to record.
package enum AppStoreTrouble: Error, Sendable {
  /// A verdict on this receipt: it is refused, and what is stored stands.
  case refused(ValidationError)
  /// No verdict: Apple is in trouble, or we are.
  case unavailable(Outage)

  package struct Outage: Hashable, Sendable {
    var appleStatus: Int?
    /// The submission may be the cause, and Apple well: nothing is granted on it.
    var mayBeProvoked = false
  }

  package init(_ error: AppStoreError) {
    switch error {
    case .verifyReceipt(let error): self.init(error)
    case .serverAPI(let error): self.init(error)
    case .noSource: self = .refused(.notAskable)
    }
  }

  private init(_ error: VerifyReceiptError) {
    #if PLANTED_DEFECTS
      if PlantedDefect.refusalIsTrouble.isActive, case .notAuthentic(let appleStatus) = error {
        self = .unavailable(Outage(appleStatus: appleStatus))
        return
      }
    #endif
    switch error {
    case .notAuthentic(let appleStatus):
      self = .refused(
        .notAuthentic(detail: "Apple could not authenticate the receipt.", appleStatus: appleStatus))
    // Refused once, it is no outage: what is posted again is asked about again.
    case .doubtful(let appleStatus): self = .refused(.appStoreUnavailable(appleStatus: appleStatus))
    case .overloaded: self = .refused(.overloaded)
    case .cancelled: self = .refused(.cancelled)
    case .sharedSecretRejected, .unavailable, .unexpectedStatus:
      self = .unavailable(Outage(appleStatus: error.appleStatus, mayBeProvoked: error.mayBeProvoked))
    }
  }

  private init(_ error: ServerAPIError) {
    switch error {
    case .notFound: self = .refused(.unknownTransaction)
    case .wrongApp: self = .refused(.wrongApp(appleStatus: nil))
    case .overloaded: self = .refused(.overloaded)
    case .cancelled: self = .refused(.cancelled)
    case .keyRejected, .unavailable, .unexpected, .invalidAnswer:
      self = .unavailable(Outage(appleStatus: error.errorCode))
    }
  }
}

extension ValidationError {
  /// The error for a caller without a last state to fall back on.
  package init(_ trouble: AppStoreTrouble) {
    self =
      switch trouble {
      case .refused(let refusal): refusal
      case .unavailable(let outage): .appStoreUnavailable(appleStatus: outage.appleStatus)
      }
  }
}

import AppStore
import Ledger
import Logging

extension AppStoreError {
  /// Whether another source may know the purchase.
  ///
  /// A rejected key is an operator's mistake. A purchase that was proven before can be asked about through verifyReceipt;
  /// a new one waits until the key is right.
  func mayAskElsewhere(_ reference: PurchaseReference) -> Bool {
    switch self {
    case .notFound: true
    case .keyRejected: reference.id != nil
    case .notAuthentic, .doubtful, .sharedSecretRejected, .wrongApp, .invalidAnswer, .unavailable, .unexpected,
      .overloaded, .cancelled:
      false
    }
  }

  func log(_ logger: Logger) {
    var metadata: Logger.Metadata = [:]
    metadata["apple_status"] = appleStatus.map { .stringConvertible($0) }
    metadata["http_status"] = httpStatus.map { .stringConvertible($0) }
    func with(_ cause: String) -> Logger.Metadata { metadata.merging(["cause": "\(cause)"]) { $1 } }
    switch self {
    case .sharedSecretRejected:
      logger.critical("Apple refuses our shared secret: check app_store.shared_secret", metadata: metadata)
    case .keyRejected:
      logger.critical("Apple refuses our key of the App Store Server API: check app_store.server_api")
    case .unexpected:
      logger.critical("Apple answers with a status that this version does not know", metadata: metadata)
    // A warning that anybody can cause by a receipt is no alarm. In a real outage the circuit breaker opens, and warns.
    case .unavailable where mayBeProvoked: logger.info("no verdict", metadata: metadata)
    case .unavailable(_, _, let how): logger.warning("Apple cannot be asked", metadata: with("\(how)"))
    case .invalidAnswer(let what): logger.error("an answer from Apple fails verification", metadata: with(what))
    case .notFound: logger.info("no verdict", metadata: with("not found"))
    case .wrongApp: logger.info("no verdict", metadata: with("another app"))
    case .notAuthentic, .doubtful, .overloaded, .cancelled: logger.info("no verdict", metadata: metadata)
    }
  }
}

extension ValidationError {
  init(_ error: AppStoreError) {
    #if PLANTED_DEFECTS
      if PlantedDefect.refusalIsTrouble.isActive, error == .notAuthentic {
        self = .appStoreUnavailable(.unavailable(appleStatus: error.appleStatus, .trouble))
        return
      }
    #endif
    self =
      switch error {
      case .notAuthentic: .notAuthentic(detail: "Apple could not authenticate the receipt.", appleStatus: .notAuthentic)
      case .notFound: .unknownTransaction
      case .wrongApp: .wrongApp(appleStatus: nil)
      case .overloaded: .overloaded
      case .cancelled: .cancelled
      case .doubtful, .sharedSecretRejected, .keyRejected, .invalidAnswer, .unavailable, .unexpected:
        .appStoreUnavailable(error)
      }
  }
}

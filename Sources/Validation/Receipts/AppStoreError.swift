package import AppStore
import Logging

/// Why Apple gave no answer, whichever way it was asked. None of these says anything about what a user has.
package enum AppStoreError: Error, Hashable, Sendable {
  case verifyReceipt(VerifyReceiptError)
  case serverAPI(ServerAPIError)
  /// There is nobody to ask: what the purchase is known by cannot be sent anywhere.
  case noSource

  /// Whether another source may know what this one does not.
  ///
  /// A key that Apple refuses is an operator's mistake. What was proven before can be asked about the other way; what is
  /// new waits until the key is right.
  func mayAskElsewhere(_ reference: PurchaseReference) -> Bool {
    switch self {
    case .serverAPI(.notFound): true
    case .serverAPI(.keyRejected): reference.id != nil
    case .serverAPI, .verifyReceipt, .noSource: false
    }
  }

  /// The one of two that is told: the later, unless it says less.
  func outweighed(by other: AppStoreError) -> AppStoreError { other == .noSource ? self : other }

  func log(_ logger: Logger) {
    switch self {
    case .verifyReceipt(let error): Self.log(error, logger)
    case .serverAPI(let error): Self.log(error, logger)
    case .noSource: logger.debug("there is no source to ask about this purchase")
    }
  }

  private static func log(_ error: VerifyReceiptError, _ logger: Logger) {
    var metadata: Logger.Metadata = [:]
    metadata["apple_status"] = error.appleStatus.map { .stringConvertible($0) }
    switch error {
    case .sharedSecretRejected:
      logger.critical("Apple refuses our shared secret: check app_store.shared_secret", metadata: metadata)
    case .unexpectedStatus:
      logger.critical("Apple answers with a status that this version does not know", metadata: metadata)
    // An alarm at the wish of whoever posts receipts would be none. In a true outage the breaker opens, and is one.
    case .unavailable(_, let how) where !error.mayBeProvoked:
      logger.warning("Apple cannot be asked", metadata: metadata.merging(["cause": "\(how)"]) { $1 })
    case .unavailable, .notAuthentic, .doubtful, .overloaded, .cancelled:
      logger.info("no verdict", metadata: metadata)
    }
  }

  private static func log(_ error: ServerAPIError, _ logger: Logger) {
    var metadata: Logger.Metadata = [:]
    metadata["apple_status"] = error.errorCode.map { .stringConvertible($0) }
    metadata["http_status"] = error.httpStatus.map { .stringConvertible($0) }
    switch error {
    case .keyRejected:
      logger.critical("Apple refuses our key of the App Store Server API: check app_store.server_api")
    case .unexpected:
      logger.critical("Apple's Server API answers with an error that this version does not know", metadata: metadata)
    case .unavailable(_, _, let how):
      logger.warning("Apple cannot be asked", metadata: metadata.merging(["cause": "\(how)"]) { $1 })
    case .invalidAnswer(let what):
      logger.error("an answer from Apple fails verification", metadata: metadata.merging(["cause": "\(what)"]) { $1 })
    case .notFound: logger.info("no verdict", metadata: metadata.merging(["cause": "not found"]) { $1 })
    case .wrongApp: logger.info("no verdict", metadata: metadata.merging(["cause": "another app"]) { $1 })
    case .overloaded, .cancelled: logger.info("no verdict", metadata: metadata)
    }
  }
}

package import Entitlements
package import HTTPTransport

/// Why Apple gave no answer, from either endpoint. No case says anything about a user's purchases; `notFound` alone
/// says something about an ID.
package enum AppStoreError: Error, Hashable, Sendable {
  /// verifyReceipt rejects the receipt (21003): twice, or once if our own check of the signature failed too.
  case notAuthentic
  /// verifyReceipt rejected the receipt once (21003) and gave no second answer. This is no verdict, but nothing may be
  /// granted on the receipt either.
  case doubtful
  /// verifyReceipt rejects our shared secret (21004): an operator has to act, and no user is to blame.
  case sharedSecretRejected
  /// Every store that was asked has no such transaction, or the text cannot be a transaction ID.
  case notFound
  /// The Server API rejects our token (401), also a fresh one, and no other store has the transaction. The key, its ID,
  /// the issuer or the bundle ID is wrong, or the app has no production release yet: an operator has to act.
  case keyRejected
  /// The Server API's answer is about an app that is not ours.
  case wrongApp(BundleID)
  /// The Server API's answer fails verification: a bad signature, another store, another transaction. The text says what
  /// and where.
  case invalidAnswer(String)
  /// Apple cannot be asked now.
  ///
  /// - Parameters:
  ///   - appleStatus: verifyReceipt's `status` or the Server API's `errorCode`, if the answer had one.
  ///   - httpStatus: the status of the Server API's answer, if there was one.
  case unavailable(appleStatus: Int? = nil, httpStatus: Int? = nil, Unavailability)
  /// Apple says that our request was wrong, or something that this version does not know: an operator has to look.
  case unexpected(appleStatus: Int, httpStatus: Int? = nil)
  /// Too many calls of ours are in flight, or waiting for their turn under Apple's rate limit.
  case overloaded
  case cancelled

  init(_ error: TransportError) {
    self =
      switch error {
      case .overloaded: .overloaded
      case .cancelled: .cancelled
      case .resolve, .connect, .tls, .timedOut, .tooLarge, .reset, .protocolViolation, .invalidRequest, .shutDown,
        .other:
        .unavailable(.noAnswer(error))
      }
  }

  /// verifyReceipt's `status` or the Server API's `errorCode`.
  package var appleStatus: Int? {
    switch self {
    case .notAuthentic, .doubtful: AppleStatus.notAuthentic.rawValue
    case .sharedSecretRejected: AppleStatus.wrongSharedSecret.rawValue
    case .unavailable(let status, _, _): status
    case .unexpected(let status, _): status
    case .notFound, .keyRejected, .wrongApp, .invalidAnswer, .overloaded, .cancelled: nil
    }
  }

  package var httpStatus: Int? {
    switch self {
    case .keyRejected: 401
    case .unavailable(_, let status, _), .unexpected(_, let status): status
    case .notAuthentic, .doubtful, .sharedSecretRejected, .notFound, .wrongApp, .invalidAnswer, .overloaded, .cancelled:
      nil
    }
  }

  /// Whether the submitted bytes may have caused this. Anybody can change bytes that a receipt's signature does not
  /// cover, and so get such an answer while Apple is healthy. Nobody can do so through the Server API.
  package var mayBeProvoked: Bool {
    switch self {
    case .notAuthentic, .doubtful, .unavailable(_, _, .receiptRefused): true
    case .unavailable(let status, _, .trouble): status == AppleStatus.malformedOrTrouble.rawValue
    case .unavailable, .sharedSecretRejected, .notFound, .keyRejected, .wrongApp, .invalidAnswer, .unexpected,
      .overloaded, .cancelled:
      false
    }
  }

  /// Whether Apple may fail like this for one receipt or purchase and not for the next.
  package var mayConcernThisReceiptOnly: Bool {
    guard let appleStatus else { return false }
    return AppleStatus(rawValue: appleStatus).mayConcernThisReceiptOnly
      || ServerAPIErrorCode(rawValue: appleStatus).mayConcernThisReceiptOnly
  }
}

/// The cause of Apple's unavailability, by the last attempt.
package enum Unavailability: Hashable, Sendable {
  /// Apple reports trouble of its own (verifyReceipt: 21002, 21005, 21009, 21100 to 21199).
  case trouble
  /// An HTTP status other than 200.
  case http(Int)
  /// HTTP 4xx other than 429 from verifyReceipt: the receipt itself may be the cause, by its size for instance.
  case receiptRefused(httpStatus: Int)
  /// HTTP 429, and how long to wait if Apple said so.
  case rateLimited(retryAfter: Duration?)
  /// The body is no answer; the text names the place in it.
  case malformedAnswer(String)
  /// Each store says that the receipt belongs to the other one.
  case misrouted
  case noAnswer(TransportError)
  /// There was no time left for a first attempt.
  case deadlinePassed
  /// The circuit breaker of this store is open: no call was made.
  case circuitOpen(StoreEnvironment, retryIn: Duration)
}

extension TransportError {
  /// Whether another attempt may end otherwise.
  var isWorthRetry: Bool {
    switch self {
    case .resolve, .connect, .reset, .protocolViolation, .other: true
    case .timedOut, .tooLarge, .tls, .invalidRequest, .overloaded, .cancelled, .shutDown: false
    }
  }
}

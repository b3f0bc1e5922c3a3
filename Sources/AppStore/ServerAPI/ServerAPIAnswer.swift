package import Entitlements
package import HTTPTransport

package import struct FoundationEssentials.Date

/// What Apple knows about the customer who made a transaction. Every part of it was signed, and verified.
package struct ServerAPIAnswer: Hashable, Sendable {
  /// The store that knows the transaction.
  package var environment: StoreEnvironment
  /// The app that it was made in: one of those that were asked about.
  package var bundleID: BundleID
  /// `nil` where the answer does not say; the sandbox often does not.
  package var appAppleID: Int64?
  /// All of the customer's subscriptions, and where it was asked for, what was bought once. Empty for a customer who has
  /// neither: Apple knows the transaction then, and nothing that could entitle.
  package var history: PurchaseHistory
  /// The newest signed transaction of each purchase, to be kept as the proof.
  package var signedTransactions: [OriginalTransactionID: String]
  /// Apple's summary of each subscription: 1 active, 2 expired, 3 billing retry, 4 billing grace period, 5 revoked; as
  /// sent. For people: it is not signed, and the rules judge what is.
  package var statuses: [OriginalTransactionID: Int]
  /// Every call that was made, in order.
  package var attempts: [ServerAPIAttempt]

  package init(
    environment: StoreEnvironment, bundleID: BundleID, appAppleID: Int64? = nil, history: PurchaseHistory,
    signedTransactions: [OriginalTransactionID: String] = [:], statuses: [OriginalTransactionID: Int] = [:],
    attempts: [ServerAPIAttempt] = []
  ) {
    self.environment = environment
    self.bundleID = bundleID
    self.appAppleID = appAppleID
    self.history = history
    self.signedTransactions = signedTransactions
    self.statuses = statuses
    self.attempts = attempts
  }
}

/// One call to the App Store Server API, for log and metrics: it holds neither token nor ID.
package struct ServerAPIAttempt: Hashable, Sendable {
  package enum Outcome: Hashable, Sendable {
    case answered
    /// An error that names itself.
    case error(httpStatus: Int, errorCode: Int)
    /// Another HTTP status than 200, without a readable body. 401 never has one.
    case http(Int)
    /// HTTP 200 with a body that is no answer; the text names the place in it.
    case malformed(String)
    /// An answer that is not Apple's word on what was asked, see `ServerAPIError`.
    case refused(String)
    case transport(TransportError)
  }

  package var environment: StoreEnvironment
  package var endpoint: ServerAPIEndpoint
  package var outcome: Outcome
  package var duration: Duration
  /// Apple's clock, from the HTTP header `Date` of an answer that could be read.
  package var answeredAt: Date?

  package init(
    environment: StoreEnvironment, endpoint: ServerAPIEndpoint, outcome: Outcome, duration: Duration,
    answeredAt: Date? = nil
  ) {
    self.environment = environment
    self.endpoint = endpoint
    self.outcome = outcome
    self.duration = duration
    self.answeredAt = answeredAt
  }
}

/// Why there is no answer. None of these says anything about what a user has; `notFound` alone says something about the
/// ID: the purchase that it stands for is not of these stores and apps.
package enum ServerAPIError: Error, Hashable, Sendable {
  /// Every store that was asked says, in so many words, that it has no such transaction; or it cannot be an ID at all.
  case notFound
  /// 401, with a fresh token too, and no other store knows the transaction. Our key, key ID or issuer is wrong, or the
  /// bundle ID, or the app has no production release yet: an operator has to act, and no user is to blame.
  case keyRejected
  /// Apple cannot be asked now.
  case unavailable(httpStatus: Int? = nil, errorCode: Int? = nil, Unavailability)
  /// An error that says that our request was wrong, or that is not known: an operator has to look.
  case unexpected(httpStatus: Int, errorCode: Int?)
  /// The answer is about an app that is not ours.
  case wrongApp(BundleID)
  /// HTTP 200, and what is in it is not Apple's word on what was asked: a signature that does not verify, another store,
  /// another transaction. None of it counts. The text says what and where.
  case invalidAnswer(String)
  /// Too many calls of ours are in flight, or waiting for their turn under Apple's rate limit.
  case overloaded
  case cancelled

  /// What Apple said, where it spoke.
  package var errorCode: Int? {
    switch self {
    case .unavailable(_, let code, _): code
    case .unexpected(_, let code): code
    case .notFound, .keyRejected, .wrongApp, .invalidAnswer, .overloaded, .cancelled: nil
    }
  }

  package var httpStatus: Int? {
    switch self {
    case .unavailable(let status, _, _): status
    case .unexpected(let status, _): status
    case .keyRejected: 401
    case .notFound, .wrongApp, .invalidAnswer, .overloaded, .cancelled: nil
    }
  }
}

extension ServerAPIError: CallFailure {
  static func unavailable(because reason: Unavailability) -> Self { .unavailable(reason) }
}

package import Entitlements
package import HTTPTransport

package import struct FoundationEssentials.Date

/// What Apple decided about a receipt.
package struct VerifyReceiptAnswer: Sendable {
  package enum Verdict: Hashable, Sendable {
    /// The receipt is authentic; what it proves is in the response.
    case purchases(VerifyReceiptResponse)
    /// The customer's account is gone (21010).
    case accountGone
  }

  /// The store that the purchases belong to.
  package var environment: StoreEnvironment
  /// 0, 21006 or 21010.
  package var appleStatus: Int
  package var verdict: Verdict
  package var history: PurchaseHistory
  /// As Apple names it; `nil` where the answer does not say.
  package var bundleID: BundleID?
  /// Every call that was made, in order; the last one gave the verdict.
  package var attempts: [VerifyReceiptAttempt]

  package init(
    environment: StoreEnvironment, appleStatus: Int, verdict: Verdict, history: PurchaseHistory, bundleID: BundleID?,
    attempts: [VerifyReceiptAttempt]
  ) {
    self.environment = environment
    self.appleStatus = appleStatus
    self.verdict = verdict
    self.history = history
    self.bundleID = bundleID
    self.attempts = attempts
  }
}

/// One call to one of Apple's endpoints, for the log: it holds neither receipt nor secret.
package struct VerifyReceiptAttempt: Hashable, Sendable {
  package enum Outcome: Hashable, Sendable {
    /// An answer that could be read, by its status.
    case status(Int)
    /// Another HTTP status than 200.
    case http(Int)
    /// HTTP 200 with a body that is no answer; the text names the place in it.
    case malformed(String)
    case transport(TransportError)
  }

  package var environment: StoreEnvironment
  package var outcome: Outcome
  package var duration: Duration
  /// Apple's clock, from the HTTP header `Date` of an answer that could be read.
  package var answeredAt: Date?

  package init(environment: StoreEnvironment, outcome: Outcome, duration: Duration, answeredAt: Date? = nil) {
    self.environment = environment
    self.outcome = outcome
    self.duration = duration
    self.answeredAt = answeredAt
  }
}

/// Why there is no verdict. None of these says anything about what a user has.
package enum VerifyReceiptError: Error, Hashable, Sendable {
  /// Apple says that the receipt is not authentic (21003): twice, or once where our own check says so too.
  case notAuthentic(appleStatus: Int)
  /// Apple said once that the receipt is not authentic (21003), and gave no second answer. No verdict: but nothing may be
  /// granted on the receipt either.
  case doubtful(appleStatus: Int)
  /// Our shared secret is wrong (21004): an operator has to act, and no user is to blame.
  case sharedSecretRejected
  /// Apple cannot be asked now.
  case unavailable(appleStatus: Int?, Unavailability)
  /// A status that says our request was wrong (21000, 21001) or that is not known: an operator has to look.
  case unexpectedStatus(Int)
  /// Too many calls of ours are in flight and waiting.
  case overloaded
  case cancelled

  /// What Apple said, where it spoke.
  package var appleStatus: Int? {
    switch self {
    case .notAuthentic(let status), .doubtful(let status), .unexpectedStatus(let status): status
    case .sharedSecretRejected: AppleStatus.wrongSharedSecret.rawValue
    case .unavailable(let status, _): status
    case .overloaded, .cancelled: nil
    }
  }

  /// Whether the bytes that were sent may be the cause: anybody can spoil what the signature does not cover, and get such
  /// an answer from an Apple that is well.
  package var mayBeProvoked: Bool {
    switch self {
    case .notAuthentic, .doubtful: true
    case .unavailable(let status, .trouble): status == AppleStatus.malformedOrTrouble.rawValue
    case .unavailable(_, .http(let status)): AttemptOutcome.mayBeProvoked(httpStatus: status)
    case .unavailable, .sharedSecretRejected, .unexpectedStatus, .overloaded, .cancelled: false
    }
  }
}

extension VerifyReceiptError: CallFailure {
  static func unavailable(because reason: Unavailability) -> Self { .unavailable(appleStatus: nil, reason) }
}

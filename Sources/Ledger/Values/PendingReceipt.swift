package import Entitlements
package import struct FoundationEssentials.Date

/// A receipt that Apple could not be asked about yet. It was acknowledged, so it is kept until there is a verdict on it.
package struct PendingReceipt: Hashable, Sendable {
  /// Names the row; zero for one that is not recorded yet.
  package var id: Int64
  package var user: UserID
  /// The standard base64 that Apple takes.
  package var base64: String
  /// The request that brought it.
  package var requestID: String
  package var receivedAt: Date
  /// How often Apple was asked in vain since.
  package var attempts: Int

  package init(
    id: Int64 = 0, user: UserID, base64: String, requestID: String, receivedAt: Date, attempts: Int = 0
  ) {
    self.id = id
    self.user = user
    self.base64 = base64
    self.requestID = requestID
    self.receivedAt = receivedAt
    self.attempts = attempts
  }
}

/// What became of a receipt that was to be kept for later.
package enum PostponeOutcome: Hashable, Sendable {
  /// Kept, or kept before: it will be settled.
  case kept
  /// This user has as many waiting as one may have, or as many bytes. Nothing was recorded.
  case tooMany
  /// All users' together take as much room as they may. Nothing was recorded.
  case full
}

/// How verdicts that change without an answer of Apple's are judged and written down.
package struct EvaluationContext: Sendable {
  /// The moment to judge at.
  package var evaluatedAt: Date
  /// Our own clock, for the record.
  package var recordedAt: Date
  package var evaluate: Evaluator

  package init(evaluatedAt: Date, recordedAt: Date, evaluate: @escaping Evaluator) {
    self.evaluatedAt = evaluatedAt
    self.recordedAt = recordedAt
    self.evaluate = evaluate
  }
}

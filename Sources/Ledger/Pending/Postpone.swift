package import Entitlements
package import struct FoundationEssentials.Date

/// Queues a receipt until Apple can be asked about it, and grants provisionally what its signature proves. The same receipt
/// of the same user is queued once.
package struct Postpone: LedgerOperation {
  package enum Outcome: Hashable, Sendable {
    /// Queued now or before: it will be settled.
    case kept
    /// The user's limit of queued receipts or bytes is reached. Nothing was recorded.
    case tooMany
    /// The limit of queued bytes of all users is reached. Nothing was recorded.
    case full
  }

  package private(set) var receipt: PendingReceipt
  private let digest: ReceiptDigest
  private let provisional: [SubscriptionEvidence]
  private let evaluationContext: EvaluationContext

  /// - Parameters:
  ///   - provisional: what the receipt's signature proves and may count meanwhile. A purchase with another owner, with
  ///     another user's grant or with newer evidence is left out; an existing grant is never prolonged. A grant that
  ///     ends at its evaluation time counts for nothing and is a reservation: no other user is granted the purchase
  ///     while the receipt is queued, and this user may be, later.
  ///   - evaluationContext: how the user is evaluated with the grant.
  package init(_ receipt: PendingReceipt, provisional: [SubscriptionEvidence], _ evaluationContext: EvaluationContext) {
    (self.receipt, self.provisional, self.evaluationContext) = (receipt, provisional, evaluationContext)
    digest = ReceiptDigest(ofReceipt: receipt.base64)
  }

  package func run(_ tables: LedgerTables) throws -> Outcome { try run(tables, waiting: nil) }

  /// - Parameter total: the queued bytes of all users; `nil`: as `pending_total` has them.
  func run(_ tables: LedgerTables, waiting total: Int?) throws -> Outcome {
    var postpone = self
    postpone.receipt.user = try tables.accounts.name(of: receipt.user)
    return try postpone.keep(tables, waiting: total)
  }

  private func keep(_ tables: LedgerTables, waiting total: Int?) throws -> Outcome {
    let pending: Int64
    switch try tables.pending.postpone(receipt, digest: digest, waiting: total) {
    case .row(let id): pending = id
    case .tooMany: return .tooMany
    case .full: return .full
    }
    let granted = try provisional.filter { try grant($0, by: pending, tables) }
    guard let newest = granted.map(\.evidenceTime).max() else { return .kept }
    try tables.writer(
      evaluationContext, requestID: receipt.requestID, digest: digest, evidenceAt: StoredForm.milliseconds(newest)
    ).reevaluateIfChanged(receipt.user)
    return .kept
  }

  /// Adds a provisional grant if the purchase has no other owner, no evidence as new, no grant yet, and no reservation
  /// by another user. Evidence from notifications that arrived while it was unclaimed counts: a revocation, or another
  /// user's account token.
  /// - Returns: whether the grant counts.
  private func grant(_ evidence: SubscriptionEvidence, by pending: Int64, _ tables: LedgerTables) throws -> Bool {
    var evidence = try tables.migrations.followingMigrations(evidence)
    guard try !tables.unclaimed.names(evidence, anotherThan: receipt.user) else { return false }
    if let reported = try tables.unclaimed.purchase(evidence.key)?.evidence {
      guard try !tables.unclaimed.names(reported, anotherThan: receipt.user) else { return false }
      evidence.leaveOut(endedBy: [reported])
      guard !evidence.purchases.isEmpty else { return false }
    }
    guard let until = evidence.provisionalUntil else { return false }
    if let known = try tables.purchases.purchase(evidence.key) {
      guard known.owner == receipt.user || known.owner.isErased,
        known.evidenceAt < (try StoredForm.milliseconds(evidence.evidenceTime))
      else { return false }
    }
    var grant = ProvisionalGrantTable.StoredGrant(evidence: evidence, owner: receipt.user, pending: pending)
    grant.isOver = grant.isReservation
    if let earlier = try tables.provisionalGrants.grant(on: evidence.key) {
      guard earlier.isReservation, earlier.owner == receipt.user, !grant.isReservation else { return false }
      try tables.provisionalGrants.remove(on: evidence.key)
    }
    try tables.provisionalGrants.save(grant, until: try StoredForm.milliseconds(until))
    return !grant.isReservation
  }
}

/// A receipt in the queue for Apple. It was acknowledged, so it is kept until it has a verdict.
package struct PendingReceipt: Hashable, Sendable {
  /// The row's ID; zero before it is recorded.
  package var id: Int64
  package var user: UserID
  /// Standard base64, as Apple accepts it.
  package var base64: String
  /// The request that brought it.
  package var requestID: String
  package var receivedAt: Date
  /// Failed attempts to ask Apple.
  package var attempts: Int

  package init(id: Int64 = 0, user: UserID, base64: String, requestID: String, receivedAt: Date, attempts: Int = 0) {
    self.id = id
    self.user = user
    self.base64 = base64
    self.requestID = requestID
    self.receivedAt = receivedAt
    self.attempts = attempts
  }
}

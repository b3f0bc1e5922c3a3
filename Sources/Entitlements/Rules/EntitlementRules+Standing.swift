package import struct FoundationEssentials.Date

extension EntitlementRules {
  /// The verdict on a user that needs no new answer of Apple's: what is known, as it reads now, and never less than what
  /// was recorded because the rules have changed since.
  ///
  ///     now                                  before it was    the recorded end    the end + outage hold
  ///     lower by the rules                   recorded         recorded, stale     as it reads now
  ///     lower by time, or not lower          as it reads now  as it reads now     as it reads now
  package func standing(
    of user: UserID, _ evidence: [SubscriptionEvidence], recorded: Entitlement?, at now: Date
  ) -> Entitlement {
    let verdict = evaluate(user, evidence, at: now)
    guard var recorded, withholds(verdict, from: user, evidence, recorded: recorded, at: now) else { return verdict }
    recorded.isStale = true
    return recorded
  }

  /// Whether a verdict takes away what only the rules take away: a product lost from the catalog, a purchase of the
  /// sandbox that counts no more.
  ///
  /// Before its end, time takes nothing from a verdict. After its end, time did if the rules of today would have given as
  /// much at the moment it was judged at.
  ///
  /// - Parameter verdict: the evidence as it reads now.
  package func withholds(
    _ verdict: Entitlement, from user: UserID, _ evidence: [SubscriptionEvidence], recorded: Entitlement, at now: Date
  ) -> Bool {
    guard isLowering(recorded, verdict), evidence.contains(where: recorded.isGiven) else { return false }
    // Nothing ends a purchase for life but Apple's word.
    guard let end = recorded.accessUntil else { return true }
    if now < end { return true }
    // A provisional grant is over when it is over.
    guard !recorded.isProvisional, now < end.advanced(by: policy.outageHold) else { return false }
    let evaluatedAt = recorded.explanation.evaluatedAt ?? recorded.evidenceTime ?? end
    return isLowering(recorded, evaluate(user, evidence, at: evaluatedAt))
  }
}

extension Entitlement {
  /// Whether evidence is of the purchase that gives this verdict its tier.
  fileprivate func isGiven(by evidence: SubscriptionEvidence) -> Bool {
    evidence.key.environment == environment
      && (evidence.key.originalTransactionID == originalTransactionID
        || evidence.purchases.contains { $0.originalTransactionID == originalTransactionID })
  }
}

internal import Entitlements
internal import struct FoundationEssentials.Date

extension VerdictWriter {
  func reevaluate(
    _ user: UserID, by successor: Reevaluation.Successor, at moment: Date, approves: Approval
  ) throws -> ReevaluationOutcome {
    guard let before = try tables.profile(of: user) else { return .unchanged }
    let evidence = try tables.evidence(of: user)
    guard
      let verdict = successor(evidence, before.entitlement, Self.moment(of: evidence, notBefore: moment)),
      try !Self.isSame(verdict, before.entitlement, by: \.apartFromMoment)
    else { return .unchanged }
    guard approves(before.entitlement, verdict) else { return .heldBack }
    _ = try save(verdict, of: user, after: before)
    return .recorded
  }
}

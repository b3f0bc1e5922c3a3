package import Entitlements
package import Ledger
package import Logging

package import struct FoundationEssentials.Date

/// Periods of access that support or the app's server gives: recorded, evaluated, and written to the app's row.
package struct AccessGrants: Sendable {
  var verdicts: VerdictContext
  var ledger: Ledger

  package static let listLimit = 200

  package func give(
    _ kind: GivenPeriod.Kind, _ tier: Tier, to user: UserID, from startsAt: Date, until endsAt: Date, author: String,
    note: String?, requestID: String, idempotencyKey: String?, logger: Logger
  ) async throws(ValidationError) -> Give.Outcome {
    let outcome = try await consult(
      await ledger.run(
        Give(
          user: user, kind: kind, tier: tier, startsAt: startsAt, endsAt: endsAt, author: author, note: note,
          requestID: requestID, idempotencyKey: idempotencyKey, evaluationContext: verdicts.evaluationContext,
          rowsClaimedUntil: verdicts.rowsClaim)))
    if case .given(let record) = outcome {
      logger.notice(
        "a grant was made",
        metadata: [
          "user_id": "\(record.user)", "tier": "\(tier)", "kind": "\(kind.rawValue)",
          "ends_at": "\(record.endsAt.rfc3339)",
        ])
      _ = await verdicts.write(record.user, .waiting, logger: logger)
    }
    return outcome
  }

  package func end(
    _ id: GivenPeriod.ID, of user: UserID, note: Note, logger: Logger
  ) async throws(ValidationError) -> EndGiven.Outcome {
    let outcome = try await consult(await ledger.run(EndGiven(id, of: user, note: note, verdicts.evaluationContext)))
    if case .ended(let record) = outcome {
      logger.notice("a grant was ended", metadata: ["user_id": "\(record.user)", "tier": "\(record.period.tier)"])
      _ = await verdicts.write(record.user, .waiting, logger: logger)
    }
    return outcome
  }

  /// Everything that was ever given to a user, the newest first.
  package func list(of user: UserID) async throws(ValidationError) -> [GivenRecord] {
    try await consult(await ledger.given(to: user, limit: Self.listLimit))
  }
}

import Ledger

/// The ledger's answer, or the error of the caller: whatever the ledger's trouble is, the caller can only come back
/// later, and the cause is for the log.
///
///     let purchases = try await consult(await ledger.ownedPurchases(id))
func consult<Value, Failure: Error>(
  _ answer: @autoclosure () async throws(LedgerError) -> Value,
  or unavailable: (LedgerError) -> Failure = ValidationError.ledgerUnavailable
) async throws(Failure) -> Value {
  do { return try await answer() } catch { throw unavailable(error) }
}

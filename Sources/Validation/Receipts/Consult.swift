import Ledger

/// What the ledger says, or the error of whoever asks: whatever the ledger's trouble is, the caller can only come back later;
/// the cause is for the log.
///
///     let purchases = try await consult(await ledger.ownedPurchases(id))
func consult<Value, Failure: Error>(
  _ answer: @autoclosure () async throws(LedgerError) -> Value,
  or unavailable: (LedgerError) -> Failure = ValidationError.ledgerUnavailable
) async throws(Failure) -> Value {
  do { return try await answer() } catch { throw unavailable(error) }
}

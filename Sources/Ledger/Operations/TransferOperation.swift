internal import Entitlements

/// Hands a purchase to another user inside an open transaction: the winner's verdict, the purchase, the line that says who
/// decided so, and the loser's verdict happen together or not at all.
struct TransferOperation {
  let transfer: Transfer
  let tables: LedgerTables

  func run() throws -> TransferOutcome {
    guard var stored = try tables.subscription(transfer.key) else { return .unknown }
    let loser = stored.owner
    guard loser != transfer.to else { return .unchanged }
    let winner = try tables.name(of: transfer.to)
    let note = try tables.keep(transfer.note, about: nil)
    let evaluationContext = transfer.evaluationContext
    let recordedAt = try StoredForm.milliseconds(evaluationContext.recordedAt)
    let writer = VerdictWriter(
      tables: tables, recordedAt: recordedAt, requestID: transfer.note.requestID,
      digest: try tables.digest(ofReceipt: stored.receiptID), evidenceAt: stored.evidenceAt, note: note,
      rowsDueAt: try transfer.rowsClaimedUntil.map(StoredForm.milliseconds) ?? 0)
    // What was granted on the signature of a newer renewal was granted to the loser.
    if let grant = try tables.grant(on: transfer.key), grant.owner != transfer.to {
      try tables.endGrant(on: transfer.key)
    }
    // The winner may have no row yet that could own anything: the verdict makes it.
    try writer.reevaluate(
      winner, with: [stored.evidence], by: evaluationContext.evaluate, at: evaluationContext.evaluatedAt)
    stored.owner = winner
    stored.claim = .proof
    try tables.save(stored)
    try tables.log(
      change: transfer.key, from: loser, to: winner, recordedAt: recordedAt, requestID: transfer.note.requestID,
      note: note)
    try writer.reevaluate(loser, by: evaluationContext.evaluate, at: evaluationContext.evaluatedAt)
    return .moved(from: loser)
  }
}

internal import Entitlements

/// Transfers a purchase to another user inside an open transaction. The new owner's verdict, the purchase, the record
/// of who decided, and the former owner's verdict are written together or not at all.
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
    // A grant on the signature of a newer renewal belonged to the former owner.
    if let grant = try tables.grant(on: transfer.key), grant.owner != transfer.to {
      try tables.endGrant(on: transfer.key)
    }
    // The foreign key needs a profile row of the new owner; the verdict creates it.
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

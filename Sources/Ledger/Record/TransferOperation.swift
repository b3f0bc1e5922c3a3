internal import Entitlements

/// Transfers a purchase to another user inside an open transaction. The new owner's verdict, the purchase, the record
/// of who decided, and the former owner's verdict are written together or not at all.
struct TransferOperation {
  let transfer: Transfer
  let tables: LedgerTables

  func run() throws -> TransferOutcome {
    guard var purchase = try tables.purchase(transfer.key), let id = purchase.id else { return .unknown }
    var winner = try tables.knownOrNewAccount(of: transfer.to)
    guard purchase.owner.key != winner.user.key else { return .unchanged }
    let former = purchase.owner
    var nobody: Account?
    let note = try tables.append(transfer.note, to: &nobody)
    let writer = try tables.writer(
      transfer.evaluationContext, requestID: transfer.note.requestID, note: note,
      digest: tables.digest(ofProof: purchase.proof), evidenceAt: purchase.evidenceAt,
      rowsClaimedUntil: transfer.rowsClaimedUntil)
    // A grant on the signature of a newer renewal belonged to the former owner.
    if let grant = try tables.grant(on: transfer.key), grant.owner != transfer.to {
      try tables.endGrant(on: transfer.key)
    }
    purchase.owner = winner.user
    purchase.claim = .proof
    _ = try tables.save(purchase)
    try OwnershipMove(tables: tables, gained: [(id, from: former)], writer: { _ in writer }).run(to: &winner)
    return .moved(from: former)
  }
}

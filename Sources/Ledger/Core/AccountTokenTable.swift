internal import Entitlements

/// Account tokens of subscriptions that Apple has yet to be told.
struct AccountTokenTable: LedgerTable {
  let tables: LedgerTables

  /// Has Apple told the user who came to have a purchase, unless the purchase names them already. Of a user whose ID is no UUID
  /// nothing can be told, and a family-shared purchase names its buyer.
  func tell(ofPurchase id: Int64, at now: Int64) throws {
    guard id > 0 else { return }
    let purchase = try tables.purchases.purchase(id: id)
    let evidence = purchase.evidence
    guard let token = purchase.owner.accountToken, !purchase.owner.isErased, !evidence.key.isOfApp,
      !evidence.isAccountGone, evidence.accountToken != token,
      evidence.purchases.contains(where: { $0.ownership == .purchased }),
      let bundleID = try tables.proofs.bundleID(ofProof: purchase.proof)
    else { return try forget(tokenOf: evidence.key) }
    // Where another user is being told, this one's turn is afterwards.
    try execute(
      """
      INSERT INTO account_token_due (environment, original_transaction_id, bundle_id, account_token, due_at, attempts)
      VALUES (?, ?, ?, ?, ?, 0)
      ON CONFLICT (environment, original_transaction_id) DO UPDATE SET
        bundle_id = excluded.bundle_id, account_token = excluded.account_token, due_at = excluded.due_at, attempts = 0
      """, evidence.key, bundleID, token, now)
  }

  func forget(tokenOf key: SubscriptionKey) throws {
    try execute("DELETE FROM account_token_due WHERE environment = ? AND original_transaction_id = ?", key)
  }

  func forget(tokenOfPurchase id: Int64) throws {
    guard id > 0 else { return }
    try forget(tokenOf: tables.purchases.purchase(id: id).evidence.key)
  }
}

/// AppTransactions: the signed proof that a customer has the app, and since which version.
///
/// Apple's page: JWSAppTransactionDecodedPayload.
extension SignedDataPayload {
  var appTransaction: JSON {
    .object([
      ("receiptType", .string(seed.environment.appleName)),
      ("appAppleId", .integer(seed.environment.appItemID)),
      ("bundleId", .string(seed.bundleID)),
      ("applicationVersion", .string(ReceiptSeed.applicationVersion)),
      ("versionExternalIdentifier", .integer(ReceiptPayload.versionExternalIdentifier(seed))),
      ("receiptCreationDate", .integer(signedAt.milliseconds)),
      ("originalPurchaseDate", .integer(seed.originalPurchaseDate.milliseconds)),
      ("originalApplicationVersion", .string(seed.originalApplicationVersion)),
      ("appTransactionId", .string(seed.appTransactionID)),
      ("originalPlatform", "iOS"),
    ])
  }
}

extension ReceiptIssuer {
  /// Signs the AppTransaction of a customer, with or without purchases.
  func issueAppTransaction(_ order: ReceiptOrder, at now: Timestamp) throws(IssueError) -> String {
    let seed = try seed(of: order, at: now)
    return try IssueError.signed { try signer.sign(SignedDataPayload(seed: seed, at: now).appTransaction) }
  }
}

import Entitlements

extension ReceiptInspection {
  /// The report, as `--json` prints it, with names in snake_case.
  struct Report: Encodable, Sendable {
    var kind: String
    var authentic: Bool
    @Nullable var problem: String? = nil
    @Nullable var bundleID: String? = nil
    @Nullable var environment: String? = nil
    @Nullable var receiptType: String? = nil
    @Nullable var createdAt: String? = nil
    @Nullable var expiresAt: String? = nil
    @Nullable var applicationVersion: String? = nil
    @Nullable var originalApplicationVersion: String? = nil
    @Nullable var sha256: String? = nil
    /// Whether the signature of an iOS 6-style receipt fits the certificate next to it; `null` for other kinds.
    @Nullable var signatureMatchesEmbeddedCertificate: Bool? = nil
    @Nullable var signer: Signer? = nil
    var transactions: [Row] = []
    var repairs: [String] = []
    // Only for signed data, notifications and answers of the App Store Server API:
    @Nullable var type: String? = nil
    @Nullable var subtype: String? = nil
    @Nullable var uuid: String? = nil
    /// Apple's number, as sent.
    @Nullable var status: Int? = nil
    @Nullable var appAppleID: Int64? = nil
    var renewals: [Renewal] = []
    @Nullable var errorCode: Int64? = nil
    @Nullable var errorMessage: String? = nil

    struct Signer: Encodable, Sendable {
      var subject: String
      var issuer: String
      var serialNumber: String
      @Nullable var notBefore: String?
      @Nullable var notAfter: String?
      var digest: String

      init(_ signer: ReceiptSigner) {
        subject = signer.subject
        issuer = signer.issuer
        serialNumber = signer.serialNumber
        notBefore = signer.notBefore.map(ReceiptDate.format)
        notAfter = signer.notAfter.map(ReceiptDate.format)
        digest = signer.digest
      }
    }

    struct Row: Encodable, Sendable {
      var productID: String
      var transactionID: String
      @Nullable var originalTransactionID: String? = nil
      @Nullable var quantity: Int64? = nil
      @Nullable var purchaseDate: String? = nil
      @Nullable var originalPurchaseDate: String? = nil
      @Nullable var expiresDate: String? = nil
      @Nullable var cancellationDate: String? = nil
      @Nullable var webOrderLineItemID: String? = nil
      @Nullable var productType: Int64? = nil
      @Nullable var isTrialPeriod: Bool? = nil
      @Nullable var isInIntroOfferPeriod: Bool? = nil
      @Nullable var promotionalOfferID: String? = nil
      @Nullable var type: String? = nil
      @Nullable var isUpgraded: Bool? = nil
      @Nullable var ownership: String? = nil
      @Nullable var subscriptionGroupID: String? = nil
      @Nullable var appAccountToken: String? = nil
      @Nullable var signedDate: String? = nil
      /// The status that the App Store Server API gives next to the transaction.
      @Nullable var status: Int? = nil
    }
  }
}

/// A member that is encoded as `null` if it has no value; a plain optional would be left out.
@propertyWrapper
struct Nullable<Value: Encodable & Sendable>: Encodable, Sendable {
  var wrappedValue: Value?

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    if let wrappedValue { try container.encode(wrappedValue) } else { try container.encodeNil() }
  }
}

extension ReceiptInspection.Report {
  init(_ receipt: AppReceipt, fingerprint: ReceiptFingerprint, problem: String?, repairs: [String]) {
    self.init(
      kind: "app_receipt",
      authentic: problem == nil,
      problem: problem,
      bundleID: receipt.bundleID.rawValue,
      environment: receipt.isFromXcode ? "xcode" : receipt.environment?.rawValue,
      receiptType: receipt.receiptType,
      createdAt: ReceiptDate.format(receipt.createdAt),
      expiresAt: receipt.expiresAt.map(ReceiptDate.format),
      applicationVersion: receipt.applicationVersion,
      originalApplicationVersion: receipt.originalApplicationVersion,
      sha256: fingerprint.hex,
      signer: receipt.claimedSigner.map { Signer($0) },
      transactions: receipt.transactions.map { Row($0) },
      repairs: repairs)
  }

  init(_ receipt: TransactionReceipt, fingerprint: ReceiptFingerprint, repairs: [String]) {
    let damage =
      receipt.signatureMatchesEmbeddedCertificate
      ? "" : " Its signature does not fit the certificate next to it either: the receipt is damaged or made up."
    self.init(
      kind: "transaction_receipt",
      authentic: false,
      problem:
        "An iOS 6-style receipt cannot be proven offline, as the issuer of its certificate is not in it (and its "
        + "environment stands outside the signature): ask Apple.\(damage)",
      bundleID: receipt.bundleID.rawValue,
      environment: receipt.claimedEnvironment?.lowercased(),
      sha256: fingerprint.hex,
      signatureMatchesEmbeddedCertificate: receipt.signatureMatchesEmbeddedCertificate,
      signer: receipt.signer.map { Signer($0) },
      transactions: [Row(receipt)],
      repairs: repairs)
  }
}

extension ReceiptInspection.Report.Row {
  init(_ row: InAppTransaction) {
    self.init(
      productID: row.productID.rawValue,
      transactionID: row.transactionID.rawValue,
      originalTransactionID: row.originalTransactionID?.rawValue,
      quantity: row.quantity,
      purchaseDate: row.purchaseDate.map(ReceiptDate.format),
      originalPurchaseDate: row.originalPurchaseDate.map(ReceiptDate.format),
      expiresDate: row.expiresDate.map(ReceiptDate.format),
      cancellationDate: row.cancellationDate.map(ReceiptDate.format),
      webOrderLineItemID: row.purchase.webOrderLineItemID,
      productType: row.productType,
      isTrialPeriod: row.isTrial,
      isInIntroOfferPeriod: row.isIntroductoryOffer,
      promotionalOfferID: row.promotionalOfferID)
  }

  init(_ receipt: TransactionReceipt) {
    self.init(
      productID: receipt.productID.rawValue,
      transactionID: receipt.transactionID.rawValue,
      originalTransactionID: receipt.originalTransactionID?.rawValue,
      quantity: receipt.quantity,
      purchaseDate: receipt.purchaseDate.map(ReceiptDate.format),
      originalPurchaseDate: receipt.originalPurchaseDate.map(ReceiptDate.format),
      expiresDate: receipt.expiresDate.map(ReceiptDate.format),
      cancellationDate: receipt.cancellationDate.map(ReceiptDate.format),
      webOrderLineItemID: receipt.webOrderLineItemID,
      isTrialPeriod: receipt.isTrial,
      isInIntroOfferPeriod: receipt.isIntroductoryOffer)
  }
}

import Entitlements

extension ReceiptInspection {
  /// The report, as `--json` prints it.
  struct Report: Encodable, Sendable {
    var kind: String
    var authentic: Bool
    var problem: String?
    var bundleID: String?
    var environment: String?
    var receiptType: String?
    var createdAt: String?
    var expiresAt: String?
    var applicationVersion: String?
    var originalApplicationVersion: String?
    var sha256: String?
    /// Whether the signature of an iOS 6-style receipt fits the certificate next to it; `null` for other kinds.
    var signatureMatchesEmbeddedCertificate: Bool?
    var signer: Signer?
    var transactions: [Row] = []
    var repairs: [String] = []
    // Of signed data, notifications and answers of the App Store Server API:
    var type: String?
    var subtype: String?
    var uuid: String?
    /// Apple's number, as sent.
    var status: Int?
    var appAppleID: Int64?
    var renewals: [Renewal] = []
    var errorCode: Int64?
    var errorMessage: String?

    struct Signer: Encodable, Sendable {
      var subject: String
      var issuer: String
      var serialNumber: String
      var notBefore: String?
      var notAfter: String?
      var digest: String

      init(_ signer: ReceiptSigner) {
        subject = signer.subject
        issuer = signer.issuer
        serialNumber = signer.serialNumber
        notBefore = signer.notBefore.map(ReceiptDate.format)
        notAfter = signer.notAfter.map(ReceiptDate.format)
        digest = signer.digest
      }

      enum CodingKeys: String, CodingKey {
        case subject, issuer, digest
        case serialNumber = "serial_number"
        case notBefore = "not_before"
        case notAfter = "not_after"
      }

      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(subject, forKey: .subject)
        try container.encode(issuer, forKey: .issuer)
        try container.encode(serialNumber, forKey: .serialNumber)
        try container.encode(notBefore, forKey: .notBefore)
        try container.encode(notAfter, forKey: .notAfter)
        try container.encode(digest, forKey: .digest)
      }
    }

    struct Row: Encodable, Sendable {
      var productID: String
      var transactionID: String
      var originalTransactionID: String?
      var quantity: Int64?
      var purchaseDate: String?
      var originalPurchaseDate: String?
      var expiresDate: String?
      var cancellationDate: String?
      var webOrderLineItemID: String?
      var productType: Int64?
      var isTrial: Bool?
      var isIntroductoryOffer: Bool?
      var promotionalOfferID: String?
      var type: String?
      var isUpgraded: Bool?
      var ownership: String?
      var subscriptionGroupID: String?
      var appAccountToken: String?
      var signedDate: String?
      /// What the App Store Server API says next to it, as a number.
      var status: Int?

      enum CodingKeys: String, CodingKey {
        case productID = "product_id"
        case transactionID = "transaction_id"
        case originalTransactionID = "original_transaction_id"
        case quantity
        case purchaseDate = "purchase_date"
        case originalPurchaseDate = "original_purchase_date"
        case expiresDate = "expires_date"
        case cancellationDate = "cancellation_date"
        case webOrderLineItemID = "web_order_line_item_id"
        case productType = "product_type"
        case isTrial = "is_trial_period"
        case isIntroductoryOffer = "is_in_intro_offer_period"
        case promotionalOfferID = "promotional_offer_id"
        case type, ownership, status
        case isUpgraded = "is_upgraded"
        case subscriptionGroupID = "subscription_group_id"
        case appAccountToken = "app_account_token"
        case signedDate = "signed_date"
      }

      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(productID, forKey: .productID)
        try container.encode(transactionID, forKey: .transactionID)
        try container.encode(originalTransactionID, forKey: .originalTransactionID)
        try container.encode(quantity, forKey: .quantity)
        try container.encode(purchaseDate, forKey: .purchaseDate)
        try container.encode(originalPurchaseDate, forKey: .originalPurchaseDate)
        try container.encode(expiresDate, forKey: .expiresDate)
        try container.encode(cancellationDate, forKey: .cancellationDate)
        try container.encode(webOrderLineItemID, forKey: .webOrderLineItemID)
        try container.encode(productType, forKey: .productType)
        try container.encode(isTrial, forKey: .isTrial)
        try container.encode(isIntroductoryOffer, forKey: .isIntroductoryOffer)
        try container.encode(promotionalOfferID, forKey: .promotionalOfferID)
        try container.encode(type, forKey: .type)
        try container.encode(isUpgraded, forKey: .isUpgraded)
        try container.encode(ownership, forKey: .ownership)
        try container.encode(subscriptionGroupID, forKey: .subscriptionGroupID)
        try container.encode(appAccountToken, forKey: .appAccountToken)
        try container.encode(signedDate, forKey: .signedDate)
        try container.encode(status, forKey: .status)
      }
    }

    enum CodingKeys: String, CodingKey {
      case kind, authentic, problem, environment, sha256, signer, transactions, repairs
      case type, subtype, uuid, status, renewals
      case bundleID = "bundle_id"
      case receiptType = "receipt_type"
      case createdAt = "created_at"
      case expiresAt = "expires_at"
      case applicationVersion = "application_version"
      case originalApplicationVersion = "original_application_version"
      case signatureMatchesEmbeddedCertificate = "signature_matches_embedded_certificate"
      case appAppleID = "app_apple_id"
      case errorCode = "error_code"
      case errorMessage = "error_message"
    }

    // Written out because the synthesised form leaves out what is nil.
    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(kind, forKey: .kind)
      try container.encode(authentic, forKey: .authentic)
      try container.encode(problem, forKey: .problem)
      try container.encode(bundleID, forKey: .bundleID)
      try container.encode(environment, forKey: .environment)
      try container.encode(receiptType, forKey: .receiptType)
      try container.encode(createdAt, forKey: .createdAt)
      try container.encode(expiresAt, forKey: .expiresAt)
      try container.encode(applicationVersion, forKey: .applicationVersion)
      try container.encode(originalApplicationVersion, forKey: .originalApplicationVersion)
      try container.encode(sha256, forKey: .sha256)
      try container.encode(signatureMatchesEmbeddedCertificate, forKey: .signatureMatchesEmbeddedCertificate)
      try container.encode(signer, forKey: .signer)
      try container.encode(transactions, forKey: .transactions)
      try container.encode(repairs, forKey: .repairs)
      try container.encode(type, forKey: .type)
      try container.encode(subtype, forKey: .subtype)
      try container.encode(uuid, forKey: .uuid)
      try container.encode(status, forKey: .status)
      try container.encode(appAppleID, forKey: .appAppleID)
      try container.encode(renewals, forKey: .renewals)
      try container.encode(errorCode, forKey: .errorCode)
      try container.encode(errorMessage, forKey: .errorMessage)
    }
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
      isTrial: row.isTrial,
      isIntroductoryOffer: row.isIntroductoryOffer,
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
      isTrial: receipt.isTrial,
      isIntroductoryOffer: receipt.isIntroductoryOffer)
  }
}

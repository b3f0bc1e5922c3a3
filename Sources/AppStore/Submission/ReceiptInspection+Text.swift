extension ReceiptInspection {
  /// The report for people: one fact a line, then one transaction a line.
  package func text() -> String {
    var lines = [verdict]
    func add(_ name: String, _ value: String?) {
      guard let value else { return }
      lines.append(Self.padded(name) + Self.printable(value))
    }
    add("kind", report.kind)
    add("bundle id", report.bundleID)
    add("environment", report.environment)
    add("receipt type", report.receiptType)
    add("created at", report.createdAt)
    add("expires at", report.expiresAt)
    add("version", report.applicationVersion)
    add("first version", report.originalApplicationVersion)
    add("sha256", report.sha256)
    if let signer = report.signer {
      add("signer", signer.subject)
      add("issuer", signer.issuer)
      add("serial", signer.serialNumber)
      add("valid", "\(signer.notBefore ?? "?") to \(signer.notAfter ?? "?")")
      add("digest", signer.digest)
    }
    add("type", report.type)
    add("subtype", report.subtype)
    add("uuid", report.uuid)
    add("status", report.status.map { String($0) })
    add("app apple id", report.appAppleID.map { String($0) })
    add("error code", report.errorCode.map { String($0) })
    add("error message", report.errorMessage)
    if !report.repairs.isEmpty { add("repaired", report.repairs.joined(separator: ", ")) }
    if outcome != .undecodable { add("transactions", String(report.transactions.count)) }
    for row in report.transactions { lines.append("  " + Self.printable(Self.line(row))) }
    if !report.renewals.isEmpty { add("renewals", String(report.renewals.count)) }
    for renewal in report.renewals { lines.append("  " + Self.printable(Self.line(renewal))) }
    return lines.joined(separator: "\n") + "\n"
  }

  private var verdict: String {
    switch outcome {
    case .authentic: "AUTHENTIC: its signature leads to a trusted root; it proves what was true when it was created."
    case .notAuthentic: "NOT AUTHENTIC: \(report.problem ?? "")"
    case .undecodable: "NOT A RECEIPT: \(report.problem ?? "")"
    }
  }

  private static func line(_ row: Report.Row) -> String {
    var parts = [row.transactionID, row.productID, "bought \(row.purchaseDate ?? "?")"]
    if let end = row.expiresDate { parts.append("expires \(end)") }
    if let end = row.cancellationDate { parts.append("cancelled \(end)") }
    if let original = row.originalTransactionID, original != row.transactionID { parts.append("original \(original)") }
    if row.isTrialPeriod == true { parts.append("trial") }
    if row.isInIntroOfferPeriod == true { parts.append("introductory offer") }
    if row.isUpgraded == true { parts.append("upgraded") }
    if row.ownership == "family_shared" { parts.append("family shared") }
    if let status = row.status { parts.append("status \(status)") }
    return parts.joined(separator: "  ")
  }

  private static func line(_ renewal: Report.Renewal) -> String {
    var parts = [renewal.originalTransactionID ?? "?", renewal.productID ?? "?"]
    switch renewal.willRenew {
    case true?: parts.append("renews")
    case false?: parts.append("does not renew")
    case nil: break
    }
    if let next = renewal.autoRenewProductID, next != renewal.productID { parts.append("as \(next)") }
    if let date = renewal.renewalDate { parts.append("on \(date)") }
    if renewal.isInBillingRetryPeriod == true { parts.append("billing retry") }
    if let end = renewal.gracePeriodExpiresDate { parts.append("grace until \(end)") }
    if let intent = renewal.expirationIntent { parts.append("expiration intent \(intent)") }
    return parts.joined(separator: "  ")
  }

  private static func padded(_ name: String) -> String { name + String(repeating: " ", count: max(1, 16 - name.count)) }

  /// The text without characters that could steer the terminal: fields come from outside.
  private static func printable(_ text: String) -> String {
    String(
      String.UnicodeScalarView(
        text.unicodeScalars.map { scalar in
          switch scalar.properties.generalCategory {
          case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: "\u{FFFD}"
          default: scalar
          }
        }))
  }
}

package import FoundationEssentials

/// The offline report on a receipt: its kind, its signer and its purchases.
package struct ReceiptInspection: Sendable {
  /// The exit code of `countersign inspect`.
  package enum Outcome: Int32, Sendable, CaseIterable {
    case authentic = 0
    case notAuthentic = 1
    case undecodable = 2
  }

  package let outcome: Outcome
  let report: Report

  /// Inspects the contents of a file. Every input has a report.
  ///
  /// - Parameters:
  ///   - contents: a receipt, in DER, BER or as a property list, or base64 of it; signed data of StoreKit 2; a server
  ///     notification; an answer of the App Store Server API; the body of a request with a receipt.
  ///   - now: our clock; it only rejects receipts from the future.
  package init(of contents: [UInt8], roots: TrustedRoots = .apple, now: Date) {
    let contents = RequestBody.receipt(in: contents) ?? contents
    if contents.count <= SubmittedReceipt.limit,
      let finding = SignedDataInspection(roots: roots, now: now).finding(of: contents)
    {
      outcome = finding.outcome
      report = finding.report
      return
    }
    do {
      let submitted = try SubmittedReceipt.decode(contents: contents)
      let repairs = submitted.repairs.map(\.rawValue)
      switch submitted.content {
      case .app(let receipt):
        var problem: String?
        do { _ = try ReceiptVerifier(roots: roots).verify(receipt, now: now) } catch { problem = error.description }
        outcome = problem == nil ? .authentic : .notAuthentic
        report = Report(receipt, fingerprint: submitted.fingerprint, problem: problem, repairs: repairs)
      case .transaction(let receipt):
        outcome = .notAuthentic
        report = Report(receipt, fingerprint: submitted.fingerprint, repairs: repairs)
      // Never reached: signed data was found above.
      case .signedTransaction(let transaction):
        outcome = .notAuthentic
        report = Report(.transaction(transaction))
      case .appTransaction(let transaction):
        outcome = .notAuthentic
        report = Report(.appTransaction(transaction))
      }
    } catch {
      outcome = .undecodable
      report = Report(kind: error.kind.rawValue, authentic: false, problem: error.detail)
    }
  }

  /// The report for machines: snake_case, sorted keys, `null` for unknown values.
  package func json() -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    encoder.keyEncodingStrategy = .convertToSnakeCase
    guard let data = try? encoder.encode(report) else {
      // Strings, numbers and booleans only: nothing here can fail to be encoded.
      return "{}"
    }
    return String(decoding: data, as: UTF8.self)
  }
}

/// A request with a receipt: `POST /v1/validations` of the service, or Apple's verifyReceipt.
private struct RequestBody: Decodable {
  var receiptData: String?
  var appleReceiptData: String?

  enum CodingKeys: String, CodingKey {
    case receiptData = "receipt_data"
    case appleReceiptData = "receipt-data"
  }

  /// - Returns: `nil` for anything else.
  static func receipt(in contents: [UInt8]) -> [UInt8]? {
    guard contents.count <= SubmittedReceipt.limit, ReceiptText.trimmed(contents).first == UInt8(ascii: "{"),
      let body = try? JSONDecoder().decode(RequestBody.self, from: Data(contents))
    else { return nil }
    return (body.receiptData ?? body.appleReceiptData).map { Array($0.utf8) }
  }
}

import FoundationEssentials
import JSON

/// The inspection of StoreKit 2 data: a JWS, a notification of either version, an answer of the App Store Server API,
/// or the decoded payload of a JWS.
struct SignedDataInspection {
  typealias Report = ReceiptInspection.Report

  struct Finding {
    var outcome: ReceiptInspection.Outcome
    var report: Report
  }

  let verifier: SignedDataVerifier
  let now: Date

  init(roots: TrustedRoots, now: Date) {
    verifier = SignedDataVerifier(roots: roots)
    self.now = now
  }

  /// - Returns: `nil` for anything else.
  func finding(of contents: [UInt8]) -> Finding? {
    let text = ReceiptText.trimmed(contents)
    if text.first == UInt8(ascii: "{") {
      let read = try? JSONReader.readAtOnce(Array(text), size: .whole) { (json) throws(JSONError) in
        self.finding(of: json)
      }
      guard var found = read ?? nil else { return nil }
      if found.report.sha256 == nil { found.report.sha256 = ReceiptFingerprint(of: Array(text)).hex }
      return found
    }
    let bare = ReceiptText.withoutWhitespace(text)
    guard ReceiptText.isJWS(bare) else { return nil }
    var found = finding(ofJWS: bare)
    if bare.count < text.count { found.report.repairs = [ReceiptRepair.whitespace.rawValue] }
    return found
  }

  private func finding(ofJWS text: [UInt8]) -> Finding {
    do throws(UndecodableReceipt) {
      let jws = try CompactJWS(text)
      let payload = try SignedPayload(jws)
      var report = Report(payload)
      report.signer = jws.claimedSigner.map { Report.Signer($0) }
      report.sha256 = ReceiptFingerprint(of: text).hex
      if case .notification(let notification) = payload { report.add(partsOf: notification) }
      report.problem = problem(of: payload, in: jws)
      return Finding(report)
    } catch {
      return Finding(
        outcome: .undecodable, report: Report(kind: error.kind.rawValue, authentic: false, problem: error.detail))
    }
  }

  /// The reason why the payload is not proven; `nil` if it is.
  private func problem(of payload: SignedPayload, in jws: CompactJWS) -> String? {
    do throws(SignedDataError) {
      switch payload {
      case .transaction(let transaction): _ = try verifier.verify(transaction, of: jws, now: now)
      case .renewalInfo(let info): _ = try verifier.verify(info, of: jws, now: now)
      case .notification(let notification): _ = try verifier.verify(notification, of: jws, now: now)
      case .appTransaction(let transaction): _ = try verifier.verify(transaction, of: jws, now: now)
      case .other(_, let members):
        guard let signedDate = members.signedDate else {
          return "It does not say when it was signed, so that its certificates cannot be judged."
        }
        let environment = members.environmentName.map { SignedEnvironment(name: $0) }
        do throws(NotAuthentic) {
          _ = try verifier.check(jws, environment, signedDate: signedDate, now: now)
        } catch {
          return error.description
        }
      }
      return nil
    } catch {
      return error.description
    }
  }
}

extension SignedDataInspection.Finding {
  fileprivate init(_ report: ReceiptInspection.Report) {
    self.report = report
    self.report.authentic = report.problem == nil
    outcome = report.problem == nil ? .authentic : .notAuthentic
  }
}

// MARK: JSON

extension SignedDataInspection {
  /// The kinds of JSON, recognised by the members that only one kind has.
  private enum Answer: String {
    case signedPayload = "signed_notification"
    case notificationV1 = "notification_v1"
    case statuses = "subscription_statuses"
    case history = "transaction_history"
    case transactionInfo = "transaction_info"
    case orderLookup = "order_lookup"
    case notificationHistory = "notification_history"
    case appTransactionInfo = "app_transaction_info"
    case error = "server_api_error"

    init?(_ json: JSONValue) {
      func has(_ key: String) -> Bool { json[key] != nil }
      if has("signedPayload") {
        self = .signedPayload
      } else if has("notification_type") {
        self = .notificationV1
      } else if has("errorCode") {
        self = .error
      } else if has("notificationHistory") {
        self = .notificationHistory
      } else if has("signedTransactions") {
        self = has("revision") || has("hasMore") ? .history : .orderLookup
      } else if has("signedTransactionInfo") {
        self = .transactionInfo
      } else if has("signedAppTransactionInfo") {
        self = .appTransactionInfo
      } else if json["data"]?.elements.contains(where: { $0["lastTransactions"] != nil }) == true
        || json["data"]?.isArray == true && has("bundleId")
      {
        self = .statuses
      } else {
        return nil
      }
    }
  }

  private func finding(of json: JSONValue) -> Finding? {
    guard let answer = Answer(json) else { return decodedPayload(json) }
    var report = Report(kind: answer.rawValue, authentic: false)
    report.bundleID = try? json.text("bundleId")
    report.environment = try? json.text("environment")?.lowercased()
    report.appAppleID = try? json.number("appAppleId")
    switch answer {
    case .signedPayload:
      guard let text = try? json.text("signedPayload") else {
        report.problem = "Its signedPayload is no text."
        return Finding(report)
      }
      var found = finding(ofJWS: Array(text.utf8))
      if found.outcome == .undecodable { found.report.kind = answer.rawValue }
      return found
    case .notificationV1: report.addNotificationV1(json)
    case .error:
      report.errorCode = try? json.number("errorCode")
      report.errorMessage = try? json.text("errorMessage").map { String($0.prefix(200)) }
      report.problem = "This is an error of the App Store Server API; nothing in it is signed."
    case .statuses: add(statuses: json, to: &report)
    case .history, .orderLookup: add(json["signedTransactions"]?.elements ?? [], to: &report)
    case .transactionInfo: add([json["signedTransactionInfo"], json["signedRenewalInfo"]], to: &report)
    case .appTransactionInfo: add([json["signedAppTransactionInfo"]], to: &report)
    case .notificationHistory:
      add((json["notificationHistory"]?.elements ?? []).map { $0["signedPayload"] }, to: &report)
    }
    return Finding(report)
  }

  /// Get All Subscription Statuses: the newest transaction and renewal info of each subscription, and its status.
  private func add(statuses json: JSONValue, to report: inout Report) {
    var parts = 0
    for group in json["data"]?.elements ?? [] {
      for item in group["lastTransactions"]?.elements ?? [] {
        let rows = report.transactions.count
        add(
          [item["signedTransactionInfo"], item["signedRenewalInfo"]], of: try? item.text("originalTransactionId"),
          to: &report)
        if report.transactions.count > rows { report.transactions[rows].status = try? item.code("status") }
        parts += 1
      }
    }
    if parts == 0 { add([], to: &report) }
  }

  /// Decodes and checks each signed member as if it had come alone. It has to be what the answer calls it; the report
  /// has the first problem.
  ///
  /// - Parameter originalID: the purchase that the answer names; `nil` if it names none.
  private func add(_ members: [JSONValue?], of originalID: String? = nil, to report: inout Report) {
    var found = false
    for member in members.compactMap({ $0 }) {
      found = true
      guard case .string(let text) = member.kind else {
        report.problem = report.problem ?? "Its \(member.path) is no text."
        continue
      }
      let part = finding(ofJWS: Array(text.utf8)).report
      report.transactions += part.transactions
      report.renewals += part.renewals
      report.signer = report.signer ?? part.signer
      report.bundleID = report.bundleID ?? part.bundleID
      report.environment = report.environment ?? part.environment
      report.createdAt = [report.createdAt, part.createdAt].compactMap { $0 }.max()
      if report.problem == nil, let problem = part.problem {
        report.problem = "Its \(member.path) is not proven: \(problem)"
      }
      if report.problem == nil, let outer = report.bundleID, let inner = part.bundleID, inner != outer {
        report.problem = "Its \(member.path) is of another app than the answer."
      }
      if report.problem == nil, let outer = report.environment, let inner = part.environment, inner != outer {
        report.problem = "Its \(member.path) is of another store than the answer."
      }
      let inner = part.transactions.first?.originalTransactionID ?? part.renewals.first?.originalTransactionID
      if report.problem == nil, let originalID, let inner, inner != originalID {
        report.problem = "Its \(member.path) is of another purchase than the answer calls it."
      }
    }
    if !found, report.problem == nil { report.problem = "Nothing in it is signed." }
  }

  /// The finding for the payload of a JWS without its signature, as found in logs and examples.
  private func decodedPayload(_ json: JSONValue) -> Finding? {
    let kind = SignedPayload.Kind(json)
    guard kind != .unknown else { return nil }
    var report = (try? SignedPayload(json)).map { Report($0) } ?? Report(kind: kind.rawValue, authentic: false)
    report.kind = "decoded_" + kind.rawValue.dropFirst("signed_".count)
    report.problem =
      "This is the decoded payload of \(kind.words), without its signature: it proves nothing. Give the JWS itself."
    return Finding(report)
  }
}

extension CompactJWS {
  /// The first certificate's description of itself. Anybody can put one there.
  fileprivate var claimedSigner: ReceiptSigner? {
    header.certificates.first.flatMap { Data(base64Encoded: $0) }.flatMap { Certificate(der: $0) }
      .map { ReceiptSigner($0, digest: "sha256") }
  }
}

import AppStore
import Entitlements
package import Ledger
package import Logging
import Resilience

import struct FoundationEssentials.Date

/// The receiver of Apple's server notifications: somebody subscribed, renewed, was refunded.
///
///     signed (version 2)   signatures, app ─▶ known already? ─▶ evidence ─▶ the owner's, or kept until somebody claims it
///     version 1            password ─▶ a hint: Apple is asked about the purchases that it names
///
/// The type decides nothing: a notification is evidence like any other, merged by the time of its signature, whatever
/// the order of arrival.
///
/// An accepted notification is recorded once, before it is answered. Refused and unreadable ones are kept too, for
/// inspection, as Apple does not repeat them for ever. Anybody can send unsigned ones, so only some of those are kept;
/// the others are not acknowledged. Of version 1 only the arrival is kept: nothing proves its contents, and the shared
/// secret is in it.
///
/// https://developer.apple.com/documentation/appstoreservernotifications
package struct NotificationReceiver: Sendable {
  /// The outcome of a notification. The raw values are part of the answer.
  package enum Outcome: String, Sendable, CaseIterable {
    /// The evidence counts for the owner of the purchase.
    case recorded
    /// The evidence waits until somebody presents the purchase.
    case unclaimed
    case noted
    case duplicate
    /// Not signed by Apple, or not about our app.
    case refused
    case unreadable
    /// Apple is asked about the purchases in it: of version 1, or signed and not readable.
    case rechecking
  }

  package struct Reception: Sendable {
    package var outcome: Outcome
    /// The notification's UUID; `nil` if it has none.
    package var uuid: String?
  }

  /// The reason why a notification is not acknowledged, so that Apple repeats it.
  package enum Failure: Error, Sendable {
    case ledgerUnavailable(LedgerError)
    /// Version 1 without our shared secret: it is not from Apple, or our secret is wrong.
    case wrongPassword
    /// The signature is later than our clock, which is wrong.
    case clockBehind
    /// Too many came that Apple did not sign.
    case tooManyUnproven
  }

  var signedData: SignedDataVerifier
  var ledger: Ledger
  var validator: ReceiptValidator
  /// Whether a password is our shared secret; compared in constant time.
  var isOurPassword: @Sendable (NotificationV1) -> Bool
  /// Whether notifications are forwarded as they came.
  var forwards = false
  var onOutcome: @Sendable (_ version: Int, Outcome) -> Void = { _, _ in }
  /// Called with an extension of a product that a notification ends.
  var onExtensionEnd: @Sendable (ExtensionRecord) -> Void = { _ in }
  /// The limit of unsigned notifications that are kept and logged.
  var unproven = Occasional(most: 20, every: .seconds(60))
  var wrongPasswords = Occasional(most: 20, every: .seconds(60))

  private var gateway: AppStoreGateway { validator.gateway }
  private var verdicts: VerdictContext { validator.verdicts }

  package func receive(_ body: [UInt8], logger: Logger) async throws(Failure) -> Reception {
    switch PostedNotification.decode(body) {
    case .signed(let payload):
      let reception = try await receive(signed: payload, logger)
      onOutcome(2, reception.outcome)
      return reception
    case .version1(let notification):
      let reception = try await receive(notification, digest: ReceiptFingerprint(of: body), logger)
      onOutcome(1, reception.outcome)
      return reception
    case .unreadable(let problem):
      // One of version 1 has our shared secret in it: the digest alone is kept.
      let reception = try await refuse(Array(ReceiptFingerprint(of: body).hex.utf8), .unreadable, problem, logger)
      onOutcome(2, reception.outcome)
      return reception
    }
  }

  // MARK: - Version 2

  /// Records one out of Apple's history. It is evaluated as of its signature, so that everything it tells comes out as it
  /// would have then.
  func receive(missed payload: String, logger: Logger) async throws(Failure) -> Reception {
    let reception = try await receive(signed: payload, isMissed: true, logger)
    onOutcome(2, reception.outcome)
    return reception
  }

  /// When a notification says that it was signed; it is not verified.
  static func signedAt(_ payload: String) -> Date {
    SignedNotification.claimed(in: payload)?.signedDate ?? .distantPast
  }

  private func receive(
    signed payload: String, isMissed: Bool = false, _ logger: Logger
  ) async throws(Failure) -> Reception {
    let verified: VerifiedNotification
    do throws(SignedDataError) {
      verified = try await verify(payload)
    } catch {
      switch error {
      case .undecodable(let cause): return try await recheck(unreadable: payload, cause.detail, logger)
      case .notAuthentic(.createdInFuture):
        logger.error("a notification is signed ahead of our clock: set the clock right; Apple sends it again")
        throw .clockBehind
      case .notAuthentic(let cause): return try await refuse(Array(payload.utf8), .refused, cause.description, logger)
      }
    }
    let notification = verified.notification
    if let foreign = rejectionReason(of: verified) {
      return try await refuse(
        Array(payload.utf8), .refused, foreign, logger, isSigned: true, uuid: notification.uuid)
    }
    let entry = entry(of: verified, payload, isMissed: isMissed)
    let outcome = try await consult(await ledger.run(entry), or: Failure.ledgerUnavailable)
    // Also one that was received before: what comes after its record may be missing.
    if notification.subtype == "SUMMARY", let summary = notification.summary, let request = summary.requestID,
      let ended = try await consult(
        await ledger.complete(
          ExtensionSummary(requestIdentifier: request, succeeded: summary.succeeded, failed: summary.failed),
          at: entry.receivedAt), or: Failure.ledgerUnavailable)
    {
      onExtensionEnd(ended)
    }
    var reception = await follow(outcome, logger)
    reception.uuid = notification.uuid
    logger.info(
      "notification",
      metadata: [
        "type": "\(notification.type.loggable)", "subtype": "\((notification.subtype ?? "none").loggable)",
        "uuid": "\((notification.uuid ?? "none").loggable)", "outcome": "\(reception.outcome.rawValue)",
      ])
    return reception
  }

  /// Keeps a notification that cannot be read. It may be a refund, and Apple does not repeat it: Apple is asked about the
  /// purchases in it, if Apple signed it.
  private func recheck(
    unreadable payload: String, _ problem: String, _ logger: Logger
  ) async throws(Failure) -> Reception {
    let isKnown = try await consult(await ledger.hasRefused(payload), or: Failure.ledgerUnavailable)
    guard !isKnown else { return Reception(outcome: .unreadable) }
    let ids = signedData.purchases(named: payload, now: verdicts.now())
    let due = try await consult(await ledger.recheckSoon(ids, at: verdicts.now()), or: Failure.ledgerUnavailable)
    var reception = try await refuse(Array(payload.utf8), .unreadable, problem, logger, isSigned: !ids.isEmpty)
    if due > 0 { reception.outcome = .rechecking }
    return reception
  }

  /// Has Apple asked about the purchases that a notification of Apple's names, as far as they are known.
  func recheckPurchases(named payload: String) async {
    let ids = signedData.purchases(named: payload, now: verdicts.now())
    _ = try? await ledger.recheckSoon(ids, at: verdicts.now())
  }

  private func verify(_ payload: String) async throws(SignedDataError) -> VerifiedNotification {
    do throws(SignedDataError) { return try signedData.notification(payload, now: verdicts.now()) } catch {
      guard case .notAuthentic(.createdInFuture) = error, await gateway.catchUp() else { throw error }
      return try signedData.notification(payload, now: verdicts.now())
    }
  }

  /// The reason why a signed notification is not about our app; `nil` if it is, or names none.
  private func rejectionReason(of verified: VerifiedNotification) -> String? {
    if let bundleID = verified.bundleID, !gateway.apps.contains(bundleID) {
      return "It is about an app that this service does not serve."
    }
    if !gateway.apps.mayContain(appAppleID: verified.notification.appAppleID, in: verified.environment) {
      return "It is about an app whose number is not in app_store.app_apple_ids."
    }
    return nil
  }

  private func entry(
    of verified: VerifiedNotification, _ payload: String, isMissed: Bool
  ) -> NotificationEntry {
    let notification = verified.notification
    let now = verdicts.now()
    let history = verified.history()
    let evaluatedAt = history?.evaluatedAt ?? now
    let evidence = history?.evidence() ?? []
    let uuid = notification.uuid ?? Self.uuid(ofPayload: payload)
    var entry = NotificationEntry(
      uuid: uuid, type: notification.type, subtype: notification.subtype,
      environment: verified.environment, bundleID: verified.bundleID, signedAt: verified.signedDate, receivedAt: now,
      payload: payload, evidence: evidence, proof: proof(of: verified), claimant: claimant(of: evidence),
      makesClaimant: verdicts.accountTokenIsUserID,
      evaluatedAt: isMissed ? evaluatedAt : max(evaluatedAt, now), rules: verdicts.rules,
      rowsClaimedUntil: verdicts.rowsClaim)
    if EventType(ofNotification: notification.type) != nil { entry.notice = notice(of: verified, uuid) }
    entry.consumption = consumption(of: verified, isMissed: isMissed, at: now)
    entry.hasExtended = Self.hasExtended(notification)
    entry.isForwarded = forwards
    return entry
  }

  private static func hasExtended(_ notification: SignedNotification) -> Bool? {
    switch (notification.type, notification.subtype) {
    case ("RENEWAL_EXTENDED", _): true
    case ("RENEWAL_EXTENSION", "FAILURE"): false
    default: nil
    }
  }

  /// Apple's request for consumption information. The twelve hours begin with the arrival; of a missed one, whose arrival
  /// is not known, with the signature.
  private func consumption(of verified: VerifiedNotification, isMissed: Bool, at now: Date) -> ConsumptionRequest? {
    guard verified.notification.type == "CONSUMPTION_REQUEST", gateway.serverAPI != nil,
      let transaction = verified.transaction?.payload, let environment = verified.environment
    else { return nil }
    let answerBy = (isMissed ? verified.signedDate : now).advanced(by: ConsumptionAnswerer.time)
    guard answerBy.advanced(by: ConsumptionAnswerer.told) > now else { return nil }
    return ConsumptionRequest(
      environment: environment, transactionID: transaction.purchase.transactionID,
      originalTransactionID: transaction.purchase.originalTransactionID, bundleID: transaction.bundleID,
      isAutoRenewable: transaction.isAutoRenewable, askedAt: verified.signedDate, answerBy: answerBy)
  }

  private func notice(of verified: VerifiedNotification, _ uuid: String) -> StoreNotice {
    let notification = verified.notification
    let transaction = verified.transaction?.payload
    var notice = StoreNotice(uuid: uuid, type: notification.type)
    notice.subtype = notification.subtype
    notice.environment = verified.environment?.rawValue
    notice.bundleID = verified.bundleID?.rawValue
    notice.signedAt = verified.signedDate
    notice.productID = transaction?.purchase.productID.rawValue ?? notification.summary?.productID
    notice.transactionID = transaction?.purchase.transactionID.rawValue
    notice.originalTransactionID = transaction?.purchase.originalTransactionID.rawValue
    notice.previousOriginalTransactionID = transaction?.previousOriginalTransactionID
    notice.expiresAt = transaction?.purchase.expiresDate
    notice.consumptionRequestReason = notification.consumptionRequestReason
    notice.priceIncreaseStatus = verified.renewalInfo?.payload.priceIncreaseStatus
    notice.appTransactionID =
      notification.signedAppTransactionInfo
      .flatMap { try? signedData.appTransaction($0, now: verdicts.now()) }?.payload.originalPurchase
      .appTransactionID
    let external = notification.externalPurchase
    (notice.externalPurchaseID, notice.tokenType) = (external?.id, external?.tokenType)
    (notice.tokenCreatedAt, notice.tokenExpiresAt) = (external?.createdAt, external?.expiresAt)
    let summary = notification.summary
    (notice.requestID, notice.storefronts) = (summary?.requestID, summary?.storefronts)
    (notice.succeeded, notice.failed) = (summary?.succeeded, summary?.failed)
    return notice
  }

  /// A substitute for a UUID that Apple did not give: the digest of the payload, which is the same when it is signed again.
  private static func uuid(ofPayload jws: String) -> String {
    let payload = jws.split(separator: ".", omittingEmptySubsequences: false).dropFirst().first ?? ""
    return "v2-\(ReceiptFingerprint(of: Array(payload.utf8)).hex)"
  }

  private func proof(of verified: VerifiedNotification) -> KeptReceipt? {
    guard let signed = verified.notification.signedTransactionInfo, let environment = verified.environment,
      let bundleID = verified.bundleID
    else { return nil }
    return KeptReceipt(base64: signed, environment: environment, bundleID: bundleID)
  }

  /// The user whom the app named at the purchase. Only a UUID can be named; with other user IDs there is none, and the
  /// purchase belongs to the user who presents it.
  private func claimant(of evidence: [SubscriptionEvidence]) -> UserID? {
    let rows = evidence.flatMap(\.purchases).filter { $0.ownership == .purchased && $0.appAccountToken != nil }
    let newest = rows.max { ($0.purchaseDate ?? .distantPast) < ($1.purchaseDate ?? .distantPast) }
    guard let user = newest?.appAccountToken.map({ UserID($0) }), evidence.contains(where: { $0.names(user) }) else {
      return nil
    }
    return user
  }

  private func follow(_ outcome: NotificationOutcome, _ logger: Logger) async -> Reception {
    switch outcome {
    case .duplicate: return Reception(outcome: .duplicate)
    case .unclaimed: return Reception(outcome: .unclaimed)
    case .noted: return Reception(outcome: .noted)
    case .recorded(let user, let recorded):
      validator.onVerdict(recorded.entitlement)
      _ = await verdicts.write(user, recorded.write, recorded.update, after: recorded.losers, logger: logger)
      return Reception(outcome: .recorded)
    }
  }

  private func refuse(
    _ payload: [UInt8], _ outcome: Outcome, _ problem: String, _ logger: Logger, isSigned: Bool = false,
    uuid: String? = nil
  ) async throws(Failure) -> Reception {
    let reception = Reception(outcome: outcome, uuid: uuid)
    let text = String(decoding: payload, as: UTF8.self)
    guard try await !consult(await ledger.hasRefused(text), or: Failure.ledgerUnavailable) else { return reception }
    guard isSigned || unproven.admit() else { throw .tooManyUnproven }
    let refused = RefusedNotification(
      problem: problem, payload: text, isSigned: isSigned, receivedAt: verdicts.now())
    try await consult(await ledger.noteRefused(refused), or: Failure.ledgerUnavailable)
    logger.warning(
      "a notification was refused", metadata: ["outcome": "\(outcome.rawValue)", "problem": "\(problem)"])
    return reception
  }

  // MARK: - Version 1

  /// Handles version 1, which is unsigned and only a hint to ask Apple.
  private func receive(
    _ notification: NotificationV1, digest: ReceiptFingerprint, _ logger: Logger
  ) async throws(Failure) -> Reception {
    guard isOurPassword(notification) else {
      if wrongPasswords.admit() {
        logger.warning("a notification of version 1 without our shared secret was refused")
      }
      throw .wrongPassword
    }
    if let bundleID = notification.bundleID, !gateway.apps.contains(bundleID) {
      logger.warning("a notification of version 1 about another app was ignored")
      return Reception(outcome: .refused)
    }
    let now = verdicts.now()
    var due: Int
    do throws(LedgerError) {
      due = try await ledger.recheckSoon(notification.originalTransactionIDs, at: now)
      due += try await recheckSoon(notification.transactionIDs, at: now)
      // Version 1 has no UUID.
      _ = try await ledger.run(
        NotificationEntry(
          uuid: "v1-\(digest.hex)", type: notification.type, bundleID: notification.bundleID, receivedAt: now,
          payload: "", evaluatedAt: now, rules: verdicts.rules))
    } catch { throw .ledgerUnavailable(error) }
    logger.info(
      "notification",
      metadata: ["type": "\(notification.type.loggable)", "version": "1", "rechecking": .stringConvertible(due)])
    return Reception(outcome: due > 0 ? .rechecking : .noted)
  }
}

extension NotificationReceiver {
  /// The most transactions of a notification that are searched for: a customer has a few.
  private static let searches = 10
  /// The time that the search for them may take.
  private static let searchTime = Duration.seconds(3)

  /// Makes the purchases due to which transactions belong. The first transaction of a purchase has the ID of the purchase;
  /// no index knows the later ones.
  /// - Returns: how many of the purchases are known.
  private func recheckSoon(_ ids: [TransactionID], at now: Date) async throws(LedgerError) -> Int {
    var due = 0
    let end = ContinuousClock.now.advanced(by: Self.searchTime)
    for id in ids.prefix(Self.searches) {
      let first = try await ledger.recheckSoon([OriginalTransactionID(id.rawValue)], at: now)
      due += first
      guard first == 0 else { continue }
      let keys = try await ledger.purchases(with: id, until: end).keys
      due += try await ledger.recheckSoon(keys.map(\.originalTransactionID), at: now)
    }
    return due
  }
}

extension String {
  /// The text if it is fit for a log, else `?`: signed texts are not to be trusted either.
  fileprivate var loggable: String {
    let isWord = (1...64).contains(utf8.count) && utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    return isWord ? self : "?"
  }
}

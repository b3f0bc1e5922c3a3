import Access
import Entitlements
package import Ledger
package import Logging
import Resilience

import struct FoundationEssentials.Date

/// The receiver of RevenueCat's webhooks.
///
///     store          what an event is
///     App Store      a hint: Apple is asked about the purchase now, and its answer is the evidence. While Apple cannot
///                    be asked, the event may raise its user's tier for a while, and never lowers one
///     any other      evidence: RevenueCat is the only witness
///
/// An event is kept before it is acknowledged, once: RevenueCat sends again what is answered otherwise, a few times.
package struct RevenueCatReceiver: Sendable {
  /// The outcome of an event. The raw values are part of the answer.
  package enum Outcome: String, Sendable, CaseIterable {
    case recorded
    /// The event names another user than the owner of the purchase. It counts for the owner.
    case recordedForOwner = "recorded_for_owner"
    /// Apple was asked, or will be.
    case hint
    case noted
    case duplicate
    /// The request does not come from RevenueCat.
    case refused
    case unreadable
  }

  package struct Reception: Sendable {
    package var outcome: Outcome
    package var id: String
  }

  /// The reason why an event is not acknowledged.
  package enum Failure: Error, Sendable {
    case notAuthentic
    /// The event is kept as a refused notification.
    case unreadable(RevenueCatEvent.Unreadable)
    case ledgerUnavailable(LedgerError)
  }

  var keyring: RevenueCatKeyring
  var ledger: Ledger
  var validator: ReceiptValidator
  /// The catalog's, for events that name no end.
  var terms: [ProductID: Plans.Terms] = [:]
  var onOutcome: @Sendable (Outcome) -> Void = { _ in }
  /// The limit of events without proof that are logged.
  var unproven = Occasional(most: 20, every: .seconds(60))

  private var verdicts: VerdictContext { validator.verdicts }

  /// Whether the headers may belong to an event of RevenueCat's, whatever the body is.
  package func mayCome(authorization: String?, signature: String?, logger: Logger) async -> Bool {
    guard keyring.current.mayProve(authorization: authorization, signature: signature) else {
      await refuse(logger)
      return false
    }
    return true
  }

  /// Counts, logs and notes an event that nothing proves. Its body is not read, and each hour has one note: anybody can post.
  private func refuse(_ logger: Logger) async {
    onOutcome(.refused)
    guard unproven.admit() else { return }
    logger.warning("an event without RevenueCat's proof was refused")
    let now = verdicts.now()
    // Without a note nothing is lost: the log has it.
    try? await ledger.noteRefused(
      RefusedNotification(
        problem: "An event without RevenueCat's proof: its header, or its signature, is not the one expected.",
        payload: "unproven in the hour \(Int(now.timeIntervalSince1970 / 3_600))", receivedAt: now))
  }

  /// Records a posted event, or refuses it. Nothing of the body is read before it is proven to be RevenueCat's.
  package func receive(
    _ body: [UInt8], authorization: String?, signature: String?, logger: Logger
  ) async throws(Failure) -> Reception {
    let now = verdicts.now()
    guard keyring.current.prove(body, authorization: authorization, signature: signature, now: now) else {
      await refuse(logger)
      throw .notAuthentic
    }
    let event: RevenueCatEvent
    do throws(RevenueCatEvent.Unreadable) { event = try RevenueCatEvent.decode(body, now: now) } catch {
      try await consult(
        await ledger.noteRefused(
          RefusedNotification(
            problem: "An event of RevenueCat's: \(error.sentence)", payload: String(decoding: body, as: UTF8.self),
            isSigned: true, receivedAt: now)), or: Failure.ledgerUnavailable)
      onOutcome(.unreadable)
      logger.warning("a RevenueCat event cannot be read", metadata: ["problem": "\(error.sentence)"])
      throw .unreadable(error)
    }
    let report = report(of: event, String(decoding: body, as: UTF8.self))
    let taken = try await consult(await ledger.run(report), or: Failure.ledgerUnavailable)
    let outcome = await follow(taken, logger)
    onOutcome(outcome)
    logger.info(
      "RevenueCat event",
      metadata: ["type": "\(event.type)", "id": "\(event.id)", "outcome": "\(outcome.rawValue)"])
    return Reception(outcome: outcome, id: event.id)
  }

  private func report(of event: RevenueCatEvent, _ payload: String) -> RevenueCatReport {
    let rules = verdicts.rules
    var report = RevenueCatReport(
      id: event.id, type: event.type, store: event.store, environment: event.environment, at: event.at,
      payload: payload, content: completed(event.content), ownership: validator.ownership,
      evaluationContext: verdicts.evaluationContext,
      nextTurn: { evidence, now in rules.nextTurn(of: evidence, after: now) }, provisional: validator.provisional,
      rowsClaimedUntil: verdicts.rowsClaim)
    report.users = event.users
    return report
  }

  private func completed(_ content: RevenueCatReport.Content) -> RevenueCatReport.Content {
    switch content {
    case .purchase(let key, let event): .purchase(key, completed(event))
    case .hint(let key, let event): .hint(key, completed(event))
    case .temporary, .transfer, .nothing: content
    }
  }

  /// A subscription's event without an end takes the catalog's period; one of a lifetime product is for life.
  private func completed(_ event: StoreEvent) -> StoreEvent {
    guard event.change == .period, event.expiresAt == nil, let product = event.product, let begin = event.purchasedAt
    else { return event }
    var event = event
    // Google Play names a product's base plan behind the `:`.
    let names = [product, ProductID(String(product.rawValue.prefix { $0 != ":" }))]
    if let period = names.lazy.compactMap({ terms[$0]?.period }).first {
      event.expiresAt = period.end(from: begin)
    } else if names.contains(where: { verdicts.rules.catalog.products[$0]?.kind == .lifetime }) {
      event.change = .single
    }
    return event
  }

  private func follow(_ taken: RevenueCatReportOutcome, _ logger: Logger) async -> Outcome {
    switch taken {
    case .duplicate: return .duplicate
    case .noted: return .noted
    case .hint(let hint):
      await RevenueCatHintCheck(validator: validator, ledger: ledger).ask(about: hint, logger: logger)
      return .hint
    case .recorded(let owner, let losers, let isForAnother):
      _ = await verdicts.write(owner, .waiting, after: losers, logger: logger)
      return isForAnother ? .recordedForOwner : .recorded
    }
  }
}

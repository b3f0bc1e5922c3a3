import AppStore
package import Entitlements
package import Ledger
package import Logging
import Resilience

package import struct FoundationEssentials.Date

/// Extensions of renewal dates, which support asks of Apple for one customer or, after an outage, for all of a product.
///
///     asked ─► recorded, with the name of the request ─► Apple ─► extended ─► the owner is asked about, with a note
///                ▲                                         │ refused ─► said
///                └── again, under the same name ◄──────────┘ no answer    (of a product: running ─► its status ─► done)
///
/// An answer that is lost extends nothing twice: Apple takes a request with the same name once.
///
/// https://developer.apple.com/documentation/appstoreserverapi/extending-the-renewal-date-for-auto-renewable-subscriptions
package struct RenewalExtensions: Sendable {
  /// The time after which an extension without an answer is given up.
  static let patience: Duration = .seconds(86_400)
  /// Apple: a request for all subscribers "may take multiple hours or days".
  static let longest: Duration = .seconds(30 * 86_400)
  /// The pauses between attempts.
  static let retry = Backoff(base: .seconds(30), cap: .seconds(600))
  /// The pauses between looks at the status.
  static let look = Backoff(base: .seconds(60), cap: .seconds(3_600))

  var validator: ReceiptValidator
  var ledger: Ledger
  var revalidation: UserRevalidation
  /// Called with the last state of each.
  var onClosed: @Sendable (ExtensionRecord) -> Void

  private var gateway: AppStoreGateway { validator.gateway }
  private var now: @Sendable () -> Date { validator.verdicts.now }

  /// Whether there is a key of the App Store Server API.
  package var isAvailable: Bool { gateway.serverAPI != nil }
  package var bundleIDs: [BundleID] { gateway.apps.bundleIDs }

  /// The end of a claim.
  package func lease() -> Date { now().advanced(by: .lease(of: gateway.deadline)) }

  /// Records an extension, and asks Apple where the request claimed it.
  ///
  /// - Returns: `asked` with the record as it is after Apple's answer.
  package func ask(_ asked: AskExtension, logger: Logger) async throws(ValidationError) -> AskExtension.Outcome {
    let outcome = try await consult(await ledger.run(asked))
    guard case .asked(let record) = outcome else { return outcome }
    logger.notice("an extension of renewal dates was asked for", metadata: record.metadata)
    guard let lease = asked.claimedUntil else { return outcome }
    // A caller that leaves does not break it off: Apple may have taken it by then.
    let failure = await Task { () async -> LedgerError? in
      do throws(LedgerError) {
        if try await follow(record, logger: logger) == .away {
          try await ledger.returnExtensions([record], claimedUntil: lease)
        }
        return nil
      } catch { return error }
    }.value
    if let failure { throw .ledgerUnavailable(failure) }
    return .asked(try await consult(await ledger.extensionRecord(record.id)) ?? record)
  }

  /// Asks Apple about a claimed extension, and records the answer.
  func follow(_ record: ExtensionRecord, logger: Logger) async throws(LedgerError) -> Following {
    let (result, outcome) = await answer(to: record)
    guard let result else { return outcome }
    let note = try await ledger.settle(record, result, at: now())
    await conclude(record, result, note, logger)
    return outcome
  }

  /// - Returns: no result where Apple was not asked.
  private func answer(to record: ExtensionRecord) async -> (ExtensionResult?, Following) {
    do throws(AppStoreError) {
      return (try await askApple(record), .followed)
    } catch {
      switch error {
      case .cancelled, .overloaded, .unavailable(_, _, .circuitOpen): return (nil, .away)
      case _ where record.state == .due:
        if let refusal = error.extensionRefusal { return (.refused(refusal), .followed) }
      default: break
      }
      let isRunning = record.state == .running
      guard now() < record.askedAt.advanced(by: isRunning ? Self.longest : Self.patience) else {
        return (.failed("Apple gave no answer in time: \(error.words)."), .followed)
      }
      let attempts = record.attempts + 1
      let pause = (isRunning ? Self.look : Self.retry).ceiling(after: record.attempts)
      let due = now().advanced(by: pause)
      let result: ExtensionResult =
        isRunning
        ? .running(lookAt: due, attempts: attempts, problem: error.words)
        : .due(at: due, attempts: attempts, problem: error.words)
      return (result, error.mayConcernThisReceiptOnly ? .followed : .away)
    }
  }

  private func askApple(_ record: ExtensionRecord) async throws(AppStoreError) -> ExtensionResult {
    guard let serverAPI = gateway.serverAPI else { throw .keyRejected }
    let end = ContinuousClock.now.advanced(by: gateway.deadline)
    let apps = record.bundleID.map { [$0] } ?? gateway.apps.bundleIDs
    switch record.subject {
    case .purchase(let id):
      let expiresAt = try await serverAPI.extend(
        id, by: record.terms, bundleIDs: apps, in: record.environment, deadline: end)
      return .extended(expiresAt: expiresAt, note: record.note(of: expiresAt, at: now()))
    case .product(let product) where record.state == .due:
      try await serverAPI.extendAll(
        of: product, by: record.terms, bundleIDs: apps, in: record.environment, deadline: end)
      return .running(lookAt: now().advanced(by: Self.look.base), attempts: 0, problem: nil)
    case .product(let product):
      let status = try await serverAPI.extensionStatus(
        of: product.productID, requestIdentifier: record.terms.requestIdentifier, bundleIDs: apps,
        in: record.environment, deadline: end)
      if status.isComplete { return .complete(succeeded: status.succeeded, failed: status.failed) }
      let pause = Self.look.ceiling(after: record.attempts)
      return .running(lookAt: now().advanced(by: pause), attempts: record.attempts + 1, problem: nil)
    }
  }

  private func conclude(
    _ record: ExtensionRecord, _ result: ExtensionResult, _ note: NoteID?, _ logger: Logger
  ) async {
    var record = record
    var metadata = record.metadata
    switch result {
    case .due, .running: return
    case .complete(let succeeded, let failed):
      record.state = .done
      metadata["succeeded"] = .stringConvertible(succeeded ?? 0)
      metadata["failed"] = .stringConvertible(failed ?? 0)
      logger.notice("the renewal dates of a product were extended", metadata: metadata)
    case .extended(let end, _):
      record.state = .done
      metadata["expires_at"] = "\(end.rfc3339)"
      logger.notice("a renewal date was extended", metadata: metadata)
      await revalidate(record, note, logger)
    case .refused(let problem):
      record.state = .refused
      metadata["problem"] = "\(problem)"
      logger.notice("Apple refuses to extend a renewal date", metadata: metadata)
    case .failed(let problem):
      record.state = .failed
      metadata["problem"] = "\(problem)"
      logger.error("an extension of renewal dates was given up", metadata: metadata)
    }
    onClosed(record)
  }

  /// Has the new date count at once. Where that fails, the check that is scheduled does it.
  private func revalidate(_ record: ExtensionRecord, _ note: NoteID?, _ logger: Logger) async {
    guard let key = record.key, let note else { return }
    do {
      let owned = try await ledger.ownedPurchases(key.originalTransactionID).first {
        $0.evidence.key.environment == key.environment
      }
      guard let owner = owned?.owner else { return }
      _ = try await revalidation.revalidate(owner, noted: note, requestID: record.requestID, logger: logger)
    } catch {
      logger.info("an extended subscription waits for its check", metadata: record.metadata)
    }
  }
}

extension ExtensionRecord {
  var metadata: Logger.Metadata {
    var metadata: Logger.Metadata = [
      "environment": "\(environment.rawValue)", "days": .stringConvertible(terms.days),
      "reason": "\(terms.reason.rawValue)",
      "request_identifier": "\(terms.requestIdentifier)", "attempts": .stringConvertible(attempts),
    ]
    switch subject {
    case .purchase(let id): metadata["original_transaction_id"] = "\(id)"
    case .product(let product): metadata["product_id"] = "\(product.productID)"
    }
    return metadata
  }

  /// The note in the history of the purchase's owner.
  fileprivate func note(of end: Date, at now: Date) -> Note {
    let fact = "Apple extended the renewal date by \(terms.days) days, to \(end.rfc3339) (\(terms.reason.rawValue))."
    return Note(
      author: author, text: note.map { "\(fact) \($0)" } ?? fact, requestID: requestID, recordedAt: now)
  }
}

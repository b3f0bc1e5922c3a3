import AppStore
package import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle
import struct FoundationEssentials.Date

/// The job that answers Apple's requests for consumption information, each once, within twelve hours.
///
///     request ─► claimed ─► the customer's consent? delivered? ─► sent ─► answered, or refused
///                   ▲              │ not known                      │ Apple is away
///                   └── a look later, or at once after a word of the app's backend ◄──┘   … ─► unconsented, or missed
///
/// Without consent nothing is sent: Apple forbids it. While Apple is away one request at a time is tried, ever more rarely. An
/// answer that was sent and not recorded, as the process ended, is sent again; Apple takes the same answer twice.
///
/// https://developer.apple.com/documentation/appstoreserverapi/send-consumption-information
struct ConsumptionAnswerer: LeasedJob {
  /// Apple: "Respond within 12 hours of receiving the CONSUMPTION_REQUEST notification."
  static let time: Duration = .seconds(12 * 3_600)
  /// The time for which a missed request is told.
  static let told: Duration = .seconds(7 * 86_400)
  /// The pause between two looks at a request that lacks something.
  static let look: Duration = .seconds(600)
  static let retry = Backoff(base: .seconds(30), cap: .seconds(600))
  static let width = 8
  static let pieces = "requests for consumption information"

  var policy: ConsumptionPolicy
  var serverAPI: ServerAPIClient
  var catalog: Catalog
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var isClockConfirmed: @Sendable () -> Bool
  var pacer: Pacer
  var deadline: Duration
  var isAway: @Sendable (StoreEnvironment) -> Bool
  var pause: Duration
  var onClosed: @Sendable (ConsumptionRequest.State) -> Void

  /// The information to send, or the reason why nothing can be sent.
  private enum Answer {
    case ready(ConsumptionInformation)
    /// - Parameter until: the moment when the lack may be mended; `nil` if it is not known.
    case lacks(Lack, until: Date? = nil)
  }

  private enum Lack: String {
    case consent = "the customer's consent is not known"
    case erased = "the customer was erased"
    case delivery = "nothing here proves that the purchase was delivered"
    case word = "the app's backend may still say something"
    case clock = "its time may have ended by a wrong clock alone"
  }

  func claim(
    in environment: StoreEnvironment?, until lease: Date, limit: Int
  ) async throws(LedgerError) -> [ClaimedConsumptionRequest] {
    try await ledger.claimConsumptionRequests(in: environment, dueAt: now(), until: lease, limit: limit)
  }

  func giveBack(_ requests: [ClaimedConsumptionRequest], claimedUntil lease: Date) async throws(LedgerError) {
    try await ledger.returnConsumptionRequests(requests.map(\.request), claimedUntil: lease)
  }

  func follow(
    _ claimed: ClaimedConsumptionRequest, claimedUntil lease: Date
  ) async throws(LedgerError) -> Following {
    let request = claimed.request
    let answer = try await answer(to: claimed)
    guard now() < request.answerBy else {
      guard isClockConfirmed() else {
        let due = now().advanced(by: Self.look)
        try await ledger.settle(
          request, .due(at: due, attempts: request.attempts, problem: Lack.clock.rawValue), at: now())
        return .followed
      }
      switch answer {
      case .lacks(.consent, _), .lacks(.erased, _): try await close(request, .unconsented)
      case .lacks(let lack, _): try await close(request, .missed, lack.rawValue)
      case .ready: try await close(request, .missed, request.problem)
      }
      return .followed
    }
    switch answer {
    case .lacks(.erased, _):
      try await close(request, .unconsented, Lack.erased.rawValue)
      return .followed
    case .lacks(let lack, let until):
      let due = min(until ?? now().advanced(by: Self.look), request.answerBy)
      try await ledger.settle(
        request, .due(at: due, attempts: request.attempts, problem: lack.rawValue), at: now())
      return .followed
    case .ready:
      guard await pacer.turn(), now().advanced(by: deadline) < lease else { return .away }
      // While it waited for its turn, consent may have been withdrawn, or the customer erased.
      let record = try await ledger.consumptionRecord(of: request.transactionID, in: request.environment)
      var present = claimed
      present.said = record?.said
      guard record?.request?.askedAt == request.askedAt, record?.request?.state == .due,
        case .ready(let information) = try await self.answer(to: present)
      else {
        try await giveBack([claimed], claimedUntil: lease)
        return .followed
      }
      return try await send(information, request)
    }
  }

  private func send(
    _ information: ConsumptionInformation, _ request: ConsumptionRequest
  ) async throws(LedgerError) -> Following {
    // A stop of the service does not break it off: Apple may have taken it by then.
    let failure = await Task { [serverAPI, deadline] () async -> AppStoreError? in
      do throws(AppStoreError) {
        try await serverAPI.send(
          information, about: request.transactionID, of: request.bundleID, in: request.environment,
          deadline: .now.advanced(by: deadline))
        return nil
      } catch { return error }
    }.value
    switch failure {
    case nil: try await close(request, .answered)
    // No call was made.
    case .cancelled, .overloaded, .unavailable(_, _, .circuitOpen): return .away
    case .notFound: try await close(request, .refused, "Apple does not know the transaction")
    case .unexpected(let code, _): try await close(request, .refused, "Apple answered with the error \(code)")
    case let error?:
      let due = now().advanced(by: Self.retry.ceiling(after: request.attempts))
      try await ledger.settle(
        request, .due(at: min(due, request.answerBy), attempts: request.attempts + 1, problem: error.words), at: now())
      return error.mayConcernThisReceiptOnly ? .followed : .away
    }
    return .followed
  }

  private func close(
    _ request: ConsumptionRequest, _ state: ConsumptionRequest.State, _ problem: String? = nil
  ) async throws(LedgerError) {
    try await ledger.settle(request, .closed(state, problem: problem), at: now())
    onClosed(state)
    var metadata: Logger.Metadata = [
      "transaction_id": "\(request.transactionID)", "environment": "\(request.environment.rawValue)",
      "attempts": .stringConvertible(request.attempts),
    ]
    if let problem { metadata["problem"] = "\(problem)" }
    switch state {
    case .due: break
    case .answered: logger.info("consumption information was sent", metadata: metadata)
    case .unconsented:
      logger.notice("consumption information was not sent: the customer's consent is not known", metadata: metadata)
    case .missed: logger.error("Apple's request for consumption information was missed", metadata: metadata)
    case .refused: logger.error("Apple refuses consumption information", metadata: metadata)
    }
  }

  // MARK: The answer

  private func answer(to claimed: ClaimedConsumptionRequest) async throws(LedgerError) -> Answer {
    let request = claimed.request
    var information = (claimed.said ?? ConsumptionInformation()).completed(by: policy.information)
    guard information.customerConsented == true else { return .lacks(.consent) }
    let purchase = try await ledger.ownedPurchases(request.originalTransactionID)
      .first { $0.evidence.key.environment == request.environment }
    if let owner = purchase?.owner, owner.isErased { return .lacks(.erased) }
    if claimed.said == nil {
      let until = request.askedAt.advanced(by: policy.wait)
      if until > now() { return .lacks(.word, until: until) }
    }
    if let purchase, information.deliveryStatus == nil || information.consumptionPercentage == nil {
      let use = try await use(of: request, purchase)
      information.deliveryStatus = information.deliveryStatus ?? (use.isDelivered ? .delivered : nil)
      if information.deliveryStatus == .delivered {
        information.consumptionPercentage = information.consumptionPercentage ?? use.percentage
      }
    }
    guard information.deliveryStatus != nil else { return .lacks(.delivery) }
    return .ready(information.fit(isAutoRenewable: request.isAutoRenewable))
  }

  /// The use of a transaction, as far as the ledger proves it.
  ///
  /// It was delivered if it gives a tier, and its first owner here came before its end and before Apple asked: each answer since
  /// has given that tier. A consumable is delivered by the app. The time of a non-renewing subscription is used up evenly; a usage
  /// counter belongs to a user, and not to a purchase.
  private func use(
    of request: ConsumptionRequest, _ owned: OwnedPurchase
  ) async throws(LedgerError) -> (isDelivered: Bool, percentage: Int?) {
    guard let purchase = owned.evidence.purchases.first(where: { $0.transactionID == request.transactionID }),
      let product = catalog.products[purchase.productID], product.kind != .consumable,
      let gainedAt = owned.changes.last?.recordedAt, gainedAt < request.askedAt
    else { return (false, nil) }
    guard product.kind == .nonRenewing else { return (purchase.expiresDate.map { gainedAt < $0 } ?? true, nil) }
    let evidence = try await ledger.profile(of: owned.owner)?.evidence ?? [owned.evidence]
    let periods = NonRenewingPeriods(of: evidence, catalog: catalog)
    guard let begin = purchase.purchaseDate, let end = periods.end(of: purchase, in: request.environment) else {
      return (false, nil)
    }
    // A season that was bought in advance begins after its purchase.
    guard product.period?.end(from: begin) == end else { return (gainedAt < end, nil) }
    let share = request.askedAt.timeIntervalSince(begin) / end.timeIntervalSince(begin)
    return (gainedAt < end, Int((min(max(share, 0), 1) * Double(ConsumptionInformation.whole)).rounded()))
  }
}

/// The policy for answers to Apple's requests for consumption information (`app_store.consumption`).
package struct ConsumptionPolicy: Hashable, Sendable {
  /// The information about each customer whose transaction the app's backend has said nothing else about.
  package var information: ConsumptionInformation
  /// The time that the app's backend has to say something before the policy answers.
  package var wait: Duration

  package init(information: ConsumptionInformation = ConsumptionInformation(), wait: Duration = .zero) {
    self.information = information
    self.wait = wait
  }
}

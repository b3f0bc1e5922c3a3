import Entitlements
import SeededRandom

@testable import AppStoreSimulator

/// Reports on a made-up customer in each of Apple's ways, as evidence.
struct EvidenceReporter {
  /// The content of one answer or notification of Apple's.
  struct Report {
    var at: Timestamp
    var evidence: [SubscriptionEvidence]
    /// Of a notification.
    var slot: Int?
    var name: String

    /// Days from the start, and what it was.
    var text: String {
      "\(Double((at.milliseconds - MadeUpCustomer.start.milliseconds) * 100 / Timestamp.day) / 100) \(name)"
    }
  }

  enum Answer: String, CaseIterable {
    case verifyReceipt
    case verifyReceiptWithoutOld
    case statuses
  }

  var customer: MadeUpCustomer
  /// The ID of the customer's first transaction.
  var firstID = 1_000
  /// The prices that Apple signs, in thousandths of a dollar. verifyReceipt has none.
  var prices: [Product: Int64] = [:]
  /// verifyReceipt has the transactions of a device to which they were restored, each with an ID of its own.
  var isRestored = false
  /// The Server API and notifications tell Apple's own status.
  var tellsStatus = false

  private func transactionID(_ slot: Int, _ number: Int) -> String { String(firstID + slot * 200 + number) }

  /// The transactions of a subscription are numbered from its first.
  func originalID(_ slot: Int) -> OriginalTransactionID {
    let first = customer.timeline.subscriptions.first { $0.slot == slot }?.firstNumber ?? 0
    return OriginalTransactionID(transactionID(slot, first))
  }

  /// - Parameter known: what the answer knows, which may be what was true a moment before.
  func snapshot(_ answer: Answer, at now: Timestamp, knowing known: Timestamp? = nil) -> Report {
    let state = customer.state(at: known ?? now)
    let rows = state.rows.filter { row in
      guard answer != .verifyReceipt, row.product.isSubscription else { return true }
      return !state.rows.contains { $0.slot == row.slot && $0.number > row.number }
    }
    let isSigned = answer == .statuses
    let history = PurchaseHistory(
      environment: environment, source: isSigned ? .serverAPI : .verifyReceipt, evidenceTime: now.date,
      evaluatedAt: now.date, purchases: rows.map { purchase($0, reportedAt: isSigned ? now : nil) },
      renewals: state.renewals.map { renewal($0, state, signedAt: isSigned ? now : nil) })
    return Report(at: now, evidence: history.evidence(), name: answer.rawValue)
  }

  /// One of the newest transactions, as it is signed then.
  func transaction(at now: Timestamp, _ chance: inout SeededRandom) -> Report? {
    let state = customer.state(at: now)
    guard !state.rows.isEmpty else { return nil }
    return transaction(chance.pick(Array(state.rows.suffix(4))), at: now)
  }

  /// A transaction as it is signed then.
  func transaction(_ row: CustomerState.Row, at now: Timestamp) -> Report {
    Report(
      at: now, evidence: part(row, nil, customer.state(at: now), at: now),
      name: "transaction \(row.slot)/\(row.number)")
  }

  /// One of the purchases until then, of which no answer had been told ahead of its begin.
  func newPurchase(at now: Timestamp, _ chance: inout SeededRandom) -> CustomerState.Row? {
    let rows = customer.timeline.state(at: now).rows.filter {
      $0.expiresAt != nil && !($0.isRenewal && customer.lead > 0) && !$0.isFamilyShared
    }
    return rows.isEmpty ? nil : chance.pick(rows)
  }

  /// Whether nothing but a purchase happens to the customer from its moment to another.
  func isAlone(_ row: CustomerState.Row, until now: Timestamp) -> Bool {
    let (then, later) = (customer.state(at: row.shownAt), customer.state(at: now))
    let before = customer.state(at: row.shownAt.before)
    func others(_ state: CustomerState) -> CustomerState {
      CustomerState(
        rows: state.rows.filter { $0.slot != row.slot }, renewals: state.renewals.filter { $0.slot != row.slot })
    }
    return then == later && others(before) == others(then) && then.rows.last { $0.slot == row.slot } == row
  }

  func notifications(through now: Timestamp) -> [Report] {
    customer.events(through: now).compactMap { event in
      let state = customer.state(at: event.at)
      guard let row = state.rows.first(where: { $0.slot == event.slot && $0.number == event.number }) else {
        return nil
      }
      let renewal = state.renewals.first { $0.slot == event.slot }
      return Report(
        at: event.at, evidence: part(row, renewal, state, at: event.at, event: event), slot: event.slot,
        name: "\(event.type) of \(row.slot)/\(row.number)")
    }
  }

  private var environment: Entitlements.StoreEnvironment { customer.isProduction ? .production : .sandbox }

  private func part(
    _ row: CustomerState.Row, _ reported: CustomerState.Renewal?, _ state: CustomerState, at now: Timestamp,
    event: MadeUpCustomer.Event? = nil
  ) -> [SubscriptionEvidence] {
    PurchaseHistory(
      environment: environment, source: reported == nil ? .signature : .notification, evidenceTime: now.date,
      evaluatedAt: now.date, purchases: [purchase(row, reportedAt: now)],
      renewals: reported.map { [renewal($0, state, signedAt: now, event: event)] } ?? [], coverage: .partial(since: nil)
    ).evidence()
  }

  private func purchase(_ row: CustomerState.Row, reportedAt: Timestamp?) -> Purchase {
    let id = transactionID(row.slot, row.number)
    let isSigned = reportedAt != nil
    return Purchase(
      productID: ProductID(row.product.id), transactionID: TransactionID(isRestored && !isSigned ? "9\(id)" : id),
      originalTransactionID: originalID(row.slot),
      webOrderLineItemID: row.product.isSubscription ? "period-\(id)" : nil,
      subscriptionGroupID: row.group.map { SubscriptionGroupID($0) }, purchaseDate: row.purchasedAt.date,
      expiresDate: row.expiresAt?.date, cancellationDate: row.cancelledAt?.date,
      cancellationReason: row.cancelledAt.map { _ in row.cancellationReason }, isUpgraded: row.isUpgraded,
      ownership: row.isFamilyShared ? .familyShared : .purchased, isTrial: row.isTrial,
      isFirst: row.purchasedAt == row.originallyPurchasedAt, reportedAt: reportedAt?.date,
      sale: isSigned ? sale(of: row) : nil)
  }

  private func sale(of row: CustomerState.Row) -> Purchase.Sale? {
    prices[row.product].flatMap {
      .init(
        price: row.isTrial ? 0 : $0, currency: "USD",
        revocationPercentage: row.cancelledAt == nil ? nil : row.cancellationPercentage.map(Int64.init))
    }
  }

  /// Signed renewal info says more of a renewal than verifyReceipt does. The type of a notification, too, is a word on the
  /// status.
  private func renewal(
    _ renewal: CustomerState.Renewal, _ state: CustomerState, signedAt: Timestamp?, event: MadeUpCustomer.Event? = nil
  ) -> RenewalInfo {
    let isSigned = signedAt != nil
    let last = state.rows.last { $0.slot == renewal.slot }
    let end = last?.expiresAt?.date
    var status = isSigned && tellsStatus ? status(of: renewal, last) : nil
    if isAtTheEdges, status == nil {
      if event?.subtype == "GRACE_PERIOD" { status = .billingGracePeriod }
      if event?.type == "EXPIRED" { status = .expired }
    }
    let isGraceOver = isAtTheEdges && event?.type == "GRACE_PERIOD_EXPIRED" ? true : nil
    return RenewalInfo(
      originalTransactionID: originalID(renewal.slot),
      productID: ProductID(renewal.product.id), autoRenewProductID: ProductID(renewal.nextProduct.id),
      autoRenews: renewal.isOn, expirationIntent: renewal.intent,
      isInBillingRetry: isSigned || renewal.intent != nil ? renewal.isInRetry : nil,
      gracePeriodExpiresDate: renewal.graceUntil?.date,
      periodEnd: isSigned && (renewal.isOn || renewal.isInRetry) ? end : nil, status: status, isGraceOver: isGraceOver,
      reportedAt: signedAt?.date)
  }

  private func status(of renewal: CustomerState.Renewal, _ last: CustomerState.Row?) -> RenewalInfo.Status {
    if last?.cancelledAt != nil { return .revoked }
    return switch renewal.phase {
    case .running, .due: .active
    case .grace: .billingGracePeriod
    case .retry: .billingRetry
    case .ended: .expired
    }
  }

  private var isAtTheEdges: Bool { customer.isAtTheEdges }
}

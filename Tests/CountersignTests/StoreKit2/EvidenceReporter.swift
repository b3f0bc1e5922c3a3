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

  private func transactionID(_ slot: Int, _ number: Int) -> String { String(firstID + slot * 200 + number) }

  /// The transactions of a subscription are numbered from its first.
  private func originalID(_ slot: Int) -> OriginalTransactionID {
    let first = customer.timeline.subscriptions.first { $0.slot == slot }?.firstNumber ?? 0
    return OriginalTransactionID(transactionID(slot, first))
  }

  func snapshot(_ answer: Answer, at now: Timestamp) -> Report {
    let state = customer.state(at: now)
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

  func notifications(through now: Timestamp) -> [Report] {
    customer.events(through: now).compactMap { event in
      let state = customer.state(at: event.at)
      guard let row = state.rows.first(where: { $0.slot == event.slot && $0.number == event.number }) else {
        return nil
      }
      let renewal = state.renewals.first { $0.slot == event.slot }
      return Report(
        at: event.at, evidence: part(row, renewal, state, at: event.at), slot: event.slot,
        name: "notification of \(row.slot)/\(row.number)")
    }
  }

  private var environment: Entitlements.StoreEnvironment { customer.isProduction ? .production : .sandbox }

  private func part(
    _ row: CustomerState.Row, _ reported: CustomerState.Renewal?, _ state: CustomerState, at now: Timestamp
  ) -> [SubscriptionEvidence] {
    PurchaseHistory(
      environment: environment, source: reported == nil ? .signature : .notification, evidenceTime: now.date,
      evaluatedAt: now.date, purchases: [purchase(row, reportedAt: now)],
      renewals: reported.map { [renewal($0, state, signedAt: now)] } ?? [], coverage: .partial(since: nil)
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

  /// Signed renewal info says more of a renewal than verifyReceipt does.
  private func renewal(
    _ renewal: CustomerState.Renewal, _ state: CustomerState, signedAt: Timestamp?
  ) -> RenewalInfo {
    let isSigned = signedAt != nil
    let end = state.rows.last { $0.slot == renewal.slot }?.expiresAt?.date
    return RenewalInfo(
      originalTransactionID: originalID(renewal.slot),
      productID: ProductID(renewal.product.id), autoRenewProductID: ProductID(renewal.nextProduct.id),
      autoRenews: renewal.isOn, expirationIntent: renewal.intent,
      isInBillingRetry: isSigned || renewal.intent != nil ? renewal.isInRetry : nil,
      gracePeriodExpiresDate: renewal.graceUntil?.date,
      periodEnd: isSigned && (renewal.isOn || renewal.isInRetry) ? end : nil, reportedAt: signedAt?.date)
  }
}

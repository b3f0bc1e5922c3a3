import AppStore
package import Entitlements
package import Ledger
package import Logging
import Resilience

import struct FoundationEssentials.UUID

/// The search for the user behind anything that a customer can read out: a user ID, a transaction ID, an order ID, the ID of a
/// device.
///
///     asked                                          of
///     a user's traces; the original transaction ID;  the ledger, by its indexes
///     the device of a trial
///     a later transaction that is kept; its web      the ledger, page by page, for `searchTime`
///     order line item
///     a transaction that is not kept; an order       Apple's Server API, if there is a key
///
/// The next source is asked if those before know nothing. The search records nothing.
package struct SupportLookUp: Sendable {
  var ledger: Ledger
  /// `nil` without a key.
  var serverAPI: ServerAPIClient?
  var appStoreHealth: AppStoreHealth
  /// Our apps, in the order of attempts.
  var bundleIDs: [BundleID]
  /// The time that one look-up may take Apple.
  var deadline: Duration
  /// The time that one look-up may search the ledger, enough for some two million purchases.
  var searchTime: Duration = .seconds(3)
  /// The look-ups beyond the indexes, one for each ID, limited so that receipts keep the ledger's readers and Apple's
  /// calls.
  var searches = ConcurrencyLimit<UserID>(limit: 2)

  /// The kind of an ID that was found.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case userID = "user_id"
    case originalTransactionID = "original_transaction_id"
    /// A later transaction of a purchase.
    case transactionID = "transaction_id"
    /// The ID of a payment of a subscription, as in some of Apple's reports.
    case webOrderLineItemID = "web_order_line_item_id"
    /// The device on which the user began a trial.
    case deviceID = "device_id"
    case orderID = "order_id"
  }

  package enum AppStore: String, Hashable, Sendable, CaseIterable {
    case notConfigured = "not_configured"
    case notAsked = "not_asked"
    case answered
    case unavailable
  }

  package struct UnownedPurchase: Hashable, Sendable {
    package enum Source: String, Hashable, Sendable, CaseIterable {
      case notification
      /// Apple was asked just now.
      case appStore = "app_store"
    }

    package var key: SubscriptionKey
    package var productID: ProductID?
    /// The account UUID that the app gave at the purchase.
    package var accountToken: String?
    package var source: Source
  }

  package struct Found: Sendable {
    /// The kinds of the ID, the first one to be shown first; empty if neither the ledger nor Apple knows it, or Apple
    /// was not asked.
    package var kinds: [Kind] = []
    package var user: UserID?
    package var purchases: [OwnedPurchase] = []
    package var unowned: [UnownedPurchase] = []
    /// Whether the ledger was searched to the end.
    package var isComplete = true
    package var appStore: AppStore
  }

  /// The most purchases of an answer: an order may have more.
  private static let purchaseLimit = 20

  /// - Throws: `overloaded`, `ledgerUnavailable` or `cancelled`.
  package func find(_ id: UserID, logger: Logger) async throws(ValidationError) -> Found {
    var found = Found(appStore: serverAPI == nil ? .notConfigured : .notAsked)
    // An anonymous ID of an SDK's is that of the user who has signed in since.
    let user = try await consult(await ledger.user(named: id))
    if try await consult(await ledger.hasSeen(user)) {
      found.user = user
      found.kinds.append(.userID)
    }
    // A number may be a user ID and a transaction ID.
    let original = OriginalTransactionID(id.rawValue)
    try await add(
      StoreEnvironment.allCases.map { SubscriptionKey(environment: $0, originalTransactionID: original) }, to: &found)
    if !found.purchases.isEmpty || !found.unowned.isEmpty { found.kinds.append(.originalTransactionID) }
    if found.kinds.isEmpty, UUID(uuidString: id.rawValue) != nil,
      let trial = try await consult(await ledger.trial(on: DeviceID(id.rawValue), of: nil))
    {
      found.user = trial.user.isErased ? nil : trial.user
      found.kinds.append(.deviceID)
    }
    guard found.kinds.isEmpty, let question = Question(id.rawValue) else { return found }
    guard searches.enter(id) else { throw .overloaded }
    defer { searches.leave(id) }
    if case .transaction(let id) = question {
      let end = ContinuousClock.now.advanced(by: searchTime)
      let search = try await consult(await ledger.purchases(with: id, until: end))
      found.isComplete = search.isComplete
      try await add(search.keys, to: &found)
      if !search.keys.isEmpty { found.kinds.append(search.isLineItem ? .webOrderLineItemID : .transactionID) }
    }
    guard found.kinds.isEmpty, let serverAPI else { return found }
    try await ask(question, serverAPI, &found, logger)
    return found
  }

  private enum Question {
    case transaction(TransactionID)
    case order(String)

    /// - Returns: `nil` for any other text.
    init?(_ text: String) {
      guard (1...32).contains(text.utf8.count) else { return nil }
      guard !text.utf8.allSatisfy(\.isDigit) else {
        self = .transaction(TransactionID(text))
        return
      }
      // Apple's order IDs have some ten capitals and digits.
      let isPlain = text.utf8.allSatisfy { $0.isLetter || $0.isDigit }
      guard isPlain, (7...16).contains(text.utf8.count) else { return nil }
      self = .order(text.uppercased())
    }
  }

  /// Asks Apple. In trouble the ledger's answer stands, with the state of Apple beside it.
  private func ask(
    _ question: Question, _ serverAPI: ServerAPIClient, _ found: inout Found, _ logger: Logger
  ) async throws(ValidationError) {
    let deadline = ContinuousClock.now.advanced(by: deadline)
    let transactions: [VerifiedTransaction]
    do throws(AppStoreError) {
      switch question {
      case .transaction(let id):
        transactions = [try await serverAPI.transaction(id, bundleIDs: bundleIDs, deadline: deadline)]
      case .order(let id):
        transactions = try await serverAPI.order(id, bundleIDs: bundleIDs, deadline: deadline)
      }
      appStoreHealth.answered()
      found.appStore = .answered
    } catch {
      found.appStore = try Self.outcome(of: error)
      // Only production has orders, and it rejects an app without a release: this is no proof against the key.
      if case .order = question, error == .keyRejected {
        logger.warning(
          "Apple refuses our key for the look-up of an order: before the app's first release it always does")
      } else {
        appStoreHealth.failed(error)
        error.log(logger)
      }
      return
    }
    let known = transactions.compactMap { verified -> (key: SubscriptionKey, row: Purchase)? in
      // The client accepts no transaction without a store of Apple's.
      guard let environment = verified.environment else { return nil }
      let row = verified.payload.purchase
      return (SubscriptionKey(environment: environment, originalTransactionID: row.originalTransactionID), row)
    }
    try await add(known.map(\.key), to: &found)
    for purchase in known.prefix(Self.purchaseLimit) where !found.holds(purchase.key) {
      found.unowned.append(
        UnownedPurchase(
          key: purchase.key, productID: purchase.row.productID, accountToken: purchase.row.appAccountToken,
          source: .appStore))
    }
    guard let first = known.first else { return }
    switch question {
    case .order: found.kinds.append(.orderID)
    case .transaction(let id):
      let isOriginal = first.key.originalTransactionID.rawValue == id.rawValue
      found.kinds.append(isOriginal ? .originalTransactionID : .transactionID)
    }
  }

  private static func outcome(of error: AppStoreError) throws(ValidationError) -> AppStore {
    switch error {
    case .notFound, .wrongApp, .notAuthentic: .answered
    case .doubtful, .sharedSecretRejected, .keyRejected, .unavailable, .unexpected, .invalidAnswer, .overloaded:
      .unavailable
    case .cancelled: throw .cancelled
    }
  }

  /// Adds the purchases in the ledger, each once.
  private func add(_ keys: [SubscriptionKey], to found: inout Found) async throws(ValidationError) {
    for key in keys.prefix(Self.purchaseLimit) where !found.holds(key) {
      let id = key.originalTransactionID
      let owned = try await consult(await ledger.ownedPurchases(id))
      // It may be kept under the ID of a migration.
      if let purchase = owned.first(where: { $0.evidence.key.environment == key.environment }) {
        if !found.holds(purchase.evidence.key) { found.purchases.append(purchase) }
        continue
      }
      let unclaimed = try await consult(await ledger.unclaimedPurchases(id))
      guard let evidence = unclaimed.first(where: { $0.key.environment == key.environment }),
        !found.holds(evidence.key)
      else { continue }
      found.unowned.append(
        UnownedPurchase(
          key: evidence.key, productID: evidence.purchases.last?.productID, accountToken: evidence.accountToken,
          source: .notification))
    }
  }
}

extension SupportLookUp.Found {
  fileprivate func holds(_ key: SubscriptionKey) -> Bool {
    purchases.contains { $0.evidence.key == key } || unowned.contains { $0.key == key }
  }
}

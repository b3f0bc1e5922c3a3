import FoundationEssentials
import Synchronization

/// Why a receipt cannot be issued. The text is for the caller.
enum IssueError: Error, Hashable, CustomStringConvertible {
  case unknownScenario(String)
  case badSubscriber(Int64)
  case badBundleID, badAccountToken, badLateness, badAge
  case nothingBought(Scenario)
  case unknownTransaction(String)
  case signing(String)
  case offer(String)

  var description: String {
    switch self {
    case .unknownScenario(let name): "there is no scenario '\(name)'; `app-store-simulator scenarios` lists them"
    case .badSubscriber(let number):
      "the subscriber's number is \(number), and has to be between 0 and \(ReceiptSeed.subscriberLimit)"
    case .badBundleID: "a bundle ID is made of letters, digits, dots and hyphens"
    case .badAccountToken: "an app account token is a UUID"
    case .badLateness: "renewals are late by 0 seconds up to 7 days"
    case .badAge: "the age of a receipt is between 0 seconds and 10000 days"
    case .nothingBought(let scenario): "the scenario '\(scenario.rawValue)' has no transaction"
    case .unknownTransaction(let id): "no known customer has made the transaction \(id)"
    case .signing(let reason): "signing failed: \(reason)"
    case .offer(let reason): "the offer is refused: \(reason)"
    }
  }

  /// Signs something.
  ///
  /// - Throws: `signing` for any error.
  static func signed<Value>(_ sign: () throws -> Value) throws(IssueError) -> Value {
    do { return try sign() } catch { throw .signing("\(error)") }
  }
}

/// The options of a receipt to issue.
struct ReceiptOrder: Hashable, Sendable {
  var scenario: Scenario = .renewing
  var trouble: Trouble?
  var environment: StoreEnvironment = .production
  var subscriber: Int64 = 1
  var bundleID = Product.defaultBundleID
  var format: ReceiptFormat = .der
  /// The account UUID that the app gives its purchases.
  var appAccountToken: String?
  /// How late the store shows renewals, in milliseconds; nil for the scenario's own.
  var renewalsLateBy: Int64?
  /// The time between signature and issue, in milliseconds: later events are not in it.
  var age: Int64 = 0
  /// The promotional offer with which the newest transaction was bought.
  var offerID: String?
  /// Whether the app's server allowed the introductory offer for it.
  var hasIntroductoryOffer: Bool?

  /// Sets a scenario or a trouble by its name; a trouble affects a healthy subscription.
  mutating func setScenario(named name: String) throws(IssueError) {
    if let scenario = Scenario(rawValue: name) {
      self.scenario = scenario
      trouble = nil
    } else if let trouble = Trouble(rawValue: name) {
      scenario = .renewing
      self.trouble = trouble
    } else {
      throw .unknownScenario(name)
    }
  }
}

/// A receipt in the form that clients send, with its purchases.
struct IssuedReceipt: Hashable, Sendable {
  /// Base64 of the receipt.
  let receiptData: String
  /// In the order of purchase; empty when nothing was bought.
  let originalTransactionIDs: [String]
}

/// A signed transaction in the form that StoreKit 2 gives to the app, with its IDs.
struct IssuedTransaction: Hashable, Sendable {
  /// The JWS.
  let signedTransaction: String
  let transactionID: String
  let originalTransactionID: String
  /// As in Apple's mail to the customer; nil in the sandbox.
  let orderID: String?
}

/// Signs receipts and transactions, and recognises its own receipts.
final class ReceiptIssuer: Sendable {
  /// Every customer of an issued receipt or transaction.
  let customers: CustomerRegistry
  let signer: SignedDataSigner
  private let signed: SignedReceipt
  private let transaction: TransactionReceipt
  /// A cache of newest receipts by seed: each call asks for the same one, and signing costs an RSA operation.
  private let newest = Mutex<[ReceiptSeed: String]>([:])
  private static let newestLimit = 10_000

  init(pki: DevelopmentPKI, customers: CustomerRegistry = CustomerRegistry()) {
    self.customers = customers
    signer = pki.signedData
    signed = SignedReceipt(pki: pki)
    transaction = TransactionReceipt(pki: pki)
  }

  func issue(_ order: ReceiptOrder, at now: Timestamp) throws(IssueError) -> IssuedReceipt {
    let seed = try seed(of: order, at: now)
    if order.format == .ios6, seed.state(at: seed.createdAt).rows.isEmpty { throw .nothingBought(order.scenario) }
    let data = Data(try IssueError.signed { try encode(seed) }).base64EncodedString()
    customers.register(seed)
    return IssuedReceipt(receiptData: data, originalTransactionIDs: seed.originalTransactionIDs(at: seed.createdAt))
  }

  /// Begins a story, and signs its newest transaction. `format` has no effect.
  func issueTransaction(_ order: ReceiptOrder, at now: Timestamp) throws(IssueError) -> IssuedTransaction {
    let seed = try seed(of: order, at: now)
    guard let newest = seed.newestRow(at: seed.createdAt) else { throw .nothingBought(order.scenario) }
    let transaction = try sign(newest, of: seed, at: order.age == 0 ? now : seed.createdAt)
    customers.register(seed)
    return transaction
  }

  /// The result of `Transaction.latest(for:)` on a known customer's device: the newest transaction of one original
  /// transaction ID.
  func newestTransaction(ofOriginal id: String, at now: Timestamp) throws(IssueError) -> IssuedTransaction {
    guard let (customer, slot, _) = customers.transaction(id),
      let row = customer.seed.state(at: now).rows.last(where: { $0.slot == slot })
    else { throw .unknownTransaction(id) }
    return try sign(row, of: customer.seed, at: now)
  }

  /// The receipt on a known customer's device at a moment.
  func newestReceipt(
    ofOriginal id: String, format: ReceiptFormat, at now: Timestamp
  ) throws(IssueError) -> IssuedReceipt {
    guard var seed = customers.transaction(id)?.customer.seed else { throw .unknownTransaction(id) }
    seed.format = format
    let data = try IssueError.signed { try newest(of: seed, at: now) }
    return IssuedReceipt(receiptData: data, originalTransactionIDs: seed.originalTransactionIDs(at: now))
  }

  /// Signs the AppTransaction of a customer, with or without purchases.
  func issueAppTransaction(_ order: ReceiptOrder, at now: Timestamp) throws(IssueError) -> String {
    let seed = try seed(of: order, at: now)
    return try IssueError.signed { try signer.sign(SignedDataPayload(seed: seed, at: now).appTransaction) }
  }

  private func sign(
    _ row: CustomerState.Row, of seed: ReceiptSeed, at now: Timestamp
  ) throws(IssueError) -> IssuedTransaction {
    let payload = SignedDataPayload(seed: seed, at: now).transaction(row)
    return IssuedTransaction(
      signedTransaction: try IssueError.signed { try signer.sign(payload) },
      transactionID: seed.transactionID(slot: row.slot, number: row.number),
      originalTransactionID: seed.transactionID(slot: row.slot, number: 0),
      orderID: seed.orderID(slot: row.slot, number: row.number))
  }

  func seed(of order: ReceiptOrder, at now: Timestamp) throws(IssueError) -> ReceiptSeed {
    guard (0...ReceiptSeed.subscriberLimit).contains(order.subscriber) else { throw .badSubscriber(order.subscriber) }
    let isBundleID = order.bundleID.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || ".-".contains($0)) }
    guard isBundleID, !order.bundleID.isEmpty else { throw .badBundleID }
    var token: String?
    if let text = order.appAccountToken {
      guard let uuid = UUID(uuidString: text) else { throw .badAccountToken }
      token = uuid.uuidString.lowercased()
    }
    if let late = order.renewalsLateBy, !(0...7 * Timestamp.day).contains(late) { throw .badLateness }
    guard (0...10_000 * Timestamp.day).contains(order.age) else { throw .badAge }
    // Receipts have dates in whole seconds.
    let start = now.milliseconds / Timestamp.second * Timestamp.second
    let created = start - order.age / Timestamp.second * Timestamp.second
    return ReceiptSeed(
      scenario: order.scenario, trouble: order.trouble, environment: order.environment, subscriber: order.subscriber,
      bundleID: order.scenario.bundleID(order.bundleID), start: start, created: created, format: order.format,
      appAccountToken: token, renewalsLateBy: order.renewalsLateBy.map { $0 / Timestamp.second },
      offerID: order.offerID, hasIntroductoryOffer: order.hasIntroductoryOffer)
  }

  /// The receipt on the customer's device at a moment: signed again with the newest purchase.
  func newest(of seed: ReceiptSeed, at now: Timestamp) throws -> String {
    var renewed = seed
    let lastPurchase = seed.state(at: now).rows.map(\.shownAt.milliseconds).max() ?? seed.created
    renewed.created = max(seed.created, lastPurchase, seed.extensions?.last?.made ?? 0)
    if let known = newest.withLock({ $0[renewed] }) { return known }
    let receipt = Data(try encode(renewed)).base64EncodedString()
    newest.withLock { newest in
      if newest.count >= Self.newestLimit { newest.removeAll() }
      newest[renewed] = receipt
    }
    return receipt
  }

  /// Accepts only the standard base64 alphabet, as the store does.
  func read(base64 text: String) -> ReceiptReading {
    guard let data = Data(base64Encoded: text), let first = data.first else { return .notAReceipt }
    return first == UInt8(ascii: "{") ? transaction.read(Array(data)) : signed.read(Array(data))
  }

  private func encode(_ seed: ReceiptSeed) throws -> [UInt8] {
    seed.format == .ios6 ? try transaction.encode(seed) : try signed.encode(seed)
  }
}

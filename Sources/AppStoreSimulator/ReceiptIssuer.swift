import FoundationEssentials
import Synchronization

/// Why a receipt cannot be issued. The text goes to whoever asked for it.
enum IssueError: Error, Hashable, CustomStringConvertible {
  case unknownScenario(String)
  case badSubscriber(Int64)
  case badBundleID
  case nothingBought(Scenario)
  case signing(String)

  var description: String {
    switch self {
    case .unknownScenario(let name):
      "there is no scenario '\(name)'; `app-store-simulator scenarios` lists them"
    case .badSubscriber(let number):
      "the subscriber's number is \(number), and has to be between 0 and \(ReceiptSeed.subscriberLimit)"
    case .badBundleID: "a bundle ID is made of letters, digits, dots and hyphens"
    case .nothingBought(let scenario):
      "an iOS 6-style receipt is of one transaction, and in '\(scenario.rawValue)' nothing is bought"
    case .signing(let reason): "signing failed: \(reason)"
    }
  }
}

/// What somebody wants a receipt of.
struct ReceiptOrder: Hashable, Sendable {
  var scenario: Scenario = .renewing
  var trouble: Trouble?
  var environment: StoreEnvironment = .production
  var subscriber: Int64 = 1
  var bundleID = Product.defaultBundleID
  var format: ReceiptFormat = .der

  /// Takes a scenario's name or a trouble's; a trouble befalls a healthy subscription.
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

/// A receipt, as a client would send it, and what it is about.
struct IssuedReceipt: Hashable, Sendable {
  /// Base64 of the receipt.
  let receiptData: String
  /// In the order of purchase; empty when nothing was bought.
  let originalTransactionIDs: [String]
}

/// Signs receipts, and recognises them again.
final class ReceiptIssuer: Sendable {
  private let signed: SignedReceipt
  private let transaction: TransactionReceipt
  /// Newest receipts by seed: the same one is asked for with every call, and each costs an RSA signature.
  private let newest = Mutex<[ReceiptSeed: String]>([:])
  private static let newestLimit = 10_000

  init(pki: DevelopmentPKI) {
    signed = SignedReceipt(pki: pki)
    transaction = TransactionReceipt(pki: pki)
  }

  func issue(_ order: ReceiptOrder, at now: Timestamp) throws(IssueError) -> IssuedReceipt {
    guard (0...ReceiptSeed.subscriberLimit).contains(order.subscriber) else {
      throw .badSubscriber(order.subscriber)
    }
    let isBundleID = order.bundleID.utf8.allSatisfy { octet in
      switch UInt8(octet) {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    guard isBundleID, !order.bundleID.isEmpty else { throw .badBundleID }
    // Receipts are dated in whole seconds.
    let start = now.milliseconds / Timestamp.second * Timestamp.second
    let seed = ReceiptSeed(
      scenario: order.scenario, trouble: order.trouble, environment: order.environment, subscriber: order.subscriber,
      bundleID: order.scenario.bundleID(order.bundleID), start: start, created: start, format: order.format)
    if order.format == .ios6, seed.state(at: seed.createdAt).rows.isEmpty { throw .nothingBought(order.scenario) }
    do {
      return IssuedReceipt(
        receiptData: Data(try encode(seed)).base64EncodedString(),
        originalTransactionIDs: seed.originalTransactionIDs(at: seed.createdAt))
    } catch {
      throw .signing("\(error)")
    }
  }

  /// The receipt that the customer's device would have by now: signed again with the newest purchase.
  func newest(of seed: ReceiptSeed, at now: Timestamp) throws -> String {
    var renewed = seed
    let lastPurchase = seed.state(at: now).rows.map(\.purchasedAt.milliseconds).max() ?? seed.created
    renewed.created = max(seed.created, lastPurchase)
    if let known = newest.withLock({ $0[renewed] }) { return known }
    let receipt = Data(try encode(renewed)).base64EncodedString()
    newest.withLock { newest in
      if newest.count >= Self.newestLimit { newest.removeAll() }
      newest[renewed] = receipt
    }
    return receipt
  }

  /// Reads the standard base64 alphabet and nothing else, as the store does.
  func read(base64 text: String) -> ReceiptReading {
    guard let data = Data(base64Encoded: text), let first = data.first else { return .notAReceipt }
    return first == UInt8(ascii: "{") ? transaction.read(Array(data)) : signed.read(Array(data))
  }

  private func encode(_ seed: ReceiptSeed) throws -> [UInt8] {
    seed.format == .ios6 ? try transaction.encode(seed) : try signed.encode(seed)
  }
}

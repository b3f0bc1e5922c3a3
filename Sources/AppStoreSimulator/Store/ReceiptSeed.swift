import FoundationEssentials

/// All data that a simulator needs to answer for a receipt; it is embedded in the receipt.
///
/// Attribute 4 contains it, which is opaque in the store's receipts too. A newly started simulator can therefore answer
/// for a receipt that another one signed, and a sample receipt needs no stored state.
struct ReceiptSeed: Codable, Hashable, Sendable {
  var scenario: Scenario
  var trouble: Trouble?
  var environment: StoreEnvironment
  /// The receipt's owner. The same number has the same transaction IDs in every scenario.
  var subscriber: Int64
  var bundleID: String
  /// When the receipt was first issued: the origin of the scenario's timeline.
  var start: Int64
  /// When this copy was signed; later than `start` in the newest receipt of an answer.
  var created: Int64
  var format: ReceiptFormat
  /// The account UUID that the app gave its purchases, in lower case.
  var appAccountToken: String?
  /// The account UUIDs that the developer gave purchases afterwards, by slot.
  var accountTokens: [Int: String]?
  /// Seconds between a period's end and the moment at which its renewal is shown; nil for the scenario's own.
  var renewalsLateBy: Int64?
  /// The promotional offer with which the newest transaction at the start was bought.
  var offerID: String?
  /// Whether the app's server allowed the introductory offer for that transaction; nil where it said nothing.
  var hasIntroductoryOffer: Bool?
  /// In the order in which they were made; nil before the first.
  var extensions: [RenewalExtension]?

  /// The highest subscriber number for which every ID has the length of Apple's.
  static let subscriberLimit: Int64 = 999_999_999

  /// The account UUID of a purchase.
  func accountToken(ofSlot slot: Int) -> String? { accountTokens?[slot] ?? appAccountToken }

  var startedAt: Timestamp { Timestamp(milliseconds: start) }
  var createdAt: Timestamp { Timestamp(milliseconds: created) }

  /// The trouble that affects calls of a service about this customer.
  func trouble(of service: Trouble.Service) -> Trouble? { trouble.flatMap { $0.befalls(service) ? $0 : nil } }

  var timeline: Timeline {
    var timeline = scenario.timeline(start: startedAt, environment: environment, renewalsLateBy: renewalsLateBy)
    timeline.extensions = extensions ?? []
    return timeline
  }

  /// The story alone: the same for each copy of a receipt.
  var story: ReceiptSeed {
    var story = self
    (story.created, story.format, story.extensions) = (start, .der, nil)
    return story
  }

  func state(at now: Timestamp) -> CustomerState { timeline.state(at: now) }

  /// The latest purchase; of simultaneous ones, the one of the last slot.
  func newestRow(at now: Timestamp) -> CustomerState.Row? {
    state(at: now).rows.enumerated().max { ($0.element.purchasedAt, $0.offset) < ($1.element.purchasedAt, $1.offset) }?
      .element
  }

  /// The original transaction IDs of all purchases at a moment, in the order of purchase.
  func originalTransactionIDs(at now: Timestamp) -> [String] {
    var ids: [String] = []
    for row in state(at: now).rows {
      let id = transactionID(slot: row.slot, number: 0)
      if !ids.contains(id) { ids.append(id) }
    }
    return ids
  }

  /// 15 digits in production, 16 beginning with 2000 in the sandbox.
  func transactionID(slot: Int, number: Int) -> String {
    String(Self.firstTransactionID(environment) + subscriber * 10_000 + Int64(slot) * 1_000 + Int64(number))
  }

  /// The parts of a transaction ID; nil for a text that `transactionID` never returns.
  static func parts(
    ofTransactionID id: String
  ) -> (environment: StoreEnvironment, subscriber: Int64, slot: Int, number: Int)? {
    guard let value = Int64(id), String(value) == id else { return nil }
    for environment in StoreEnvironment.allCases {
      let rest = value - firstTransactionID(environment)
      guard rest >= 0, rest / 10_000 <= subscriberLimit else { continue }
      return (environment, rest / 10_000, Int(rest % 10_000 / 1_000), Int(rest % 1_000))
    }
    return nil
  }

  /// The order ID in Apple's mail about a purchase: ten letters and digits. The sandbox has no orders.
  func orderID(slot: Int, number: Int) -> String? {
    guard environment == .production else { return nil }
    let digits = String(subscriber * 10_000 + Int64(slot) * 1_000 + Int64(number), radix: 36, uppercase: true)
    return "M" + String(repeating: "0", count: max(0, Self.orderDigits - digits.count)) + digits
  }

  /// The transaction ID of an order; nil for a text that `orderID` never returns.
  static func transactionID(ofOrder id: String) -> String? {
    guard id.first == "M", id.count == orderDigits + 1, id.uppercased() == id, id.allSatisfy(\.isASCII),
      let value = Int64(id.dropFirst(), radix: 36), (0...subscriberLimit).contains(value / 10_000)
    else { return nil }
    return String(firstTransactionID(.production) + value)
  }

  /// Digits in base 36, enough for the highest subscriber number.
  private static let orderDigits = 9

  private static func firstTransactionID(_ environment: StoreEnvironment) -> Int64 {
    environment == .production ? 480_000_000_000_000 : 2_000_000_000_000_000
  }

  func webOrderLineItemID(slot: Int, number: Int) -> Int64 {
    let base: Int64 = environment == .production ? 490_000_000_000_000 : 2_010_000_000_000_000
    return base + subscriber * 10_000 + Int64(slot) * 1_000 + Int64(number)
  }

  /// The ID of the customer's app download, part of all transactions.
  var appTransactionID: String { String(700_000_000_000_000_000 + subscriber) }

  /// 18 digits and odd: beyond 2^53, so a reader that converts it to a `Double` changes it.
  var downloadID: Int64 { environment == .production ? 500_000_000_000_000_001 + subscriber * 2 : 0 }

  /// When the app was bought; a constant in the sandbox.
  var originalPurchaseDate: Timestamp {
    environment == .production ? startedAt.adding(days: -400) : Timestamp(milliseconds: 1_375_340_400_000)
  }

  var originalApplicationVersion: String { environment == .production ? "7" : "1.0" }

  static let applicationVersion = "42"
}

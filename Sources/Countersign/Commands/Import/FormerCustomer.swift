import Entitlements
import FoundationEssentials

/// A customer of another service, who becomes a line of JSON that `ImportedLine` reads.
struct FormerCustomer {
  private let name: String
  private let saysTiers: Bool
  /// The moment at which the other service said so, if it is known.
  private let moment: Date?
  private var purchases: [Purchase] = []
  /// The latest end of each tier; `.distantFuture` without one.
  private var ends: [String: (end: Date, isGiven: Bool)] = [:]

  init(name: String, saysTiers: Bool, at moment: Date? = nil) {
    self.name = name
    self.saysTiers = saysTiers
    self.moment = moment
  }

  /// Whether an ID is one that RevenueCat's SDK made up before the user signed in.
  static func isMadeUp(_ id: String) -> Bool { UserID(valid: id)?.isAnonymous == true }

  mutating func add(store: String, transaction: String?) {
    let purchase = Purchase(store: store, storeTransactionID: transaction)
    guard transaction != nil || store != "app_store", !purchases.contains(purchase) else { return }
    purchases.append(purchase)
  }

  mutating func add(tier: String, until end: Date?, isGiven: Bool) {
    let end = end ?? .distantFuture
    if let former = ends[tier], former.end >= end { return }
    ends[tier] = (end, isGiven)
  }

  /// One line, without its end.
  func line() throws -> String {
    let given = ImportedLine.promotional
    let entitlements = ends.mapValues { end, isGiven in
      Entitlement(
        expiresDate: end == .distantFuture ? nil : end.rfc3339, productIdentifier: isGiven ? given : "purchase")
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    encoder.keyEncodingStrategy = .convertToSnakeCase
    let line = Line(
      requestDate: moment?.rfc3339,
      subscriber: Subscriber(
        originalAppUserID: name, entitlements: saysTiers ? entitlements : nil,
        subscriptions: ends.values.contains(where: \.isGiven) ? [given: Purchase(store: given)] : [:],
        nonSubscriptions: ["purchase": purchases.filter { $0.store != given }]))
    return String(decoding: try encoder.encode(line), as: UTF8.self)
  }

  private struct Line: Encodable {
    var requestDate: String?
    var subscriber: Subscriber
  }

  private struct Subscriber: Encodable {
    var originalAppUserID: String
    var entitlements: [String: Entitlement]?
    var subscriptions: [String: Purchase]
    var nonSubscriptions: [String: [Purchase]]
  }

  private struct Purchase: Encodable, Hashable {
    var store: String
    var storeTransactionID: String?
  }

  private struct Entitlement: Encodable {
    var expiresDate: String?
    var productIdentifier: String
  }
}

import Entitlements
import FoundationEssentials
import JSON
import Ledger
import Validation

/// The offline report on an event of RevenueCat's: what it is, and what it would mean here.
///
/// Nothing in a body proves who sent it: RevenueCat's header or signature does, which are not part of it.
struct RevenueCatInspection: Encodable {
  let kind = "revenuecat_event"
  let authentic = false
  let problem: String
  var type: String?
  var id: String?
  var at: String?
  var store: String?
  var environment: String?
  var userID: String?
  var originalTransactionID: String?
  var productID: String?
  var meaning: String?

  static let unproven =
    "An event of RevenueCat's carries no proof of its sender: the header of the request does, Authorization or "
    + "X-RevenueCat-Webhook-Signature."

  /// - Returns: `nil` for anything but JSON with an `event`.
  init?(of contents: [UInt8], now: Date) {
    let isEvent = try? JSONReader.readForgivingly(contents) { root throws(JSONError) in
      root["event"]?.isObject == true
    }
    guard isEvent == true else { return nil }
    do throws(RevenueCatEvent.Unreadable) {
      let event = try RevenueCatEvent.decode(contents, now: now)
      problem = Self.unproven
      type = event.type
      id = event.id
      at = event.at.rfc3339
      store = event.store?.rawValue
      environment = event.environment?.rawValue
      meaning = event.meaning
      switch event.content {
      case .purchase(let key, let change), .hint(let key, let change): show(change, of: key)
      case .temporary(_, _, let change, let key): show(change, of: key)
      case .transfer(_, let to): userID = to.rawValue
      case .nothing: break
      }
    } catch { problem = error.sentence }
  }

  private mutating func show(_ change: StoreEvent, of key: SubscriptionKey?) {
    // The ledger's IDs of purchases at other stores begin with the store.
    originalTransactionID = key.map { key in
      let id = key.originalTransactionID.rawValue
      return key.isOfAnotherStore ? String(id.drop { $0 != ":" }.dropFirst()) : id
    }
    userID = change.user == .nobody ? nil : change.user.rawValue
    productID = change.product?.rawValue
  }

  /// Whether it can be read.
  var isReadable: Bool { type != nil }

  func json() -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    encoder.keyEncodingStrategy = .convertToSnakeCase
    // Strings and booleans only: nothing here can fail to be encoded.
    return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
  }

  func text() -> String {
    let facts = [
      ("kind", kind), ("type", type), ("id", id), ("at", at), ("store", store), ("environment", environment),
      ("user id", userID), ("purchase", originalTransactionID), ("product", productID), ("meaning", meaning),
    ]
    let head = isReadable ? "NOT PROVEN: \(problem)" : "NOT AN EVENT: \(problem)"
    return
      ([head]
      + facts.compactMap { name, value in
        value.map { "\(name)\(String(repeating: " ", count: 16 - name.count))\($0)" }
      }).joined(separator: "\n")
  }
}

extension RevenueCatEvent {
  /// A sentence about the effect that the event would have.
  fileprivate var meaning: String {
    switch content {
    case .nothing: return "It is kept and changes nothing."
    case .temporary:
      return
        "RevenueCat could not reach the store: the user gets the product's tier, or the last one there, for a while."
    case .transfer(let from, let to):
      let losers = from.map(\.rawValue).joined(separator: ", ")
      return "Everything of \(losers) becomes \(to)'s, where policy.ownership allows."
    case .purchase(_, let event), .hint(_, let event):
      let isOpen = event.expiresAt == nil && event.change == .period
      let end = event.expiresAt.map { "until \($0.rfc3339)" } ?? (isOpen ? "for the catalog's period" : "for life")
      let sentence =
        switch event.change {
        case .period, .single: "It is paid \(end)."
        case .extended: "It now runs \(end)."
        case .renewalOff: "Renewal is off; it runs \(end)."
        case .renewalOn: "Renewal is on again."
        case .refunded: "It was refunded: access ends at once."
        case .refundReversed: "Its refund was taken back: it counts again."
        case .billingIssue, .billingError:
          event.graceUntil.map { "A payment failed; access runs until \($0.rfc3339)." }
            ?? "A payment failed; policy.billing_retry_access says how long access runs."
        case .expired: "It is over."
        case .productChange: "Another product follows at the next renewal; nothing changes before."
        case .temporary: "RevenueCat gives access \(end)."
        case .paused: "It pauses at the end of the paid period; nothing changes before."
        }
      return store?.isApples == true ? "\(sentence) Apple is asked, and has the last word." : sentence
    }
  }
}

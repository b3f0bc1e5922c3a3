package import Entitlements
import JSON
package import Ledger

package import struct FoundationEssentials.Date

/// An event of RevenueCat's, as its webhook sends it: `{"api_version":"1.0","event":{…}}`. Nothing is proven by it; who
/// sent it is.
///
/// Unknown types and members are kept and mean nothing. A member of the wrong form makes the event unreadable only where
/// it decides: the ID, the type and the time; the store, the environment and the transaction of a purchase; the product,
/// the beginning and the end of a period; the reason of a cancellation; the users of a transfer. Any other is as good as
/// absent: a customer chooses some of them, and would choose which events count.
///
/// https://www.revenuecat.com/docs/integrations/webhooks/event-types-and-fields
package struct RevenueCatEvent: Hashable, Sendable {
  /// The reason why a body is no event; a constant text.
  package struct Unreadable: Error, Hashable {
    package let sentence: String

    init(_ sentence: String) { self.sentence = sentence }
  }

  package var id: String
  package var type: String
  package var store: RevenueCatReport.Store?
  package var environment: StoreEnvironment?
  package var at: Date
  package var content: RevenueCatReport.Content
  /// Every user whom it names.
  package var users: [UserID] = []

  /// The most bytes of an ID.
  static let longestID = 200

  /// Reads a body.
  ///
  /// - Parameter now: an event of more than a day later counts as of then: no event after it could be ordered behind it.
  package static func decode(_ body: [UInt8], now: Date) throws(Unreadable) -> RevenueCatEvent {
    let read: Result<RevenueCatEvent, Unreadable>
    do throws(JSONError) {
      read = try JSONReader.readForgivingly(body) { root throws(JSONError) in
        guard let event = root["event"], event.isObject else {
          return .failure(Unreadable("It has no event."))
        }
        do throws(Unreadable) { return .success(try RevenueCatEvent(event, now: now)) } catch {
          return .failure(error)
        }
      }
    } catch {
      switch error {
      case .syntax: throw Unreadable("It is not a JSON object.")
      case .tooLarge: throw Unreadable("It is larger than an event can be.")
      case .missing, .unreadable: throw Unreadable("A member of it is missing or cannot be read.")
      }
    }
    return try read.get()
  }

  private init(_ event: JSONValue, now: Date) throws(Unreadable) {
    let members = Members(event: event)
    guard let id = try members.word("id"), let type = try members.word("type") else {
      throw Unreadable("Its id or its type is missing.")
    }
    guard let at = try members.date("event_timestamp_ms") else {
      throw Unreadable("Its event_timestamp_ms is missing.")
    }
    self.id = id
    self.type = type
    // A day, as our clock may lag: within it the events keep their order.
    self.at = at <= now.advanced(by: .seconds(86_400)) ? at : now.inWholeMilliseconds
    store = try? members.store()
    environment = try? members.environment()
    content = .nothing
    content = try content(members)
    users = members.everybody
  }

  private func content(_ members: Members) throws(Unreadable) -> RevenueCatReport.Content {
    switch type {
    case "TRANSFER":
      let from = try members.users("transferred_from")
      let to = try members.users("transferred_to")
      guard let user = to.first(where: { !$0.isAnonymous }) ?? to.first, !from.isEmpty else { return .nothing }
      return .transfer(from: from, to: user)
    case "TEMPORARY_ENTITLEMENT_GRANT":
      let (store, environment) = try (members.store(), members.environment() ?? .production)
      guard let store, let user = members.user else { return .nothing }
      let event = try purchase(members, .temporary, of: user)
      let original = try members.word("original_transaction_id") ?? event.transaction?.rawValue
      return .temporary(environment, store, event, original.flatMap { Self.key($0, at: store, environment) })
    default: break
    }
    guard let change = try change(members) else { return .nothing }
    guard let store = try members.store(), let environment = try members.environment() else {
      throw Unreadable("Its store or its environment is missing.")
    }
    let event = try purchase(members, change, of: members.user ?? .nobody)
    guard let original = try members.word("original_transaction_id") ?? event.transaction?.rawValue else {
      throw Unreadable("Its original_transaction_id is missing.")
    }
    guard let key = Self.key(original, at: store, environment) else {
      throw Unreadable("Its original_transaction_id is none of Apple's.")
    }
    return store.isApples ? .hint(key, event) : .purchase(key, event)
  }

  /// - Returns: `nil` for a purchase at Apple's whose ID is none of Apple's, which are digits.
  private static func key(
    _ id: String, at store: RevenueCatReport.Store, _ environment: StoreEnvironment
  ) -> SubscriptionKey? {
    guard store.isApples else { return store.key(environment, id) }
    guard id.utf8.allSatisfy(\.isDigit) else { return nil }
    return SubscriptionKey(environment: environment, originalTransactionID: OriginalTransactionID(id))
  }

  /// The purchase that the members tell of.
  private func purchase(
    _ members: Members, _ change: StoreEvent.Change, of user: UserID
  ) throws(Unreadable) -> StoreEvent {
    var event = StoreEvent(id: id, at: at, change: change, user: user)
    event.transaction = try members.word("transaction_id").map { TransactionID($0) }
    let givesAccess = [.period, .single, .extended, .temporary].contains(change)
    func told<Value>(
      _ key: StaticString, _ read: (StaticString) throws(Unreadable) -> Value?
    ) throws(Unreadable) -> Value? {
      do throws(Unreadable) { return try read(key) } catch {
        if givesAccess { throw error }
        return nil
      }
    }
    event.product = try told("product_id", members.word).map { ProductID($0) }
    event.purchasedAt = try told("purchased_at_ms", members.date)
    event.expiresAt = try told("expiration_at_ms", members.date)
    if change == .period || change == .single, event.product == nil || event.purchasedAt == nil {
      throw Unreadable("Its product_id or its purchased_at_ms is missing.")
    }
    event.entitlements = members.words("entitlement_ids")
    event.graceUntil = try? members.date("grace_period_expiration_at_ms")
    if change == .expired { event.expirationIntent = Self.intent(try? members.word("expiration_reason")) }
    event.nextProduct = (try? members.word("new_product_id")).map { ProductID($0) }
    switch try? members.word("period_type") {
    case "TRIAL": (event.isTrial, event.isIntroductoryOffer) = (true, false)
    case "INTRO": (event.isTrial, event.isIntroductoryOffer) = (false, true)
    case "PREPAID": (event.isTrial, event.isIntroductoryOffer, event.isPrepaid) = (false, false, true)
    case nil: break
    default: (event.isTrial, event.isIntroductoryOffer) = (false, false)
    }
    event.isFamilyShared = members.flag("is_family_share")
    event.price = members.thousandths("price_in_purchased_currency")
    event.currency = try? members.word("currency")
    event.country = try? members.word("country_code")
    return event
  }

  /// The change of a purchase that a type stands for; `nil`: no change.
  private func change(_ members: Members) throws(Unreadable) -> StoreEvent.Change? {
    switch type {
    case "INITIAL_PURCHASE", "RENEWAL": return .period
    case "NON_RENEWING_PURCHASE": return .single
    case "SUBSCRIPTION_EXTENDED": return .extended
    case "UNCANCELLATION": return .renewalOn
    case "BILLING_ISSUE": return .billingIssue
    case "EXPIRATION": return (try? members.word("expiration_reason")) == "CUSTOMER_SUPPORT" ? .refunded : .expired
    case "PRODUCT_CHANGE": return .productChange
    case "SUBSCRIPTION_PAUSED": return .paused
    case "REFUND_REVERSED": return .refundReversed
    case "CANCELLATION":
      if let price = members.thousandths("price"), price < 0 { return .refunded }
      switch try members.word("cancel_reason") {
      case "CUSTOMER_SUPPORT": return .refunded
      case "BILLING_ERROR": return .billingError
      case "SUBSCRIPTION_PAUSED": return .paused
      default: return .renewalOff
      }
    default: return nil
    }
  }

  /// As Apple numbers the reasons.
  private static func intent(_ reason: String?) -> Int {
    switch reason {
    case "UNSUBSCRIBE": 1
    case "BILLING_ERROR": 2
    case "PRICE_INCREASE": 3
    default: 5
    }
  }
}

private struct Members {
  typealias Unreadable = RevenueCatEvent.Unreadable

  let event: JSONValue

  private func unreadable(_ key: StaticString) -> Unreadable { Unreadable("Its \(key) cannot be read.") }

  /// Text as it is; `nil` if it is absent, `null` or empty.
  func text(_ key: StaticString) throws(Unreadable) -> String? {
    switch event.kind("\(key)") {
    case nil, .null: return nil
    case .string(let text) where text.utf8.count <= RevenueCatEvent.longestID: return text.isEmpty ? nil : text
    case .integer(let number): return String(number)
    default: throw unreadable(key)
    }
  }

  /// Text of visible ASCII characters.
  func word(_ key: StaticString) throws(Unreadable) -> String? {
    guard let text = try text(key) else { return nil }
    guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { throw unreadable(key) }
    return text
  }

  func store() throws(Unreadable) -> RevenueCatReport.Store? {
    guard let name = try word("store") else { return nil }
    guard name.wholeMatch(of: /[A-Za-z0-9_]{1,32}/) != nil else { throw Unreadable("Its store is no word.") }
    let store = RevenueCatReport.Store(name.lowercased())
    return store.isApples ? "app_store" : store
  }

  func environment() throws(Unreadable) -> StoreEnvironment? {
    switch try word("environment") {
    case nil: nil
    case "PRODUCTION": .production
    case "SANDBOX": .sandbox
    default: throw Unreadable("Its environment is neither PRODUCTION nor SANDBOX.")
    }
  }

  /// The texts of a list, of the first 50 elements; `nil` for what is no list.
  private func texts(_ key: StaticString) -> [String]? {
    guard let list = event["\(key)"], list.isArray else { return nil }
    return list.elements.prefix(50).compactMap(\.string)
  }

  func words(_ key: StaticString) -> [String]? {
    texts(key)?.filter { $0.utf8.count <= RevenueCatEvent.longestID }
  }

  /// A moment in milliseconds since 1970, until the year 9999.
  func date(_ key: StaticString) throws(Unreadable) -> Date? {
    let milliseconds: Int64
    switch event.kind("\(key)") {
    case nil, .null: return nil
    case .integer(let number): milliseconds = number
    case .real(let number):
      guard let whole = Int64(exactly: number.rounded()) else { throw unreadable(key) }
      milliseconds = whole
    default: throw unreadable(key)
    }
    guard (0..<253_402_300_800_000).contains(milliseconds) else { throw unreadable(key) }
    return Date(millisecondsSince1970: milliseconds)
  }

  func flag(_ key: StaticString) -> Bool? {
    if case .bool(let flag) = event.kind("\(key)") { flag } else { nil }
  }

  func thousandths(_ key: StaticString) -> Int64? {
    switch event.kind("\(key)") {
    case .integer(let number) where number.magnitude < 1_000_000_000_000: number * 1_000
    case .real(let number) where abs(number) < 1_000_000_000_000: Int64((number * 1_000).rounded())
    default: nil
    }
  }

  /// The first that is not anonymous of `app_user_id`, `original_app_user_id` and `aliases`; else the first.
  var user: UserID? {
    let candidates = [user("app_user_id"), user("original_app_user_id")].compactMap(\.self) + named("aliases")
    return candidates.first { !$0.isAnonymous } ?? candidates.first
  }

  /// Every user whom the event names, in whichever member, as far as they can be read.
  var everybody: [UserID] {
    [user("app_user_id"), user("original_app_user_id")].compactMap(\.self)
      + ["aliases", "transferred_from", "transferred_to"].flatMap(named)
  }

  func users(_ key: StaticString) throws(Unreadable) -> [UserID] {
    guard event["\(key)"]?.isArray ?? true else { throw unreadable(key) }
    return named(key)
  }

  private func user(_ key: StaticString) -> UserID? {
    switch event.kind("\(key)") {
    case .string(let text): UserID(appUserID: text)
    case .integer(let number): UserID(appUserID: String(number))
    default: nil
    }
  }

  private func named(_ key: StaticString) -> [UserID] { (texts(key) ?? []).compactMap { UserID(appUserID: $0) } }
}

import CountersignServer
import Entitlements
import FoundationEssentials

/// The customers of a CSV, each gathered from its rows: the lines of JSON that `ImportedLine` reads.
///
/// Columns are found by their names, in any order, as RevenueCat's exports and hand-made ones have them:
///
///     user_id,original_transaction_id,tier
///     u1,2000000123456789,pro
///
/// A row may have several user IDs. The first that is not an anonymous ID of RevenueCat's SDK counts, else the first.
struct CustomersCSV {
  struct Unreadable: Error, Hashable {
    var sentence: String
  }

  /// Bytes of the largest file.
  static let largest = 1 << 30

  /// The names of each column, the best first.
  private enum Names {
    static let user = [
      "app_user_id", "user_id", "rc_last_seen_app_user_id_alias", "rc_original_app_user_id", "original_app_user_id",
    ]
    static let transaction = [
      "original_transaction_id", "original_store_transaction_id", "store_transaction_id", "transaction_id",
    ]
    static let tiers = ["tier", "entitlement_identifiers", "latest_entitlement"]
    static let end = ["expires_at", "effective_end_time", "end_time", "latest_expiration_at"]
    static let store = ["store", "latest_store"]
    static let refund = ["refunded_at"]
  }

  /// One line of JSON for each customer, in the order of their first rows.
  let text: String

  init(_ bytes: [UInt8]) throws(Unreadable) {
    var reader = CSVReader(bytes)
    let header = (try Self.row(&reader) ?? []).map { $0.trimmed.lowercased() }
    func column(_ names: [String]) -> Int? { names.lazy.compactMap { header.firstIndex(of: $0) }.first }
    let users = Names.user.compactMap { header.firstIndex(of: $0) }
    guard !users.isEmpty else {
      throw Unreadable(sentence: "its first line names no column of user IDs, such as user_id or app_user_id")
    }
    let (transaction, tiers) = (column(Names.transaction), column(Names.tiers))
    guard transaction != nil || tiers != nil else {
      throw Unreadable(
        sentence: "its first line names neither a column of transactions, such as original_transaction_id, nor one of "
          + "tiers, such as tier or entitlement_identifiers")
    }
    let (end, store, refund) = (column(Names.end), column(Names.store), column(Names.refund))

    var customers: [FormerCustomer] = []
    var places: [String: Int] = [:]
    while let fields = try Self.row(&reader) {
      func field(_ column: Int?) -> String? {
        guard let column, fields.indices.contains(column) else { return nil }
        let text = fields[column].trimmed
        return text.isEmpty || text.lowercased() == "null" ? nil : text
      }
      // A line without any text ends many files.
      guard fields.contains(where: { !$0.isEmpty }) else { continue }
      guard fields.count == header.count else {
        throw Unreadable(
          sentence: "row \(reader.row) has \(fields.count) fields, and the first line \(header.count)")
      }
      // A quote that is not closed may have swallowed rows up to the next one.
      guard
        !(users + [transaction, tiers].compactMap(\.self)).contains(where: {
          fields[$0].utf8.contains(UInt8(ascii: "\n"))
        })
      else {
        throw Unreadable(sentence: "row \(reader.row) has a line end in an ID or a tier: a quote (\") is not closed")
      }
      let ids = users.compactMap { field($0) }
      guard let name = ids.first(where: { !FormerCustomer.isMadeUp($0) }) ?? ids.first else {
        throw Unreadable(sentence: "row \(reader.row) has no user ID")
      }
      let place = places[name] ?? customers.count
      if place == customers.count {
        places[name] = place
        customers.append(FormerCustomer(name: name, saysTiers: tiers != nil))
      }
      let shop: String
      if let text = field(store) {
        guard let known = Self.store(text) else {
          throw Unreadable(
            sentence: "row \(reader.row): \(Quotation.of(text)) is no store that is known; Apple's is app_store")
        }
        shop = known
      } else {
        shop = "app_store"
      }
      customers[place].add(store: shop, transaction: field(transaction))
      guard field(refund) == nil, let words = field(tiers) else { continue }
      var expiry: Date?
      if let text = field(end) {
        guard let date = Self.date(text) else {
          throw Unreadable(sentence: "row \(reader.row): \(Quotation.of(text)) is no date with a time in UTC")
        }
        expiry = date
      }
      for tier in Self.words(words) {
        customers[place].add(tier: tier, until: expiry, isGiven: shop == ImportedLine.promotional)
      }
    }
    guard !customers.isEmpty else { throw Unreadable(sentence: "it has no customers") }
    do { text = try customers.map { try $0.line() + "\n" }.joined() } catch {
      throw Unreadable(sentence: "a customer of it cannot be written as JSON")
    }
  }

  private static func row(_ reader: inout CSVReader) throws(Unreadable) -> [String]? {
    do throws(CSVReader.OpenQuotation) { return try reader.next() } catch {
      throw Unreadable(sentence: "row \(error.row) has a quote (\") that is not closed")
    }
  }

  /// RevenueCat's word for a store; `nil` where nobody knows it.
  private static func store(_ text: String) -> String? {
    switch text.lowercased().replacing(" ", with: "_") {
    case "app_store", "appstore", "apple", "apple_app_store", "ios", "itunes": "app_store"
    case "play_store", "google", "google_play", "android": "play_store"
    case let word
    where [
      "mac_app_store", "amazon", "stripe", "rc_billing", "paddle", "roku", "galaxy", "external", "test_store",
      "unknown_store", "unknown", ImportedLine.promotional,
    ].contains(word):
      word
    default: nil
    }
  }

  /// `pro`, `pro, gold` or `["pro", "gold"]`.
  private static func words(_ text: String) -> [String] {
    if text.hasPrefix("["), let words = try? JSONDecoder().decode([String].self, from: Data(text.utf8)) { return words }
    return text.split(separator: ",").map { String($0).trimmed }.filter { !$0.isEmpty }
  }

  /// `2026-01-15T12:00:00Z`, also with a space, without the zone, with fractions.
  private static func date(_ text: String) -> Date? {
    let zoned = text.replacing(" UTC", with: "Z").replacing(" ", with: "T")
    return ImportedLine.date(zoned) ?? ImportedLine.date(zoned + "Z")
  }
}

package import Entitlements
package import struct FoundationEssentials.Date

/// A value of the domain, as the ledger stores it: identifiers and words as text, dates as milliseconds since 1970.
package protocol StoredWord: SQLValue, RawRepresentable<String> {}

extension StoredWord {
  package func bind(to statement: any SQLStatement, at index: Int) throws { try statement.bind(rawValue, at: index) }
  package init(_ statement: any SQLStatement, _ column: Int) throws {
    guard let value = Self(rawValue: try statement.text(column)) else { throw StoredForm.Unstorable() }
    self = value
  }
}

extension UserID: StoredWord {}
extension Tier: StoredWord {}
extension ProductID: StoredWord {}
extension BundleID: StoredWord {}
extension OriginalTransactionID: StoredWord {}
extension StoreEnvironment: StoredWord {}
extension EvidenceSource: StoredWord {}
extension SubscriptionStatus: StoredWord {}
extension GivenPeriod.Kind: StoredWord {}
extension Tally.Name: StoredWord {}

extension Date: SQLValue {
  package func bind(to statement: any SQLStatement, at index: Int) throws {
    try statement.bind(try StoredForm.milliseconds(self), at: index)
  }
  package init(_ statement: any SQLStatement, _ column: Int) throws {
    self = StoredForm.date(try statement.integer(column))
  }
}

extension ReceiptDigest: SQLValue {
  func bind(to statement: any SQLStatement, at index: Int) throws { try statement.bind(bytes, at: index) }
  init(_ statement: any SQLStatement, _ column: Int) throws { self.init(bytes: try statement.blob(column)) }
}

extension SQLRow {
  /// The subscription key in two adjacent columns: environment and original transaction ID.
  func key(_ column: Int) throws -> SubscriptionKey {
    SubscriptionKey(environment: try get(column), originalTransactionID: try get(column + 1))
  }
}

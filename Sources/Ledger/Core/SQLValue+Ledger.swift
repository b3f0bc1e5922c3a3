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

/// Two adjacent columns: environment and original transaction ID.
extension SubscriptionKey: SQLValue {
  package static var width: Int { 2 }

  package func bind(to statement: any SQLStatement, at index: Int) throws {
    try environment.bind(to: statement, at: index)
    try originalTransactionID.bind(to: statement, at: index + 1)
  }

  package init(_ statement: any SQLStatement, _ column: Int) throws {
    self.init(
      environment: try StoreEnvironment(statement, column),
      originalTransactionID: try OriginalTransactionID(statement, column + 1))
  }
}

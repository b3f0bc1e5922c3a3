import CPostgreSQL

/// A refusal of PostgreSQL's.
struct PostgreSQLError: Error, Hashable, CustomStringConvertible {
  /// Five characters; `08006` also when the connection itself broke.
  var sqlState: String
  var message: String
  var detail: String?
  var hint: String?

  var description: String { "\(sqlState) \(message)" + (hint.map { " (hint: \($0))" } ?? "") }
}

extension PostgreSQLError {
  static let insufficientPrivilege = "42501"
}

/// The error of PostgreSQL's or libpq's for a call that failed.
struct PostgreSQLError: Error, Hashable {
  /// The five characters of "PostgreSQL Error Codes" (appendix A of its manual); `08006` where there was no answer.
  var state: String
  /// PostgreSQL's text. It may name values: it is for the operator who opens a ledger, and for no log.
  var message: String

  static let lost = "08006"
  static let outOfMemory = "53200"
  static let failedTransaction = "25P02"

  /// Whether the same transaction may succeed when it is run again: a serialization failure, a deadlock, a row that
  /// somebody else added first, a lock that came too late, or a statement whose tables a migration has changed.
  var isConflict: Bool { ["40001", "40P01", "23505", "55P03", "0A000"].contains(state) }

  /// Whether the connection is of no use any more: it broke, or its server stops or is a standby now.
  var endsConnection: Bool {
    state.hasPrefix("08") || state.hasPrefix("57P") || ["0A000", "25006", "XX000"].contains(state)
  }
}

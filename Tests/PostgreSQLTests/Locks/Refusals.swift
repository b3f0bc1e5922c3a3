import Testing

/// Whether PostgreSQL lets a statement pass.
enum Outcome: Hashable, Sendable, CustomStringConvertible {
  case passed
  case refused(sqlState: String, hint: String?)

  /// For the lack of a grant, or by a policy that says nothing.
  static let denied = Outcome.refused(sqlState: PostgreSQLError.insufficientPrivilege, hint: nil)
  /// By the trigger on the subscription columns.
  static let readOnly = Outcome.refused(
    sqlState: PostgreSQLError.insufficientPrivilege, hint: "subscription_is_read_only")
  /// By a limit of the free tier.
  static let upgradeRequired = Outcome.refused(
    sqlState: PostgreSQLError.insufficientPrivilege, hint: "upgrade_required")

  var description: String {
    switch self {
    case .passed: "passed"
    case .refused(let state, let hint): "refused with \(state) \(hint ?? "")"
    }
  }
}

extension Connection {
  /// One statement in a transaction of its own, as this caller.
  func attempt(_ sql: String, as caller: Caller) throws -> Outcome {
    do {
      try self.as(caller) { connection in _ = try connection.query(sql) }
      return .passed
    } catch let error as PostgreSQLError {
      return .refused(sqlState: error.sqlState, hint: error.hint)
    }
  }

  /// The rows of one statement in a transaction of its own, as this caller.
  func query(_ sql: String, as caller: Caller) throws -> [[String?]] {
    try self.as(caller) { connection in try connection.query(sql) }
  }

  /// How many rows the statement touched.
  func execute(_ sql: String, as caller: Caller) throws -> Int {
    try self.as(caller) { connection in try connection.execute(sql) }
  }

  /// As the service writes it.
  func setTier(_ tier: String, of user: String, status: String = "active", expires: String? = "1 year") throws {
    try self.as(.service) { connection in
      let count = try connection.execute(
        """
        update public.profiles set subscription_tier = $2, subscription_status = $3,
          subscription_expires_at = now() + $4::interval where id = $1
        """, [user, tier, status, expires])
      try #require(count == 1)
    }
  }
}

/// The advisory locks of a ledger in PostgreSQL, each for one thing, with numbers from "CSGN" on.
package enum AdvisoryLock: Int64 {
  /// Held by the session that migrates the database.
  case migration = 0x4353_474E
  /// The order of events for others.
  case events
  /// The counts of which one replica at a time does each.
  case purchases
  case exposures
  case limits
  /// Retention.
  case history
}

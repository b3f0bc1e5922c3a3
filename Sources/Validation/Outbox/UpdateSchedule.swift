import Resilience

/// The schedule of failed updates: for ever, with full jitter below a ceiling that doubles.
///
///     failures   1     2     3     4      5      6      7 …
///     ceiling    2 s   4 s   8 s   16 s   32 s   64 s   2 min
enum UpdateSchedule {
  static let backoff = Backoff(base: .seconds(2), cap: .seconds(120))
  /// The pause after a refusal: another update or a repair of the table may change it.
  static let refusal: Duration = .seconds(30)
  /// The pause after a refusal that only a person can fix.
  static let misconfiguration: Duration = .seconds(30)

  /// The time after which a write without an answer is carried out, or never will be: no gateway and no lock waits
  /// longer.
  static let confirmation: Duration = .seconds(60)

  /// The tolerance for versions ahead of our clock: clocks differ by less.
  static let clockTolerance: Duration = .seconds(3600)

  /// The pauses before a row that is missing, or newer than the ledger, is tried again: a minute, doubling, a day at
  /// most.
  static let look = Backoff(base: .seconds(60), cap: .seconds(86_400))
}

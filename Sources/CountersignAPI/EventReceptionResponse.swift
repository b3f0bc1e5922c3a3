/// The answer to an event of RevenueCat's: its outcome.
public struct EventReceptionResponse: Codable, Hashable, Sendable {
  /// `recorded`, `recorded_for_owner`, `hint`, `noted` or `duplicate`.
  public var outcome: String
  /// RevenueCat's ID of the event.
  public var id: String

  public init(outcome: String, id: String) {
    self.outcome = outcome
    self.id = id
  }
}

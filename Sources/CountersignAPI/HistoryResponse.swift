/// The answer to `GET /v1/profiles/{user_id}/history`: the present verdict, the purchases and the events of a user.
public struct HistoryResponse: Codable, Hashable, Sendable {
  public var userID: String
  /// The verdict as of the answer.
  public var now: ExplainedEntitlement
  /// Purchases; the period that ends last comes first.
  public var periods: [PurchasePeriod]
  /// Events, newest first.
  public var entries: [HistoryEvent]
  /// The path of the next page; `nil` on the last.
  @Nullable public var next: String?

  public init(
    userID: String, now: ExplainedEntitlement, periods: [PurchasePeriod], entries: [HistoryEvent], next: String? = nil
  ) {
    self.userID = userID
    self.now = now
    self.periods = periods
    self.entries = entries
    self.next = next
  }

  enum CodingKeys: String, CodingKey {
    case userID = "user_id"
    case now, periods, entries, next
  }
}

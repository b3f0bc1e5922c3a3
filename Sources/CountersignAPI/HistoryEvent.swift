/// An event of a user's history. On the wire `kind` selects the members beside those that every event has.
public struct HistoryEvent: Codable, Hashable, Sendable {
  /// The event, with the members of its kind.
  public enum Detail: Hashable, Sendable {
    /// A verdict, and whether it differs from the one before it.
    case verdict(ExplainedEntitlement, isChanged: Bool)
    case ownerChange(OwnerChange, explanation: String)
    /// A re-validation that somebody asked for.
    case revalidation(explanation: String)
    /// Lines that retention removed. The first was recorded at `firstAt`, the last at `recordedAt`.
    case removed(lines: Int, firstAt: Date, explanation: String)
    /// An event of a kind that is newer than this client.
    case other(kind: String, explanation: String)
  }

  /// A change of a purchase's owner; `fromUserID` is `nil` for the first owner.
  public struct OwnerChange: Codable, Hashable, Sendable {
    public var environment: EntitlementState.Environment
    public var originalTransactionID: String
    @Nullable public var fromUserID: String?
    public var toUserID: String

    public init(
      environment: EntitlementState.Environment, originalTransactionID: String, fromUserID: String? = nil,
      toUserID: String
    ) {
      self.environment = environment
      self.originalTransactionID = originalTransactionID
      self.fromUserID = fromUserID
      self.toUserID = toUserID
    }

    enum CodingKeys: String, CodingKey {
      case environment
      case originalTransactionID = "original_transaction_id"
      case fromUserID = "from_user_id"
      case toUserID = "to_user_id"
    }
  }

  public var recordedAt: Date
  public var requestID: String
  /// The name of the key of the request that caused it.
  @Nullable public var askedBy: String?
  /// The reason that the person gave.
  @Nullable public var note: String?
  public var detail: Detail

  public init(recordedAt: Date, requestID: String, askedBy: String? = nil, note: String? = nil, detail: Detail) {
    self.recordedAt = recordedAt
    self.requestID = requestID
    self.askedBy = askedBy
    self.note = note
    self.detail = detail
  }

  enum CodingKeys: String, CodingKey {
    case kind
    case recordedAt = "recorded_at"
    case requestID = "request_id"
    case askedBy = "asked_by"
    case note, explanation, changed, lines
    case firstAt = "first_at"
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    recordedAt = try container.decode(Date.self, forKey: .recordedAt)
    requestID = try container.decode(String.self, forKey: .requestID)
    _askedBy = try container.decode(Nullable<String>.self, forKey: .askedBy)
    _note = try container.decode(Nullable<String>.self, forKey: .note)
    let explanation = try container.decode(String.self, forKey: .explanation)
    let kind = try container.decode(String.self, forKey: .kind)
    detail =
      switch kind {
      case "verdict":
        .verdict(try ExplainedEntitlement(from: decoder), isChanged: try container.decode(Bool.self, forKey: .changed))
      case "ownership_change": .ownerChange(try OwnerChange(from: decoder), explanation: explanation)
      case "revalidation": .revalidation(explanation: explanation)
      case "removed":
        .removed(
          lines: try container.decode(Int.self, forKey: .lines),
          firstAt: try container.decode(Date.self, forKey: .firstAt), explanation: explanation)
      default: .other(kind: kind, explanation: explanation)
      }
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(recordedAt, forKey: .recordedAt)
    try container.encode(requestID, forKey: .requestID)
    try container.encode(_askedBy, forKey: .askedBy)
    try container.encode(_note, forKey: .note)
    func encode(_ kind: String, _ explanation: String) throws {
      try container.encode(kind, forKey: .kind)
      try container.encode(explanation, forKey: .explanation)
    }
    switch detail {
    case .verdict(let verdict, let isChanged):
      try encode("verdict", verdict.explanation)
      try container.encode(isChanged, forKey: .changed)
      try verdict.encode(to: encoder)
    case .ownerChange(let change, let explanation):
      try encode("ownership_change", explanation)
      try change.encode(to: encoder)
    case .revalidation(let explanation): try encode("revalidation", explanation)
    case .removed(let lines, let firstAt, let explanation):
      try encode("removed", explanation)
      try container.encode(lines, forKey: .lines)
      try container.encode(firstAt, forKey: .firstAt)
    case .other(let kind, let explanation): try encode(kind, explanation)
    }
  }
}

/// The answer to a validation, `POST /v1/validations`, or to a profile read, `GET /v1/profiles/{user_id}`.
///
///     let answer = try JSONDecoder.countersign.decode(EntitlementResponse.self, from: body)
///     if answer.tier != "free" { unlock() }
///
/// No member is ever omitted: an unknown value is `null`.
@dynamicMemberLookup
public struct EntitlementResponse: Codable, Hashable, Sendable {
  public var userID: String
  /// The verdict; on the wire its members stand beside the others.
  public var entitlement: EntitlementState
  /// The state of the profile row.
  public var profileWrite: ProfileWrite
  /// Whether the receipt or Apple's answer has the transaction that the request named; `nil` if it named none. Do not
  /// finish a transaction that was not found.
  public var isTransactionFound: Bool?

  public init(
    userID: String, entitlement: EntitlementState, profileWrite: ProfileWrite, isTransactionFound: Bool? = nil
  ) {
    self.userID = userID
    self.entitlement = entitlement
    self.profileWrite = profileWrite
    self.isTransactionFound = isTransactionFound
  }

  public subscript<Value>(dynamicMember member: KeyPath<EntitlementState, Value>) -> Value {
    entitlement[keyPath: member]
  }

  enum CodingKeys: String, CodingKey {
    case userID = "user_id"
    case profileWrite = "profile_write"
    case isTransactionFound = "transaction_found"
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    userID = try container.decode(String.self, forKey: .userID)
    profileWrite = try container.decode(ProfileWrite.self, forKey: .profileWrite)
    isTransactionFound = try container.decodeIfPresent(Bool.self, forKey: .isTransactionFound)
    entitlement = try EntitlementState(from: decoder)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(userID, forKey: .userID)
    try container.encode(profileWrite, forKey: .profileWrite)
    try container.encode(isTransactionFound, forKey: .isTransactionFound)
    try entitlement.encode(to: encoder)
  }
}

extension EntitlementResponse {
  /// The state of the row from which the app reads the tier.
  public struct ProfileWrite: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A reader of the row sees the verdict now.
    public static let committed: Self = "committed"
    /// The verdict is recorded, and the row will follow.
    public static let queued: Self = "queued"
    /// The store has no such row; the service looks for it again.
    public static let missing: Self = "missing"
    /// No profile store, or nothing to write.
    public static let none: Self = "none"
  }
}

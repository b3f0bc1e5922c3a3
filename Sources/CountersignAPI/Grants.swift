/// The body of `POST /v1/profiles/{user_id}/grants`: a tier, with one of `endsAt` and `length`.
public struct GrantRequest: Codable, Hashable, Sendable {
  /// A tier of the catalog above the lowest.
  public var tier: String
  /// The first moment that is no longer part of the grant (RFC 3339, with a zone).
  public var endsAt: String?
  /// The length from now on, as a duration: `30d`, `24h`.
  public var length: String?
  /// `support` (the default), `promotion`, `tester` or `migration`.
  public var kind: String?
  /// Why, for readers of the history; at most 1,000 characters. Support has to say it.
  public var note: String?

  public init(tier: String, endsAt: String? = nil, length: String? = nil, kind: String? = nil, note: String? = nil) {
    self.tier = tier
    self.endsAt = endsAt
    self.length = length
    self.kind = kind
    self.note = note
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case tier
    case endsAt = "ends_at"
    case length = "for"
    case kind, note
  }
}

/// The body of `DELETE /v1/profiles/{user_id}/grants/{id}`.
public struct GrantEndRequest: Codable, Hashable, Sendable {
  /// Why, for readers of the history; at most 1,000 characters. Support has to say it.
  public var note: String?

  public init(note: String? = nil) { self.note = note }
}

/// A period of access that was granted, not bought.
public struct GrantResponse: Codable, Hashable, Sendable {
  public var id: String
  public var userID: String
  /// Why it was given: `support`, `promotion`, `tester`, `migration`, or `trial` for one of the app's own.
  public var kind: String
  public var tier: String
  public var startsAt: Date
  /// The first moment that is no longer part of it; where it was ended early, that moment.
  public var endsAt: Date
  /// Whether it was ended before its time.
  public var isEndedEarly: Bool
  /// The name of the key that granted it.
  public var author: String
  @Nullable public var note: String?

  public init(
    id: String, userID: String, kind: String, tier: String, startsAt: Date, endsAt: Date, isEndedEarly: Bool,
    author: String, note: String? = nil
  ) {
    self.id = id
    self.userID = userID
    self.kind = kind
    self.tier = tier
    self.startsAt = startsAt
    self.endsAt = endsAt
    self.isEndedEarly = isEndedEarly
    self.author = author
    self.note = note
  }

  enum CodingKeys: String, CodingKey {
    case id
    case userID = "user_id"
    case kind, tier
    case startsAt = "starts_at"
    case endsAt = "ends_at"
    case isEndedEarly = "ended_early"
    case author, note
  }
}

/// The answer of `GET /v1/profiles/{user_id}/grants`, the newest first.
public struct GrantsResponse: Codable, Hashable, Sendable {
  public var grants: [GrantResponse]

  public init(grants: [GrantResponse]) { self.grants = grants }
}

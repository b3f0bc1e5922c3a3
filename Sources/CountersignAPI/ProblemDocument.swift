/// An error as `application/problem+json` (RFC 9457): decide by `code` and `isRetryable`, and show nobody `detail` but
/// developers.
///
/// A 4xx never stands for a fault of Apple's or of the service. An app finishes the StoreKit transaction after a 200 or a
/// 202 only.
public struct ProblemDocument: Codable, Hashable, Sendable {
  public var type: String
  public var title: String
  /// The status of the answer.
  public var status: Int
  /// A sentence for people.
  public var detail: String
  /// A stable code, for instance `wrong_app`.
  public var code: String
  /// Whether the same request may succeed later.
  public var isRetryable: Bool
  /// The request's ID in the service's log.
  public var requestID: String
  /// Apple's status, where there was one: https://developer.apple.com/documentation/appstorereceipts/status
  public var appleStatus: Int?
  /// The feature whose limit is reached, with `limit_reached`. On the wire its members stand beside the others.
  public var feature: FeatureResponse?

  public init(
    type: String, title: String, status: Int, detail: String, code: String, isRetryable: Bool, requestID: String,
    appleStatus: Int? = nil, feature: FeatureResponse? = nil
  ) {
    self.type = type
    self.title = title
    self.status = status
    self.detail = detail
    self.code = code
    self.isRetryable = isRetryable
    self.requestID = requestID
    self.appleStatus = appleStatus
    self.feature = feature
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    type = try container.decode(String.self, forKey: .type)
    title = try container.decode(String.self, forKey: .title)
    status = try container.decode(Int.self, forKey: .status)
    detail = try container.decode(String.self, forKey: .detail)
    code = try container.decode(String.self, forKey: .code)
    isRetryable = try container.decode(Bool.self, forKey: .isRetryable)
    requestID = try container.decode(String.self, forKey: .requestID)
    appleStatus = try container.decodeIfPresent(Int.self, forKey: .appleStatus)
    feature = code == "limit_reached" ? try FeatureResponse(from: decoder) : nil
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(type, forKey: .type)
    try container.encode(title, forKey: .title)
    try container.encode(status, forKey: .status)
    try container.encode(detail, forKey: .detail)
    try container.encode(code, forKey: .code)
    try container.encode(isRetryable, forKey: .isRetryable)
    try container.encode(requestID, forKey: .requestID)
    try container.encodeIfPresent(appleStatus, forKey: .appleStatus)
    try feature?.encode(to: encoder)
  }

  enum CodingKeys: String, CodingKey {
    case type, title, status, detail, code
    case isRetryable = "retryable"
    case requestID = "request_id"
    case appleStatus = "apple_status"
  }
}

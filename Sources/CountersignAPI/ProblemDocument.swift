/// An error as `application/problem+json` (RFC 9457): decide by `code` and `isRetryable`, and show nobody `detail` but
/// developers.
///
/// A 4xx never stands for a fault of Apple's or of the service: after one, an app may finish the StoreKit transaction.
public struct ProblemDocument: Codable, Hashable, Sendable {
  public var type: String
  public var title: String
  /// The status of the answer.
  public var status: Int
  /// A sentence for people.
  public var detail: String
  /// A stable word, for instance `wrong_app`.
  public var code: String
  /// Whether the same request may succeed later.
  public var isRetryable: Bool
  /// The request's name in the service's log.
  public var requestID: String
  /// Apple's status, where there was one: https://developer.apple.com/documentation/appstorereceipts/status
  public var appleStatus: Int?

  public init(
    type: String, title: String, status: Int, detail: String, code: String, isRetryable: Bool, requestID: String,
    appleStatus: Int? = nil
  ) {
    self.type = type
    self.title = title
    self.status = status
    self.detail = detail
    self.code = code
    self.isRetryable = isRetryable
    self.requestID = requestID
    self.appleStatus = appleStatus
  }

  enum CodingKeys: String, CodingKey {
    case type, title, status, detail, code
    case isRetryable = "retryable"
    case requestID = "request_id"
    case appleStatus = "apple_status"
  }
}

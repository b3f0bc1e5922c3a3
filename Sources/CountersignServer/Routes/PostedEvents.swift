import CountersignAPI
import FoundationEssentials

/// The body of `POST /v1/events`.
struct PostedEvents: Decodable {
  var events: [PostedEvent]
}

/// An event that an app or its server reports.
struct PostedEvent: Decodable {
  /// `paywall_viewed`: without a dot, as names with one are the service's own.
  var type: String
  /// The user, where a server reports. A user's token names the user by itself.
  var userID: String?
  /// The moment by the reporter's clock; `nil`: now.
  var at: String?
  var properties: [String: PlansResponse.JSONMember]?
  /// The reporter's word for the event, so that a request may be sent again.
  var id: String?

  enum CodingKeys: String, CodingKey {
    case type, at, properties, id
    case userID = "user_id"
  }

  /// The properties as they are kept: one JSON object, its names in order.
  /// - Returns: `nil` for a number that JSON cannot carry.
  var propertiesText: String? {
    guard let properties else { return "{}" }
    return (try? JSONEncoder.countersign.encode(properties)).map { String(decoding: $0, as: UTF8.self) }
  }
}

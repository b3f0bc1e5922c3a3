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
  var properties: [String: PostedJSON]?
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

/// Any JSON value (RFC 8259). Whole numbers keep their digits up to 64 bits.
enum PostedJSON: Codable, Hashable {
  case null
  case bool(Bool)
  case integer(Int64)
  case number(Double)
  case text(String)
  case list([PostedJSON])
  case object([String: PostedJSON])

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .integer(value)
    } else if let value = try? container.decode(Double.self) {
      self = .number(value)
    } else if let value = try? container.decode(String.self) {
      self = .text(value)
    } else if let value = try? container.decode([PostedJSON].self) {
      self = .list(value)
    } else {
      self = .object(try container.decode([String: PostedJSON].self))
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .text(let value): try container.encode(value)
    case .list(let values): try container.encode(values)
    case .object(let values): try container.encode(values)
    }
  }
}

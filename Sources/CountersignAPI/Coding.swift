#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

/// A value of an open set: one that is newer than this client is kept as sent.
public protocol OpenValue: RawRepresentable, ExpressibleByStringLiteral, Codable, Hashable, Sendable
where RawValue == String {
  init(rawValue: String)
}

extension OpenValue {
  public init(stringLiteral value: String) { self.init(rawValue: value) }
}

/// A member that is encoded as `null` without a value; a plain optional would be omitted.
@propertyWrapper
public struct Nullable<Value: Codable & Hashable & Sendable>: Codable, Hashable, Sendable {
  public var wrappedValue: Value?

  public init(wrappedValue: Value?) { self.wrappedValue = wrappedValue }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    wrappedValue = container.decodeNil() ? nil : try container.decode(Value.self)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    if let wrappedValue { try container.encode(wrappedValue) } else { try container.encodeNil() }
  }
}

extension KeyedDecodingContainer {
  /// Decodes a missing member as `nil`: an older service may not have it. Synthesized initializers call this.
  func decode<Value>(_ type: Nullable<Value>.Type, forKey key: Key) throws -> Nullable<Value> {
    Nullable(wrappedValue: try decodeIfPresent(Value.self, forKey: key))
  }
}

extension JSONEncoder {
  /// The encoder of the service: dates in RFC 3339 and UTC, slashes not escaped, members sorted by name.
  ///
  /// Equal values give equal bytes, from which entity tags are computed.
  public static var countersign: JSONEncoder {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
    encoder.dateEncodingStrategy = .custom { date, encoder in
      var container = encoder.singleValueContainer()
      try container.encode(date.wireText)
    }
    return encoder
  }
}

extension JSONDecoder {
  /// The decoder for the service's answers. An unreadable date is an error, never `nil`.
  public static var countersign: JSONDecoder {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .custom { decoder in
      let container = try decoder.singleValueContainer()
      guard let date = Date(wireText: try container.decode(String.self)) else {
        throw DecodingError.dataCorruptedError(in: container, debugDescription: "The date is not in RFC 3339.")
      }
      return date
    }
    return decoder
  }
}

extension Date {
  /// `2026-01-15T12:00:00Z`, with milliseconds only where there are some; from 1583 to 9999.
  fileprivate var wireText: String {
    let milliseconds = min(max((timeIntervalSince1970 * 1000).rounded(), -12_212_553_600_000), 253_402_300_799_999)
    let seconds = (milliseconds / 1000).rounded(.down)
    let fraction = Int(milliseconds - seconds * 1000)
    let text = Date(timeIntervalSince1970: seconds).formatted(.iso8601)
    return fraction == 0 ? text : "\(text.dropLast()).\(String(fraction + 1000).dropFirst())Z"
  }

  fileprivate init?(wireText text: String) {
    let formats = [Date.ISO8601FormatStyle(), Date.ISO8601FormatStyle(includingFractionalSeconds: true)]
    guard let date = formats.lazy.compactMap({ try? $0.parse(text) }).first else { return nil }
    self = date
  }
}

import FoundationEssentials
import Hummingbird
import NIOCore
import NIOFoundationEssentialsCompat

/// JSON as the service writes it: snake_case keys, dates in RFC 3339 and UTC, slashes as they are.
enum JSONBody {
  static func encode(_ value: some Encodable) -> ByteBuffer {
    let encoder = JSONEncoder()
    // Sorted, so that the same value is always the same bytes: an entity tag is made of them.
    encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
    encoder.dateEncodingStrategy = .custom { date, encoder in
      var container = encoder.singleValueContainer()
      try container.encode(date.rfc3339)
    }
    // Our own values hold nothing that JSON cannot carry; should one ever, an empty body is the least harm.
    guard let data = try? encoder.encode(value) else { return ByteBuffer() }
    return ByteBuffer(data: data)
  }

  static func response(_ value: some Encodable, status: HTTPResponse.Status = .ok) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json"], body: ResponseBody(byteBuffer: encode(value)))
  }
}

extension Date {
  /// `2026-01-15T12:00:00Z`, with milliseconds only where there are some.
  var rfc3339: String {
    let milliseconds = Int64((timeIntervalSince1970 * 1000).rounded())
    let whole = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
    return whole.formatted(
      Date.ISO8601FormatStyle(includingFractionalSeconds: milliseconds % 1000 != 0, timeZone: .gmt))
  }
}

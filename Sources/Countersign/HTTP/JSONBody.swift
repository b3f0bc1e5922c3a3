import Entitlements
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
    // The fraction is written here: the format style cuts what a Double cannot hold, and .001 would come out as .000.
    let (seconds, fraction) = millisecondsSince1970.flooringDivision(by: 1000)
    let text = Date(timeIntervalSince1970: Double(seconds)).formatted(Date.ISO8601FormatStyle(timeZone: .gmt))
    guard fraction != 0 else { return text }
    let digits = String(fraction)
    return text.dropLast() + "." + String(repeating: "0", count: 3 - digits.count) + digits + "Z"
  }
}

extension Int64 {
  /// Rounds towards minus infinity; the remainder is never negative.
  fileprivate func flooringDivision(by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
    let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }
}

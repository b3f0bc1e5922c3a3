import Entitlements
package import FoundationEssentials
import Hummingbird
import JSON
package import NIOCore
import NIOFoundationEssentialsCompat

/// A value that writes its members itself, in the order of their names.
protocol JSONWritten: Encodable {
  func writeMembers(to json: inout JSONObjectWriter)
}

extension JSONObjectWriter {
  package mutating func member(_ name: String, _ date: Date?) { member(name, date?.rfc3339) }
}

/// JSON as the service writes it: snake_case keys, dates in RFC 3339 and UTC, slashes as they are, and a newline at the
/// end, so that a terminal continues on a new line.
package enum JSONBody {
  private static let lineEnd = UInt8(ascii: "\n")

  package static func encode(_ value: some Encodable) -> ByteBuffer {
    guard let written = value as? any JSONWritten else { return encodeByMembers(value) }
    var json = JSONObjectWriter()
    written.writeMembers(to: &json)
    var bytes = json.finished()
    bytes.append(lineEnd)
    return ByteBuffer(bytes: bytes)
  }

  /// Encodes through `Encodable`, which costs a hundred times as much.
  static func encodeByMembers(_ value: some Encodable) -> ByteBuffer {
    let encoder = JSONEncoder()
    // Sorted, so that the same value is always the same bytes: an entity tag is made of them.
    encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
    encoder.dateEncodingStrategy = .custom { date, encoder in
      var container = encoder.singleValueContainer()
      try container.encode(date.rfc3339)
    }
    // Our values contain nothing that JSON cannot carry; if one ever does, an empty body does the least harm.
    guard var data = try? encoder.encode(value) else { return ByteBuffer() }
    data.append(lineEnd)
    return ByteBuffer(data: data)
  }

  static func response(_ value: some Encodable, status: HTTPResponse.Status = .ok) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json"], body: ResponseBody(byteBuffer: encode(value)))
  }
}

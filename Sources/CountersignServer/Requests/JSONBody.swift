import CountersignAPI
import Entitlements
package import FoundationEssentials
import Hummingbird
import JSON
package import NIOCore
import NIOFoundationEssentialsCompat

/// JSON as the service writes it: dates in RFC 3339 and UTC, slashes as they are, and a newline at the
/// end, so that a terminal continues on a new line.
package enum JSONBody {
  private static let lineEnd = UInt8(ascii: "\n")

  /// - Parameter keys: `.convertToSnakeCase` for a type that does not name its keys itself.
  package static func encode(
    _ value: some Encodable, keys: JSONEncoder.KeyEncodingStrategy = .useDefaultKeys
  ) -> ByteBuffer {
    let encoder = JSONEncoder.countersign
    encoder.keyEncodingStrategy = keys
    // Foundation counts the days before 1582 in the Julian calendar; RFC 3339 does not.
    encoder.dateEncodingStrategy = .custom { date, encoder in
      var container = encoder.singleValueContainer()
      try container.encode(date.rfc3339)
    }
    // Our values contain nothing that JSON cannot carry; if one ever does, an empty body does the least harm.
    guard var data = try? encoder.encode(value) else { return ByteBuffer() }
    data.append(lineEnd)
    return ByteBuffer(data: data)
  }

  /// The same bytes without the encoder.
  static func write(_ members: (inout JSONWriter) -> Void) -> ByteBuffer {
    var bytes = JSONWriter.object(members)
    bytes.append(lineEnd)
    return ByteBuffer(bytes: bytes)
  }

  static func response(_ value: some Encodable, status: HTTPResponse.Status = .ok) -> Response {
    response(encode(value), status)
  }

  static func response(_ entitlement: EntitlementResponse, status: HTTPResponse.Status = .ok) -> Response {
    response(write(entitlement.writeMembers), status)
  }

  /// An answer that no cache may keep.
  static func uncached(
    _ value: some Encodable, keys: JSONEncoder.KeyEncodingStrategy = .useDefaultKeys,
    status: HTTPResponse.Status = .ok
  ) -> Response {
    uncached(encode(value, keys: keys), status)
  }

  static func uncached(_ feature: FeatureResponse) -> Response { uncached(write(feature.writeMembers), .ok) }

  private static func uncached(_ bytes: ByteBuffer, _ status: HTTPResponse.Status) -> Response {
    var response = response(bytes, status)
    response.headers[.cacheControl] = "no-store"
    return response
  }

  private static func response(_ bytes: ByteBuffer, _ status: HTTPResponse.Status) -> Response {
    Response(status: status, headers: [.contentType: "application/json"], body: .bytes(bytes))
  }
}

import FoundationEssentials
import HTTPTypes
import Hummingbird
import JSON
import NIOCore
import NIOFoundationEssentialsCompat
import Resilience

/// Reads a JSON body within its bounds: its own size, and the bytes that all bodies may take together.
struct JSONRequestBody: Sendable {
  private let bytes: RequestBytes
  private let requiresMediaType: Bool
  private let requiresPlainNames: Bool

  /// - Parameters:
  ///   - requiresMediaType: whether the body has to call itself JSON. Clients of Apple's own endpoints do not.
  ///   - requiresPlainNames: whether names of members have to be plain and given once. Some clients escape a `/` in a name.
  init(limit: Int, requiresMediaType: Bool = true, requiresPlainNames: Bool = true) {
    bytes = RequestBytes(limit: limit)
    self.requiresMediaType = requiresMediaType
    self.requiresPlainNames = requiresPlainNames
  }

  /// - Throws: a problem: 415 for another media type, 400 for broken JSON or another shape, and those of `RequestBytes`.
  func decode<Value: Decodable>(
    _ type: Value.Type, from request: Request, _ loan: ByteBudget.Loan
  ) async throws -> RequestBytes.Read<Value> {
    if requiresMediaType { try requireJSON(request.headers) }
    let read = try await bytes.collect(request, loan)
    return try await LongWork.run(bytes: read.value.readableBytes) { try parse(type, read) }
  }

  /// The same for a body that may be left out: `nil` without one.
  func decodeIfPresent<Value: Decodable>(
    _ type: Value.Type, from request: Request, _ loan: ByteBudget.Loan
  ) async throws -> RequestBytes.Read<Value>? {
    request.headers.isBodiless ? nil : try await decode(type, from: request, loan)
  }

  private func parse<Value: Decodable>(
    _ type: Value.Type, _ read: RequestBytes.Read<ByteBuffer>
  ) throws -> RequestBytes.Read<Value> {
    let data = Data(buffer: read.value)
    guard !data.isEmpty else { throw Problem(.malformedRequest, "The body is empty; send a JSON object.") }
    guard data.withUnsafeBytes(\.isUTF8Text) else {
      throw Problem(.malformedRequest, "The body is not valid UTF-8.")
    }
    do {
      let value = try JSONDecoder().decode(type, from: data)
      if requiresPlainNames { try Self.requireUnambiguous(data) }
      return RequestBytes.Read(value: value, loan: read.loan)
    } catch let error as DecodingError { throw Problem(.malformedRequest, Self.sentence(error)) }
  }

  private func requireJSON(_ headers: HTTPFields) throws(Problem) {
    let field = headers[.contentType]
    if field == "application/json" { return }
    let mediaType = field?.prefix { $0 != ";" }.lowercased().filter { $0 != " " && $0 != "\t" }
    guard mediaType == "application/json" else {
      throw Problem(.unsupportedMediaType, "Send the body with 'Content-Type: application/json'.")
    }
  }

  /// Two members of one name could be read differently by a proxy in front of the service, and so could a name
  /// that is written with escapes (RFC 8259, section 4). The JSON itself was found sound before, by a decoder that is more
  /// lenient than others.
  private static func requireUnambiguous(_ json: Data) throws(Problem) {
    switch json.withUnsafeBytes(JSONAmbiguity.first) {
    case nil: break
    case .mark, .trailingComma: throw Problem(.malformedRequest, "The body is not valid JSON.")
    case .escaped: throw Problem(.malformedRequest, "Write the names of members without escapes.")
    case .repeated(let name):
      throw Problem(.malformedRequest, "'\(String(decoding: name.prefix(64), as: UTF8.self))' is given twice.")
    }
  }

  private static func sentence(_ error: DecodingError) -> String {
    switch error {
    case .typeMismatch(_, let context) where context.codingPath.isEmpty,
      .valueNotFound(_, let context) where context.codingPath.isEmpty:
      "The body has to be a JSON object."
    case .typeMismatch(_, let context), .valueNotFound(_, let context):
      "'\(text(context.codingPath))' has another type than it should."
    case .keyNotFound(let key, _): "'\(key.stringValue)' is missing."
    case .dataCorrupted(let context) where !context.codingPath.isEmpty:
      "'\(text(context.codingPath))' has another value than it should."
    default:
      // Foundation says the same of a number with a fraction in place of an integer, and not where it is.
      "The body is not valid JSON, or a number in it is not whole."
    }
  }

  private static func text(_ path: [any CodingKey]) -> String {
    String(decoding: path.map(\.stringValue).joined(separator: ".").utf8.prefix(64), as: UTF8.self)
  }
}

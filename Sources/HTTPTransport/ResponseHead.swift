/// Collects a response's header block from the lines that libcurl delivers, for any HTTP version.
///
/// Each line is complete and ends with CRLF; a blank one ends a block. There may be several blocks: interim responses
/// (1xx, RFC 9110, section 15.2), the final one, and trailers after the body. Only the final one is kept. libcurl 7.88
/// reports success for a response that ends within its header, so completion is tracked here.
struct ResponseHead {
  private(set) var headers: [TransportHeader] = []
  /// The blank line after the final response's headers was received.
  private(set) var isComplete = false
  /// The one length announced for the body, if any.
  private(set) var contentLength: Int?

  private let limit: Int
  private var size = 0
  private var isInterim = false
  private var hasStatusLine = false

  init(limit: Int) { self.limit = limit }

  /// Adds one line.
  ///
  /// - Throws: `.tooLarge` over the limit; `.protocolViolation` for a line that is not a header.
  mutating func take(_ line: UnsafeRawBufferPointer) throws(TransportError) {
    size += line.count
    guard size <= limit else { throw .tooLarge(limit: limit) }
    if isComplete { return }  // trailers

    let text = Self.trimmed(line[...])
    if !hasStatusLine && line.starts(with: "HTTP/".utf8) {
      try takeStatus(text)
    } else if text.isEmpty && !line.starts(with: " ".utf8) && !line.starts(with: "\t".utf8) {
      isComplete = hasStatusLine && !isInterim
      hasStatusLine = false
      if isComplete { try settleFraming() }
    } else if let first = line.first, first == UInt8(ascii: " ") || first == UInt8(ascii: "\t") {
      // A folded line: replaced by a blank and its content (RFC 9112, section 5.2).
      guard let last = headers.indices.last else { throw .protocolViolation("a folded line without a header") }
      headers[last].value += " " + String(decoding: text, as: UTF8.self)
    } else {
      guard let colon = text.firstIndex(of: UInt8(ascii: ":")), colon > text.startIndex else {
        throw .protocolViolation("a header line without a name")
      }
      headers.append(
        TransportHeader(
          String(decoding: text[..<colon], as: UTF8.self),
          String(decoding: Self.trimmed(text[(colon + 1)...]), as: UTF8.self)))
    }
  }

  private mutating func takeStatus(_ text: Slice<UnsafeRawBufferPointer>) throws(TransportError) {
    let space = UInt8(ascii: " ")
    let digits = text.drop { $0 != space }.drop { $0 == space }.prefix { $0 != space }
    guard let status = Int(String(decoding: digits, as: UTF8.self)), (100...999).contains(status) else {
      throw .protocolViolation("a status line without a status")
    }
    isInterim = status < 200
    hasStatusLine = true
    headers = []
    headers.reserveCapacity(8)
  }

  /// Refuses ambiguous ends of the body: two different lengths (RFC 9112, section 6.3), and a transfer coding that was
  /// not requested (section 7.4), which libcurl would decode, or fail to.
  private mutating func settleFraming() throws(TransportError) {
    func values(_ name: String) -> Set<String> {
      let named = headers.lazy.filter { $0.name.utf8.count == name.utf8.count && $0.name.lowercased() == name }
      return Set(named.map { $0.value.lowercased() })
    }
    guard values("transfer-encoding").isSubset(of: ["chunked"]) else {
      throw .protocolViolation("a transfer coding that was not asked for")
    }
    let announced = values("content-length")
    guard announced.count <= 1 else { throw .protocolViolation("two lengths for one body") }
    guard let length = announced.first else { return }
    guard length.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let length = Int(length) else {
      throw .protocolViolation("a length that is none")
    }
    contentLength = length
  }

  private static func trimmed(_ bytes: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
    func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0d || byte == 0x0a }
    var rest = bytes.drop(while: isBlank)
    while let last = rest.last, isBlank(last) { rest = rest.dropLast() }
    return rest
  }
}

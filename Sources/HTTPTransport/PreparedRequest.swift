import CCurl

/// A request that can be sent as written: its initialiser is the check.
struct PreparedRequest: Sendable {
  typealias Scheme = CurlTransport.Configuration.Scheme

  let request: TransportRequest
  let isOverTLS: Bool

  /// - Throws: `.invalidRequest` with a reason that quotes nothing of the request but a header's name.
  init(_ request: TransportRequest, schemes: Set<Scheme>) throws(TransportError) {
    isOverTLS = try Self.scheme(of: request.url, allowed: schemes) == .https
    guard request.responseBodyLimit >= 0 else { throw .invalidRequest("the body limit is negative") }
    if request.method == .get && !request.body.isEmpty { throw .invalidRequest("a GET has no body") }
    for header in request.headers {
      guard HeaderField.isName(header.name) else { throw .invalidRequest("a header's name is not a token") }
      guard HeaderField.isValue(header.value) else {
        throw .invalidRequest("the value of \(header.name) has a control character")
      }
      guard !HeaderField.ownedByTransport.contains(header.name.lowercased()) else {
        throw .invalidRequest("\(header.name) is the transport's own")
      }
    }
    self.request = request
  }

  var headerLines: [String] {
    // libcurl adds these two headers by itself; a name without a value removes them.
    let hasContentType = request.headers.contains { $0.name.lowercased() == "content-type" }
    return ["Expect:"] + (hasContentType ? [] : ["Content-Type:"])
      + request.headers.map { $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)" }
  }

  /// The scheme of a valid URL.
  ///
  /// Parsed by libcurl's own parser, which also sends it: two parsers could disagree.
  private static func scheme(of url: String, allowed: Set<Scheme>) throws(TransportError) -> Scheme {
    guard url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
      throw .invalidRequest("the URL has a blank, a control character or one beyond ASCII")
    }
    guard let parsed = curl_url() else { throw .other(code: Int(CURLE_OUT_OF_MEMORY.rawValue)) }
    defer { curl_url_cleanup(parsed) }
    guard curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK else {
      throw .invalidRequest("the URL cannot be parsed")
    }
    guard let name = part(CURLUPART_SCHEME, of: parsed), let scheme = Scheme(rawValue: name), allowed.contains(scheme)
    else {
      throw .invalidRequest("the URL's scheme is not allowed")
    }
    // With one slash too many, libcurl takes the path for the host.
    guard !url.utf8.dropFirst(name.utf8.count).starts(with: ":///".utf8) else {
      throw .invalidRequest("the URL has no host")
    }
    guard part(CURLUPART_USER, of: parsed) == nil, part(CURLUPART_PASSWORD, of: parsed) == nil else {
      throw .invalidRequest("the URL has a user part")
    }
    guard let host = part(CURLUPART_HOST, of: parsed), !host.isEmpty else {
      throw .invalidRequest("the URL has no host")
    }
    return scheme
  }

  private static func part(_ part: CURLUPart, of url: OpaquePointer) -> String? {
    var text: UnsafeMutablePointer<CChar>?
    guard curl_url_get(url, part, &text, 0) == CURLUE_OK, let text else { return nil }
    defer { curl_free(text) }
    return String(cString: text)
  }
}

/// The rules for header fields (RFC 9110, section 5).
enum HeaderField {
  /// Headers that frame the message or control the connection; conflicting values enable request smuggling.
  static let ownedByTransport: Set<String> = [
    "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
  ]

  private static let tokenPunctuation = Set("!#$%&'*+-.^_`|~".utf8)

  static func isName(_ text: String) -> Bool {
    !text.isEmpty
      && text.utf8.allSatisfy { byte in
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
          || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || tokenPunctuation.contains(byte)
      }
  }

  /// Any bytes but control characters; the tab is allowed.
  static func isValue(_ text: String) -> Bool { text.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7f) || $0 == 0x09 } }
}

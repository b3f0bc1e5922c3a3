/// A request that its initialiser has checked, but for the parts of the URL that libcurl checks.
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

  /// The scheme of a URL. The rest is checked by libcurl's parser, which also sends it: two parsers could disagree.
  private static func scheme(of url: String, allowed: Set<Scheme>) throws(TransportError) -> Scheme {
    guard url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
      throw .invalidRequest("the URL has a blank, a control character or one beyond ASCII")
    }
    let name = url.prefix { $0 != ":" }
    guard let scheme = Scheme(rawValue: name.lowercased()), allowed.contains(scheme) else {
      throw .invalidRequest("the URL's scheme is not allowed")
    }
    // With one slash too few or too many, libcurl takes the path for the host.
    let rest = url[name.endIndex...]
    guard rest.hasPrefix("://"), !rest.hasPrefix(":///") else { throw .invalidRequest("the URL has no host") }
    return scheme
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

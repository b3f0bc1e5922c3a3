import Hummingbird

/// Answers 421 (RFC 9110, section 15.5.20) for a Host that is neither an address nor a name of the loopback or this listener.
///
/// A web page can have its own name lead a browser here (DNS rebinding), and could then read what needs no key. Its requests
/// carry that name; an address cannot be rebound.
struct OwnHostCheck: RequestCheck {
  /// The name or address that is listened on.
  var name: String

  func check(_ request: Request, _ context: inout ServiceRequestContext) throws(Problem) {
    let authority = request.head.authority ?? ""
    let host = authority.prefix { $0 != ":" }.lowercased()
    guard ClientAddress(forwarded: authority[...]) != nil || host == "localhost" || host == name.lowercased() else {
      throw Problem(
        .misdirectedRequest,
        "Operators are served under an address, 'localhost' or the name in server.admin.host alone.")
    }
  }
}

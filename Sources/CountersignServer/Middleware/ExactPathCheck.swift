import Hummingbird

/// Answers 404 for a path that is not spelled as its route: `//metrics`, `/metrics/`.
///
/// The router skips empty segments. A proxy that closes `/metrics` does not, and would let these through.
struct ExactPathCheck: RequestCheck {
  /// `/support/` redirects to the page.
  private static let exceptions: Set<String> = ["/", "/support/"]

  func check(_ request: Request, _ context: inout ServiceRequestContext) throws(Problem) {
    let path = request.uri.path
    guard Self.isExact(path) || Self.exceptions.contains(path) else {
      throw Problem(.notFound, "There is nothing at this path.")
    }
  }

  /// Whether no segment is empty.
  private static func isExact(_ path: String) -> Bool {
    var before: UInt8 = 0
    for byte in path.utf8 {
      if byte == UInt8(ascii: "/"), before == byte { return false }
      before = byte
    }
    return before != UInt8(ascii: "/")
  }
}

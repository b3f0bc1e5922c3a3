import HTTPTypes
import Hummingbird

/// Refuses a request that names no host, or more than one: two readers of it could disagree on whom it is for
/// (RFC 9112, section 3.2).
struct HostCheck: RequestCheck {
  private let host = HTTPField.Name("Host")

  func check(_ request: Request, _ context: inout ServiceRequestContext) throws(Problem) {
    // The first Host becomes the authority; a second one stays among the fields.
    guard let authority = request.head.authority, !authority.isEmpty,
      !request.headers.contains(where: { $0.name == host })
    else { throw Problem(.malformedRequest, "A request has to carry exactly one Host header.") }
  }
}

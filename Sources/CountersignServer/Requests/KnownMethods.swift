import HTTPTypes
package import Hummingbird

/// The methods by which a route is found, of RFC 9110 and RFC 5789.
package enum KnownMethods {
  static let all: [HTTPRequest.Method] = [.get, .head, .post, .put, .patch, .delete, .options, .trace]

  /// Has any other method (QUERY, PROPFIND) answered as TRACE, which no route takes: with 405 on a path that there is. The
  /// router would say that there is no such path.
  package static func prepare(_ request: inout Request, _ context: inout ServiceRequestContext) {
    guard !all.contains(request.method) else { return }
    context.unknownMethod = request.method
    var head = request.head
    head.method = .trace
    request = Request(head: head, body: request.body)
  }
}

import Hummingbird

/// An error of the dialects whose answers all say `success`:
/// `{"success":false,"error":"LIMIT_REACHED","message":"…"}`.
struct SuccessError: Encodable {
  let success = false
  /// The problem's code, in capitals.
  var error: String
  var message: String

  /// Status and headers are those of the problem, so that passing trouble stays a 5xx with `Retry-After`.
  private static func response(_ problem: Problem) -> Response {
    let answer = SuccessError(error: problem.code.rawValue.uppercased(), message: problem.detail)
    return problem.response(answer, status: problem.code.status)
  }

  /// - Parameter paths: each with what is below it.
  static func errors(at paths: String...) -> DialectErrors {
    DialectErrors(
      covers: { path in paths.contains { path == $0 || path.hasPrefix($0 + "/") } },
      response: { problem, _, _ in response(problem) })
  }
}

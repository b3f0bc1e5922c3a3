import Hummingbird

/// The form of problems in a dialect.
///
/// Every problem of these paths passes here, wherever it came up: a limit, a missing credential, a body that is too
/// large, a fault of Apple's.
struct DialectErrors: Sendable {
  /// Whether a path is one of the dialect's.
  var covers: @Sendable (_ path: String) -> Bool
  var response: @Sendable (_ problem: Problem, _ path: String, _ requestID: String) -> Response
}

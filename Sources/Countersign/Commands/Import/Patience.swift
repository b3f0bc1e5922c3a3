import Resilience

/// The pauses after failures that may pass.
enum Patience {
  /// For how long one request is tried again.
  static let longest: Duration = .seconds(600)
  fileprivate static let backoff = Backoff(base: .seconds(1), cap: .seconds(15))
}

/// Tries until there is an answer: after 1 s, 2 s, 4 s, … 15 s, or as the other side asks, for ten minutes.
func insistently<Value>(
  sleep: @Sendable (Duration) async throws -> Void, _ operation: () async throws(ServiceClient.Failure) -> Value
) async throws(ServiceClient.Failure) -> Value {
  var failures = 0
  var waited = Duration.zero
  while true {
    do throws(ServiceClient.Failure) { return try await operation() } catch {
      guard case .away(_, let retryAfter) = error else { throw error }
      let pause = retryAfter ?? Patience.backoff.ceiling(after: failures)
      guard waited + pause < Patience.longest else { throw error }
      failures += 1
      waited += pause
      do { try await sleep(pause) } catch { throw .cancelled }
    }
  }
}

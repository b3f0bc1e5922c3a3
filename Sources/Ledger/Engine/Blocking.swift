internal import Dispatch

/// Runs what blocks on a thread beside those of Swift's tasks, few as they are.
func blocking<Value: Sendable, Failure: Error>(
  _ body: @escaping @Sendable () throws(Failure) -> Value
) async throws(Failure) -> Value {
  let result: Result<Value, Failure> = await withCheckedContinuation { continuation in
    DispatchQueue.global().async { continuation.resume(returning: Result(catching: body)) }
  }
  return try result.get()
}

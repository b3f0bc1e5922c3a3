internal import Dispatch

/// Runs a body that blocks on a thread of its own: Swift's tasks have few.
func blocking<Value: Sendable, Failure: Error>(
  _ body: @escaping @Sendable () throws(Failure) -> Value
) async throws(Failure) -> Value {
  let result: Result<Value, Failure> = await withCheckedContinuation { continuation in
    DispatchQueue.global().async { continuation.resume(returning: Result(catching: body)) }
  }
  return try result.get()
}

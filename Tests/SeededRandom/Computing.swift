import Dispatch
public import Testing

/// Runs tests that compute for seconds on threads of their own. The threads of Swift's tasks are as few as processors, and
/// services and simulators of other tests answer on them within deadlines.
public struct Computing: TestTrait, SuiteTrait, TestScoping {
  public let isRecursive = true

  private final class Threads: TaskExecutor {
    private let queue = DispatchQueue(label: "computing", attributes: .concurrent)

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
  }

  private static let threads = Threads()

  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    try await withTaskExecutorPreference(Self.threads) { try await function() }
  }
}

extension Trait where Self == Computing {
  public static var computing: Self { Self() }
}

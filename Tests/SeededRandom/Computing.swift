import Dispatch
public import Testing

/// Runs each test that computes for seconds on a thread of its own. The threads of Swift's tasks are as few as processors, and
/// services and simulators of other tests answer on them within deadlines.
public struct Computing: TestTrait, SuiteTrait, TestScoping {
  public let isRecursive = true

  private final class OwnThread: TaskExecutor {
    /// Dispatch has a thread for every serial queue. Concurrent ones share those of Swift's tasks.
    private let queue = DispatchQueue(label: "computing")

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
  }

  public static func onOwnThread(_ body: @Sendable () async throws -> Void) async throws {
    try await withTaskExecutorPreference(OwnThread()) { try await body() }
  }

  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    try await Self.onOwnThread(function)
  }
}

extension Trait where Self == Computing {
  public static var computing: Self { Self() }
}

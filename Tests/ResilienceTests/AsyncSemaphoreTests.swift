import Dispatch
import Synchronization
import TestSupport
import Testing

@testable import JSON
@testable import Resilience

@Suite(.timeLimit(.minutes(10))) struct AsyncSemaphoreTests {
  @Test func `never more tasks than permits are inside`() async {
    let semaphore = AsyncSemaphore(permits: 2)
    let calls = ConcurrencyCounter()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<200 {
        group.addTask {
          guard await semaphore.acquire() else { return }
          calls.begin()
          await Task.yield()
          calls.end()
          semaphore.release()
        }
      }
    }
    #expect(calls.peak == 2)
    #expect(calls.running == 0)
    #expect(semaphore.free == 2)
  }

  @Test func `a waiter that is cancelled leaves the queue, and its turn is not lost`() async {
    let semaphore = AsyncSemaphore(permits: 1)
    #expect(await semaphore.acquire())
    let cancelled = Task { await semaphore.acquire() }
    while semaphore.waiting < 1 { await Task.yield() }
    let patient = Task { await semaphore.acquire() }
    while semaphore.waiting < 2 { await Task.yield() }
    cancelled.cancel()
    #expect(await cancelled.value == false)
    #expect(semaphore.free == 0)
    semaphore.release()
    #expect(await patient.value)
    semaphore.release()
    #expect(semaphore.free == 1)
  }

  @Test func `a task that is cancelled already does not take a permit`() async {
    let semaphore = AsyncSemaphore(permits: 1)
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      return await semaphore.acquire()
    }
    task.cancel()
    #expect(await task.value == false)
    #expect(semaphore.free == 1)
  }

  @Test func `cancellations at random moments neither lose a permit nor make one`() async {
    let semaphore = AsyncSemaphore(permits: 2)
    for _ in 0..<500 {
      let tasks = (0..<6).map { _ in
        Task {
          guard await semaphore.acquire() else { return }
          await Task.yield()
          semaphore.release()
        }
      }
      for task in tasks[1...3] { task.cancel() }
      for task in tasks { await task.value }
    }
    #expect(semaphore.waiting == 0)
    #expect(semaphore.free == 2)
  }

  /// A text that waits for its turn, however small it is.
  private static let notPlain = Array(#"{"st\u0061tus":0}"#.utf8)

  @Test func `the reader holds at most its number of documents`() async throws {
    let reader = JSONReader(simultaneously: 2)
    let calls = ConcurrencyCounter()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<100 {
        group.addTask {
          let status = try? await reader.read(Self.notPlain) { root throws(JSONError) in
            calls.begin()
            defer { calls.end() }
            guard case .integer(let status)? = root["status"]?.kind else { throw root.missing("status") }
            return status
          }
          #expect(status == 0)
        }
      }
    }
    #expect((1...2).contains(calls.peak))
  }

  @Test func `a document that fails gives its place back`() async {
    let reader = JSONReader(simultaneously: 1)
    for _ in 0..<3 {
      await #expect(throws: JSONReader.Failure.json(.syntax)) {
        try await reader.read(Array("<html>".utf8)) { _ throws(JSONError) in 0 }
      }
      await #expect(throws: JSONReader.Failure.json(.missing(path: "a"))) {
        try await reader.read(Self.notPlain) { root throws(JSONError) -> Int in throw root.missing("a") }
      }
    }
  }

  /// Somebody's thread may be busy when a document has been read there, and there are few turns for all.
  @Test func `a turn ends where the document was read, not where its caller goes on`() async throws {
    let reader = JSONReader(simultaneously: 1)
    let loop = HeldExecutor()
    try await withThrowingTaskGroup(of: Int.self) { group in
      group.addTask(executorPreference: loop) {
        try await reader.read(Self.notPlain) { _ throws(JSONError) in
          loop.hold()
          return 1
        }
      }
      while !loop.isHeld { await Task.yield() }
      let other = try await reader.read(Self.notPlain) { _ throws(JSONError) in 2 }
      #expect(other == 2)
      loop.releaseStatements()
      let first = try await group.next()
      #expect(first == 1)
    }
  }
}

/// Keeps what it is given to run while it is held.
private final class HeldExecutor: TaskExecutor {
  private let state = Mutex((isHeld: false, kept: [UnownedJob]()))

  var isHeld: Bool { state.withLock { $0.isHeld } }

  func hold() { state.withLock { $0.isHeld = true } }

  func releaseStatements() {
    let kept = state.withLock { state in
      defer { state = (false, []) }
      return state.kept
    }
    for job in kept { run(job) }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let isKept = state.withLock { state in
      if state.isHeld { state.kept.append(job) }
      return state.isHeld
    }
    if !isKept { run(job) }
  }

  private func run(_ job: UnownedJob) {
    DispatchQueue.global().async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

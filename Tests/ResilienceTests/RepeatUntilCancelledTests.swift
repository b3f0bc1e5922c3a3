import Synchronization
import Testing

@testable import Resilience

@Suite struct RepeatUntilCancelledTests {
  /// The end of a test's sleep, as of a task that is cancelled.
  private struct Woken: Error {}

  @Test func `a job rests for as long as it says, and not at all where it says nothing`() async {
    let happened = Mutex<[String]>([])
    let pauses = Mutex<[Duration?]>([.seconds(1), nil, nil, .zero, .seconds(8)])
    await repeatUntilCancelled { pause in
      happened.withLock { $0.append("rest \(pause)") }
      if pause == .seconds(8) { throw Woken() }
    } _: {
      happened.withLock { $0.append("work") }
      return pauses.withLock { $0.removeFirst() }
    }
    #expect(
      happened.withLock { $0 } == [
        "work", "rest 1.0 seconds", "work", "work", "work", "rest 0.0 seconds", "work", "rest 8.0 seconds",
      ])
  }

  @Test(.timeLimit(.minutes(10))) func `a job that never rests ends when its task is cancelled`() async {
    let times = Mutex(0)
    await Task {
      await repeatUntilCancelled { _ in
        Issue.record("it rested")
      } _: {
        let count = times.withLock { times in
          times += 1
          return times
        }
        if count == 3 { withUnsafeCurrentTask { $0?.cancel() } }
        return nil
      }
    }.value
    #expect(times.withLock { $0 } == 3)
  }

  @Test(.timeLimit(.minutes(10))) func `a rest ends when its task is cancelled`() async {
    let times = Mutex(0)
    await Task {
      await repeatUntilCancelled {
        times.withLock { $0 += 1 }
        withUnsafeCurrentTask { $0?.cancel() }
        return .seconds(3600)
      }
    }.value
    #expect(times.withLock { $0 } == 1)
  }
}

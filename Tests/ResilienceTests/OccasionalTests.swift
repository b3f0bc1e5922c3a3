import Synchronization
import Testing

@testable import Resilience

@Suite struct OccasionalTests {
  @Test func `the action happens at most so many times in each period, and missed ones are not made up for`() {
    let start = ContinuousClock.now
    let now = Mutex(start)
    let lines = Occasional(most: 2, every: .seconds(60)) { now.withLock { $0 } }
    #expect((0..<10).count { _ in lines.admit() } == 2)
    now.withLock { $0 = start.advanced(by: .milliseconds(59_999)) }
    #expect(!lines.admit())
    now.withLock { $0 = start.advanced(by: .seconds(600)) }
    #expect((0..<10).count { _ in lines.admit() } == 2)
  }
}

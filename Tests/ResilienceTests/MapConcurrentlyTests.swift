import TestSupport
import Testing

@testable import Resilience

@Suite struct MapConcurrentlyTests {
  @Test(arguments: [1, 3, 100]) func `each item is worked on once, so many at the same time`(width: Int) async {
    let inside = ConcurrencyCounter()
    let results = await mapConcurrently(0..<50, width: width) { item in
      inside.begin()
      await Task.yield()
      inside.end()
      return item * 2
    }
    #expect(results == (0..<50).map { $0 * 2 })
    #expect(inside.peak <= width && inside.running == 0)
  }

  @Test(.timeLimit(.minutes(10)))
  func `the width is used, the next item begins when one has ended, and results are in order`() async {
    let second = Event()
    let third = Event()
    // The first ends after the third has begun, which waits for the end of the second.
    let results = await mapConcurrently(1...3, width: 2) { item in
      switch item {
      case 1: await third.wait()
      case 2: second.fire()
      default:
        await second.wait()
        third.fire()
      }
      return item
    }
    #expect(results == [1, 2, 3])
  }

  @Test func `nothing begins after a result that ends the work`() async {
    let results = await mapConcurrently(1...10, width: 1, while: { $0 < 4 }) { $0 }
    #expect(results == [1, 2, 3, 4])
  }

  @Test func `work that has begun is waited for, whatever ended the rest`() async {
    let failed = Event()
    let results = await mapConcurrently(1...10, width: 2, while: { $0 != 1 }) { item in
      if item == 1 { failed.fire() } else { await failed.wait() }
      return item
    }
    #expect(results.contains(1) && results.contains(2) && results.count <= 3)
  }

  @Test func `nothing begins in a task that is cancelled`() async {
    let results = await Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await mapConcurrently(1...10, width: 4) { $0 }
    }.value
    #expect(results.isEmpty)
  }
}

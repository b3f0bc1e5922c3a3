import TestSupport
import Testing

@testable import Validation

extension SleepingClock {
  func pacer(rate: Int) -> Pacer {
    Pacer(rate: rate, clock: { [self] in now }, sleep: { [self] in try await sleep(until: $0) })
  }
}

@Suite struct PacerTests {
  @Test(arguments: [1, 10, 250, 1000]) func `the pacer gives as many turns a second as its rate says, and no more`(
    rate: Int
  ) async throws {
    let clock = SleepingClock()
    let pacer = clock.pacer(rate: rate)
    for _ in 0...(5 * rate) { #expect(await pacer.turn()) }
    #expect(abs(clock.elapsed / .seconds(1) - 5) < 0.03, "\(clock.elapsed)")
  }

  @Test func `two jobs share the pace`() async throws {
    let clock = SleepingClock()
    let pacer = clock.pacer(rate: 100)
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<2 { group.addTask { for _ in 0..<250 { _ = await pacer.turn() } } }
    }
    #expect(clock.elapsed >= .seconds(4.9))
  }

  @Test func `sleeping too long does not lower the pace`() async throws {
    let clock = SleepingClock(lateness: .milliseconds(5))
    let pacer = clock.pacer(rate: 1000)
    for _ in 0...2000 { #expect(await pacer.turn()) }
    #expect(clock.elapsed < .seconds(2.1), "\(clock.elapsed)")
  }

  @Test func `turns that nobody took are not made up for`() async throws {
    let clock = SleepingClock()
    let pacer = clock.pacer(rate: 10)
    _ = await pacer.turn()
    clock.pass(.seconds(60))
    let begin = clock.elapsed
    for _ in 0...20 { #expect(await pacer.turn()) }
    #expect(clock.elapsed - begin >= .milliseconds(1960), "\(clock.elapsed - begin)")
  }

  @Test func `a cancelled task gets no turn`() async throws {
    let pacer = SleepingClock().pacer(rate: 1)
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await pacer.turn()
    }
    #expect(await !task.value)
  }
}

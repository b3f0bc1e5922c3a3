import Ledger
import TestSupport
import Testing

@testable import Validation

@Suite struct RunProgressTests {
  @Test func `the rate is that of the last ten seconds`() {
    let clock = SleepingClock()
    let progress = RunProgress(clock: { clock.now })
    let run = RunID(1)
    #expect(progress.rate(of: run) == nil)
    progress.set(nil, of: run)
    #expect(progress.rate(of: run) == 0)
    for _ in 0..<30 {
      for _ in 0..<20 { progress.settled(of: run) }
      clock.pass(.seconds(1))
    }
    #expect(abs((progress.rate(of: run) ?? 0) - 20) <= 2)
    // Apple is away.
    clock.pass(.seconds(11))
    #expect(progress.rate(of: run) == 0)
  }

  @Test func `the rate at the beginning is that of the time since`() {
    let clock = SleepingClock()
    let progress = RunProgress(clock: { clock.now })
    progress.set(nil, of: RunID(1))
    for _ in 0..<30 { progress.settled(of: RunID(1)) }
    clock.pass(.seconds(3))
    #expect(progress.rate(of: RunID(1)) == 10)
  }

  @Test func `one run's progress is not the next one's`() {
    let progress = RunProgress()
    progress.settled(of: RunID(1))
    progress.set(.appStore, of: RunID(1))
    #expect(progress.obstacle(of: RunID(1)) == .appStore)
    progress.set(nil, of: RunID(2))
    #expect(progress.rate(of: RunID(1)) == nil)
    #expect(progress.obstacle(of: RunID(1)) == nil)
    #expect(progress.rate(of: RunID(2)) == 0)
  }
}

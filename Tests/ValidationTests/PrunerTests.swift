import Foundation
import Ledger
import Logging
import Synchronization
import Testing

@testable import Validation

@Suite struct PrunerTests {
  @Test func `nothing is old while the clock is not confirmed`() async {
    let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)
    let isConfirmed = Mutex(false)
    let pruned = Mutex<[Date]>([])
    let pruner = Pruner(
      name: "rows", age: .seconds(60), batch: 2, logger: Logger(label: "test"), now: { start },
      isClockConfirmed: { isConfirmed.withLock { $0 } }
    ) { (moment, limit) async throws(LedgerError) in
      pruned.withLock { $0.append(moment) }
      return pruned.withLock { $0.count } == 1 ? limit : 0
    }
    #expect(await pruner.turn() == .seconds(10))
    #expect(pruned.withLock { $0.isEmpty })
    isConfirmed.withLock { $0 = true }
    #expect(await pruner.turn() == .milliseconds(100))
    #expect(await pruner.turn() == .seconds(3600))
    #expect(pruned.withLock { $0 }.map { $0.timeIntervalSince(start).rounded() } == [-60, -60])
  }
}

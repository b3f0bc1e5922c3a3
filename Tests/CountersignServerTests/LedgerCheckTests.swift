import Foundation
import Ledger
import TestSupport
import Testing

@testable import CountersignServer

@Suite struct LedgerCheckTests {
  @Test func `the disk is asked once in a while, however many ask`() async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let ledger = try await Ledger.open(
      path: directory.appending(path: "ledger.sqlite").path(percentEncoded: false), onFatal: { _ in })
    let clock = SleepingClock()
    let check = LedgerCheck(
      ledger: ledger, lifetime: .seconds(1), now: { Date(timeIntervalSince1970: 1_718_452_800).withNanoseconds },
      clock: { clock.now })
    func ask(_ count: Int) async -> Int {
      await withTaskGroup { group in
        for _ in 0..<count { group.addTask { await check.finding().error == nil } }
        return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
    }
    let commits = ledger.statistics.commits
    #expect(await ask(100) == 100)
    clock.pass(.milliseconds(999))
    #expect(await ask(100) == 100)
    #expect(ledger.statistics.commits == commits + 1)
    clock.pass(.milliseconds(1))
    #expect(await ask(100) == 100)
    #expect(ledger.statistics.commits == commits + 2)
    await ledger.close()
    #expect(await check.finding().error == nil, "what was found stands for its time")
    clock.pass(.seconds(1))
    #expect(await check.finding().error == .closed)
  }
}

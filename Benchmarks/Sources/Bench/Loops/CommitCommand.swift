import ArgumentParser
import Entitlements
import Foundation
import Ledger

/// `bench commit`: records in the ledger, many callers at a time and one at a time. Each is acknowledged after its fsync.
struct CommitCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "commit", abstract: "Record entries, and count commits.")

  @Option(help: "A directory for ledgers.") var directory: String
  @Option var callers = 256
  @Option var count = 20_000
  @Option(help: "Entries that are recorded one at a time.") var alone = 1_000

  func run() async throws {
    let together = try await record(count, callers: callers, in: "together")
    let single = try await record(alone, callers: 1, in: "alone")
    print(
      "{\"rate\":\(together.rate),\"per_commit\":\(together.perCommit),\"cpu_us\":\(together.cpu),"
        + "\"alone_rate\":\(single.rate),\"alone_per_commit\":\(single.perCommit),\"alone_cpu_us\":\(single.cpu)}")
  }

  private func record(
    _ count: Int, callers: Int, in name: String
  ) async throws -> (rate: Double, perCommit: Double, cpu: Double) {
    let ledger = try await SQLiteLedger.open(path: "\(directory)/\(name).sqlite") { _ in }
    let entries = (0..<count).map { BenchEntry.make(number: $0, receipt: "receipt-\($0)", nextCheck: nil) }
    let begin = ContinuousClock.now
    let before = ProcessTime.now
    let next = Counter()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<callers {
        group.addTask {
          while true {
            let number = next.take()
            guard number < count else { return }
            _ = try await ledger.record(entries[number])
          }
        }
      }
      try await group.waitForAll()
    }
    let wall = ContinuousClock.now - begin
    let cpu = ProcessTime.now - before
    let statistics = ledger.statistics
    await ledger.close()
    return (
      Double(count) / wall.seconds, Double(statistics.entries) / Double(max(1, statistics.commits)),
      cpu.microseconds / Double(count)
    )
  }
}

/// `bench seed`: a ledger of customers whose subscriptions a run of re-validation takes.
struct SeedCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "seed", abstract: "Make a ledger with subscriptions to re-validate.")

  @Option var ledger: String
  @Option var bodies: String
  @Option var count = 100_000

  func run() async throws {
    let ledger = try await SQLiteLedger.open(path: ledger) { _ in }
    let posts = try PostedBodies.read(bodies, limit: count)
    guard posts.count == count else { throw ValidationError("there are only \(posts.count) receipts") }
    let due = Date() + 7_200
    let next = Counter()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<256 {
        group.addTask {
          while true {
            let number = next.take()
            guard number < count else { return }
            _ = try await ledger.record(
              BenchEntry.make(number: number, receipt: posts[number].receiptData, nextCheck: due))
          }
        }
      }
      try await group.waitForAll()
    }
    await ledger.close()
    print("{\"count\":\(count)}")
  }
}

enum BenchEntry {
  static func make(number: Int, receipt: String, nextCheck: Date?) -> LedgerEntry {
    let bought = Date() - 86_400 * 2
    let purchase = Purchase(
      productID: ProductID(AnswerTemplate.product), transactionID: TransactionID("t-\(number)"),
      originalTransactionID: OriginalTransactionID(AnswerTemplate.originalTransactionID(of: receipt.utf8)),
      purchaseDate: bought, expiresDate: bought + 86_400)
    let history = PurchaseHistory(
      environment: .production, source: .verifyReceipt, evidenceTime: bought, judgedAt: bought, purchases: [purchase])
    let evidence = history.evidence()
    return LedgerEntry(
      user: UserID("user-\(number)"), evidence: evidence, contestedKeys: Set(evidence.map(\.key)),
      receipt: KeptReceipt(base64: receipt, environment: .production, bundleID: BundleID(AnswerTemplate.bundleID)),
      ownership: .keep, judgedAt: bought, recordedAt: bought, requestID: "seed-\(number)",
      judge: { _, _, now in
        .none(
          tier: "free", reason: .noPurchases,
          explanation: Explanation(line: nil, decidedBy: nil, passedOver: [], judgedAt: now))
      },
      nextCheck: { _, _ in nextCheck })
  }
}

extension [Double] {
  /// The middle value; 0 of none.
  var median: Double {
    let sorted = sorted()
    guard !sorted.isEmpty else { return 0 }
    let middle = sorted.count / 2
    return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
  }
}

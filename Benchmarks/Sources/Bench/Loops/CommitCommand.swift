import ArgumentParser
import Entitlements
import Foundation
import Ledger

/// `bench commit`: what the ledger costs in records, reads and settled updates, many callers at a time and one at a time.
/// Each write is acknowledged after its fsync.
struct CommitCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "commit", abstract: "Record entries, and count commits.")

  @Option(help: "A directory for ledgers.") var directory: String
  @Option var callers = 256
  @Option var count = 20_000
  @Option(help: "Entries that are recorded one at a time.") var alone = 1_000
  @Option(help: "Rows of a subscription.") var purchases = 4
  @Option(help: "Rows of the one subscription that is recorded, told again and read at the end; 0 for none.")
  var large = 900

  func run() async throws {
    let many = try await measure("together", count, callers: callers)
    let single = try await measure("alone", alone, callers: 1)
    var fields = many.fields(prefix: "") + single.fields(prefix: "alone_")
    if large > 0 { fields += try await measureLarge() }
    print("{" + fields.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}")
  }

  /// What some operation cost each time.
  private struct Cost {
    var rate: Double
    var cpu: Double
  }

  private struct Measurement {
    var record: Cost
    var perCommit: Double
    /// The same receipts, posted again.
    var again: Cost
    /// The same subscriptions, a period later.
    var renewed: Cost
    var profile: Cost
    var waiting: Cost
    var settle: Cost

    func fields(prefix: String) -> [(String, Double)] {
      [
        ("rate", record.rate), ("per_commit", perCommit), ("cpu_us", record.cpu), ("again_cpu_us", again.cpu),
        ("renewed_cpu_us", renewed.cpu), ("profile_rate", profile.rate), ("profile_cpu_us", profile.cpu),
        ("waiting_cpu_us", waiting.cpu), ("settle_cpu_us", settle.cpu),
      ].map { (prefix + $0.0, $0.1) }
    }
  }

  private func measure(_ name: String, _ count: Int, callers: Int) async throws -> Measurement {
    let ledger = try await Ledger.open(path: "\(directory)/\(name).sqlite") { _ in }
    let entries = (0..<count).map { BenchEntry.validation(number: $0, purchases: purchases, period: 0) }
    let later = (0..<count).map { BenchEntry.validation(number: $0, purchases: purchases, period: 1) }
    let record = try await cost(of: count, callers: callers) { number in _ = try await ledger.record(entries[number]) }
    let statistics = ledger.statistics
    let again = try await cost(of: count, callers: callers) { number in _ = try await ledger.record(entries[number]) }
    let renewed = try await cost(of: count, callers: callers) { number in _ = try await ledger.record(later[number]) }
    let profile = try await cost(of: count, callers: callers) { number in
      _ = try await ledger.profile(of: entries[number].user)
    }
    let updates = try await updates(of: entries.map(\.user), in: ledger)
    let waiting = try await cost(of: count, callers: callers) { number in
      _ = try await ledger.waitingUpdate(of: entries[number].user)
    }
    let settle = try await cost(of: count, callers: callers) { number in
      let update = updates[number]
      try await ledger.settleUpdate(of: update.user, version: update.version, isDoubtful: false, confirmingAt: nil)
    }
    await ledger.close()
    return Measurement(
      record: record, perCommit: Double(statistics.entries) / Double(max(1, statistics.commits)), again: again,
      renewed: renewed, profile: profile, waiting: waiting, settle: settle)
  }

  private func updates(of users: [UserID], in ledger: Ledger) async throws -> [WaitingUpdate] {
    var updates: [WaitingUpdate] = []
    for user in users {
      if let update = try await ledger.waitingUpdate(of: user) { updates.append(update) }
    }
    guard updates.count == users.count else { throw ValidationError("a verdict has no update") }
    return updates
  }

  /// One customer whose subscription was renewed many times.
  private func measureLarge() async throws -> [(String, Double)] {
    let rounds = 100
    let ledger = try await Ledger.open(path: "\(directory)/large.sqlite") { _ in }
    let entries = (0..<rounds).map { BenchEntry.validation(number: 0, purchases: large + $0, period: $0) }
    let record = try await cost(of: rounds, callers: 1) { number in _ = try await ledger.record(entries[number]) }
    let last = entries[rounds - 1]
    let again = try await cost(of: rounds, callers: 1) { _ in _ = try await ledger.record(last) }
    let profile = try await cost(of: rounds, callers: 1) { _ in _ = try await ledger.profile(of: last.user) }
    await ledger.close()
    return [
      ("large_cpu_us", record.cpu), ("large_again_cpu_us", again.cpu), ("large_profile_cpu_us", profile.cpu),
    ]
  }

  private func cost(
    of count: Int, callers: Int, _ operation: @escaping @Sendable (Int) async throws -> Void
  ) async throws -> Cost {
    let begin = ContinuousClock.now
    let before = ProcessTime.now
    let next = Counter()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<callers {
        group.addTask {
          while true {
            let number = next.take()
            guard number < count else { return }
            try await operation(number)
          }
        }
      }
      try await group.waitForAll()
    }
    let wall = ContinuousClock.now - begin
    let cpu = ProcessTime.now - before
    return Cost(rate: Double(count) / wall.seconds, cpu: cpu.microseconds / Double(count))
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
    let ledger = try await Ledger.open(path: ledger) { _ in }
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
      environment: .production, source: .verifyReceipt, evidenceTime: bought, evaluatedAt: bought, purchases: [purchase]
    )
    let evidence = history.evidence()
    return LedgerEntry(
      user: UserID("user-\(number)"), evidence: evidence, contestedKeys: Set(evidence.map(\.key)),
      receipt: KeptReceipt(base64: receipt, environment: .production, bundleID: BundleID(AnswerTemplate.bundleID)),
      origin: .presented(.keep), evaluatedAt: bought, recordedAt: bought, requestID: "seed-\(number)",
      rules: SeedRules(nextCheck: nextCheck))
  }

  /// Nobody has bought anything, and each purchase is due at one moment.
  private struct SeedRules: VerdictRules {
    let nextCheck: Date?
    private let rules = EntitlementRules(catalog: catalog, policy: EntitlementPolicy(), sandbox: .accept)

    init(nextCheck: Date?) { self.nextCheck = nextCheck }

    func surroundings(of evidence: [SubscriptionEvidence]) -> PurchaseSurroundings { rules.surroundings(of: []) }

    func evaluate(
      _ user: UserID, _ evidence: [SubscriptionEvidence], among surroundings: PurchaseSurroundings?,
      given: [GivenPeriod], at now: Date
    ) -> Entitlement { rules.evaluate(user, [], at: now) }

    func nextCheck(
      of evidence: SubscriptionEvidence, among surroundings: PurchaseSurroundings, at now: Date
    ) -> Date? { nextCheck }
  }

  /// What the service records of an answer of verifyReceipt: a subscription of some periods, judged by the rules.
  /// - Parameter period: how many periods after the first answer this one was given.
  static func validation(number: Int, purchases: Int, period: Int) -> LedgerEntry {
    let day = 86_400.0
    let begin = Date(timeIntervalSince1970: 1_760_000_000)
    let id = OriginalTransactionID(String(450_000_000_000_000 + number))
    let now = begin + day * Double(period) + 60
    let rows = (0..<purchases).map { index in
      let bought = begin + day * Double(period - index)
      return Purchase(
        productID: ProductID(AnswerTemplate.product),
        transactionID: TransactionID(String(460_000_000_000_000 + number * 10_000 + (purchases - index))),
        originalTransactionID: id, webOrderLineItemID: String(450_000_100_000_000 + number * 10 + index),
        subscriptionGroupID: "20512345", purchaseDate: bought, expiresDate: bought + day,
        isTrial: index == purchases - 1)
    }
    let renewal = RenewalInfo(
      originalTransactionID: id, productID: ProductID(AnswerTemplate.product),
      autoRenewProductID: ProductID(AnswerTemplate.product), autoRenews: true)
    let history = PurchaseHistory(
      environment: .production, source: .verifyReceipt, evidenceTime: now, evaluatedAt: now, purchases: rows,
      renewals: [renewal])
    let evidence = history.evidence()
    return LedgerEntry(
      user: UserID(user(number)), evidence: evidence, contestedKeys: Set(evidence.map(\.key)),
      receipt: KeptReceipt(
        base64: String(5_000_000 + number) + filler, environment: .production,
        bundleID: BundleID(AnswerTemplate.bundleID)),
      origin: .presented(.keep), evaluatedAt: now, recordedAt: now, requestID: "9f8c6a6e-45ee-4a44-9d4d-\(number)",
      rules: EntitlementRules(catalog: catalog, policy: EntitlementPolicy(), sandbox: .accept))
  }

  /// A UUID, of which the users of a service that has some come in no order.
  private static func user(_ number: Int) -> String {
    let mixed = UInt64(truncatingIfNeeded: number + 1) &* 0x9e37_79b9_7f4a_7c15
    let digits = String(mixed, radix: 16)
    let hex = String(repeating: "0", count: 16 - digits.count) + digits
    return "\(hex.prefix(8))-\(hex.dropFirst(8).prefix(4))-4\(hex.suffix(3))-8000-000000000000"
  }

  private static let filler = String(
    repeating: "MIIT5wYJKoZIhvcNAQcCoIIT2DCCE9QCAQExDzANBglghkgBZQMEAgEFADCC", count: 95)

  private static let catalog: Catalog = {
    let products: [ProductID: Catalog.Product] = [
      ProductID(AnswerTemplate.product): .init(tier: "pro"),
      "com.example.app.premium.yearly": .init(tier: "premium"),
      "com.example.app.forever": .init(tier: "premium", kind: .lifetime),
    ]
    guard let catalog = try? Catalog(tiers: ["free", "pro", "premium"], products: products) else {
      preconditionFailure("the catalog is wrong")
    }
    return catalog
  }()
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

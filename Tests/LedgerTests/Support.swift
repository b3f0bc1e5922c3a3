import Entitlements
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Ledger

extension Trait where Self == ConditionTrait {
  /// For a test of SQLite's file.
  static var ofTheFile: Self { .disabled(if: TestEngine.isPostgreSQL, "This is about SQLite's file.") }
}

/// A directory of a test's own, removed with it.
final class Scratch: Sendable {
  let directory: String
  var path: String { directory + "/ledger.sqlite" }
  /// The database of a ledger on PostgreSQL, made when it is first opened.
  private let database = Mutex<Task<String, any Error>?>(nil)

  func url() async throws -> String {
    let server = try await TestEngine.running()
    let task = database.withLock { database in
      let task = database ?? Task { try await server.makeDatabase() }
      database = task
      return task
    }
    return try await server.url(of: task.value)
  }

  func verify() async throws -> LedgerVerification {
    guard TestEngine.isPostgreSQL else { return try await LedgerVerification.verify(path: path) }
    return try await LedgerVerification.verify(url: url())
  }

  init() throws {
    directory = NSTemporaryDirectory() + "ledger-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
  }

  /// The rows of a query, as text.
  func rows(_ sql: String) async throws -> [[String?]] {
    if TestEngine.isPostgreSQL {
      _ = try await url()
      guard let database = try await database.withLock({ $0 })?.value else { return [] }
      return try await TestEngine.running().run(sql, on: database)
    }
    return try SQLiteFile(path, isReadOnly: true).rows(sql).map { row in
      row.values.map { value in
        switch value {
        case .null, .real: nil
        case .integer(let integer): "\(integer)"
        case .text(let text): text
        case .blob(let bytes): String(validating: bytes, as: UTF8.self)
        }
      }
    }
  }

  /// Runs statements from outside of the ledger.
  func change(_ sql: String) async throws {
    if TestEngine.isPostgreSQL { return _ = try await rows(sql) }
    try SQLiteFile(path).run(sql)
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  func open() async throws -> Ledger {
    if TestEngine.isPostgreSQL {
      // Enough patience for a thousand at once on a busy machine.
      return try await Ledger.open(url: url(), connections: 4, settings: .init(patience: .seconds(120)))
    }
    return try await Self.retrying { () throws(LedgerOpenError) in
      try await Ledger.open(path: path) { problem in Issue.record("the ledger gave up: \(problem)") }
    }
  }

  /// A process that another test is just starting holds the lock of this one's ledger until it becomes its program.
  static func retrying(_ open: () async throws(LedgerOpenError) -> Ledger) async throws -> Ledger {
    for _ in 0..<200 {
      do throws(LedgerOpenError) {
        return try await open()
      } catch .inUse {
        try await Task.sleep(for: .milliseconds(20))
      }
    }
    return try await open()
  }

  /// Runs a test's body on a new ledger and closes it.
  static func withLedger<Value>(_ body: (Ledger, Scratch) async throws -> Value) async throws -> Value {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    do {
      let value = try await body(ledger, scratch)
      await ledger.close()
      return value
    } catch {
      await ledger.close()
      throw error
    }
  }
}

/// 2025-06-15T15:06:40Z, from which tests count in seconds.
func at(_ seconds: Double) -> Date { Date(timeIntervalSince1970: 1_750_000_000 + seconds) }

let pro: ProductID = "com.example.app.pro.monthly"

func key(_ id: String, _ environment: StoreEnvironment = .production) -> SubscriptionKey {
  SubscriptionKey(environment: environment, originalTransactionID: OriginalTransactionID(id))
}

/// Evidence of one row that runs until `expires`, as proven at `time`.
/// - Parameter order: differs in answers of which each is to be a line of the history.
func evidence(
  _ id: String, time: Double = 0, expires: Double = 1_000, product: ProductID = pro,
  environment: StoreEnvironment = .production, evaluatedAt: Double? = nil, order: Int? = nil
) -> SubscriptionEvidence {
  var purchase = Purchase(
    productID: product, transactionID: TransactionID("t-\(id)-\(expires)"),
    originalTransactionID: OriginalTransactionID(id), purchaseDate: at(-100), expiresDate: at(expires))
  purchase.webOrderLineItemID = order.map { "\($0)" }
  return SubscriptionEvidence(
    key: key(id, environment), source: .verifyReceipt, evidenceTime: at(time), evaluatedAt: at(evaluatedAt ?? time),
    purchases: [purchase],
    renewals: [RenewalInfo(originalTransactionID: OriginalTransactionID(id), autoRenews: true)])
}

/// A small stand-in for the rules: the row of a known product that ends last decides.
let evaluate: Evaluator = { _, evidence, _, now in
  let rows = evidence.flatMap { one in one.purchases.map { (one, $0) } }.filter { $0.1.productID == pro }
  let explanation = Explanation(decidedBy: nil, passedOver: [], evaluatedAt: now)
  guard let (from, last) = rows.max(by: { ($0.1.expiresDate ?? .distantPast) < ($1.1.expiresDate ?? .distantPast) })
  else {
    return .none(
      tier: "free", reason: evidence.isEmpty ? .noPurchases : .noKnownProduct, explanation: explanation)
  }
  let runs = last.expiresDate.map { now < $0 } ?? true
  var verdict = Entitlement.none(
    tier: runs ? "pro" : "free", reason: runs ? .renewing : .voluntary, explanation: explanation)
  verdict.status = runs ? .active : .expired
  verdict.expiresAt = last.expiresDate
  verdict.accessUntil = runs ? last.expiresDate : nil
  verdict.originalTransactionID = last.originalTransactionID
  verdict.evidenceTime = from.evidenceTime
  return verdict
}

func entry(
  _ user: UserID, _ evidence: [SubscriptionEvidence], contested: Set<SubscriptionKey>? = nil,
  receipt: String = "cmVjZWlwdA==",
  ownership: OwnershipPolicy = .keep, evaluatedAt: Double? = nil, request: String = "request",
  evaluate: @escaping Evaluator = evaluate
) -> LedgerEntry {
  let known = Set(evidence.filter { $0.purchases.contains { $0.productID == pro } }.map(\.key))
  let newest = evidence.map(\.evaluatedAt).max() ?? at(0)
  return LedgerEntry(
    user: user, evidence: evidence, contestedKeys: contested ?? known,
    receipt: KeptReceipt(
      base64: receipt, environment: evidence.first?.key.environment ?? .production, bundleID: "com.example.app"),
    origin: .presented(ownership), evaluatedAt: evaluatedAt.map(at) ?? newest, recordedAt: at(5_000),
    requestID: request,
    evaluate: evaluate)
}

extension RecordOutcome {
  var recorded: Recorded? { if case .recorded(let recorded) = self { recorded } else { nil } }
  var isRefused: Bool { if case .ownedByAnotherUser = self { true } else { false } }
}

extension Ledger {
  func keys(of user: UserID) async throws -> Set<SubscriptionKey> {
    Set(try await profile(of: user)?.evidence.map(\.key) ?? [])
  }

  func wholeHistory(of user: UserID) async throws -> [HistoryEntry] {
    try await history(of: user, before: nil, limit: 1_000)
  }
}

let evaluationContext = EvaluationContext(evaluatedAt: at(0), recordedAt: at(5_000), evaluate: evaluate)

extension Ledger {
  /// Keeps a receipt without granting anything.
  func postpone(_ receipt: PendingReceipt) async throws -> Postpone.Outcome {
    try await run(Postpone(receipt, provisional: [], evaluationContext))
  }

  func settlePending(_ id: Int64) async throws { try await run(SettlePending(id, evaluationContext)) }

  func keep(_ device: Device, of user: UserID, at now: Date) async throws {
    _ = try await run(
      KeepDevice(
        device, of: user, requestID: "keep", EvaluationContext(evaluatedAt: now, recordedAt: now, evaluate: rules)))
  }
}

// MARK: The real rules, for what a stand-in would have to repeat

/// Two tiers to buy, one for a subscription and one for life.
let forever: ProductID = "com.example.app.forever"
let catalog: Catalog = {
  do throws(Catalog.Invalid) {
    return try Catalog(
      tiers: ["free", "pro", "premium"],
      products: [pro: .init(tier: "pro"), forever: .init(tier: "premium", kind: .lifetime)])
  } catch {
    preconditionFailure("\(error)")
  }
}()

/// What ended has ended at once: the ledger's cases need not wait for late renewals.
private let policy = EntitlementPolicy(lateRenewal: .zero)

let rules: Evaluator = { user, evidence, given, now in
  EntitlementRules(catalog: catalog, policy: policy, sandbox: .accept)
    .evaluate(user, evidence, given: given, at: now)
}

let nextCheck: NextCheck = { evidence, now in
  evidence.nextCheck(at: now, catalog: catalog, policy: policy)
}

extension LedgerEntry {
  /// As it is but for what the closure changes.
  func with(_ change: (inout LedgerEntry) -> Void) -> LedgerEntry {
    var copy = self
    change(&copy)
    return copy
  }
}

/// What a receipt's signature proves of one purchase, made at `time`, presented at `now` and granted for 100 s from then.
func signed(
  _ id: String, time: Double = 0, expires: Double = 10_000, now: Double? = nil, until: Double? = nil,
  environment: StoreEnvironment = .production
) -> SubscriptionEvidence {
  let now = now ?? time
  var evidence = evidence(id, time: time, expires: expires, environment: environment, evaluatedAt: now)
  evidence.source = .signature
  evidence.renewals = []
  evidence.provisionalUntil = at(until ?? now + 100)
  return evidence
}

func pending(_ base64: String, of user: UserID, at seconds: Double = 0) -> PendingReceipt {
  PendingReceipt(user: user, base64: base64, requestID: "request-\(base64)", receivedAt: at(seconds))
}

func reevaluated(at seconds: Double) -> EvaluationContext {
  EvaluationContext(evaluatedAt: at(seconds), recordedAt: at(seconds), evaluate: rules)
}

/// Milliseconds since 1970 of `at(_:)`.
func milliseconds(_ seconds: Double) -> Int64 { 1_750_000_000_000 + Int64(seconds * 1_000) }

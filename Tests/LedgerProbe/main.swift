// A process around a ledger, for tests that have to kill one or watch its system calls. Not part of the product.
//
//   LedgerProbe PATH sequential COUNT [normal]   records one after another
//   LedgerProbe PATH concurrent COUNT [normal]   records all at once: the writer begins when all of them wait
//   LedgerProbe PATH forever                     eight writers, until killed
//   LedgerProbe PATH consume                     eight consumers, until killed, each with every key twice
//
// A URL of PostgreSQL's may stand for PATH.
//
// It prints "ack USER" after each acknowledged record, "error CASE" for each that failed, "fatal" when the ledger gave
// up, and at the end "statistics COMMITS ENTRIES LARGEST"; "open CASE" alone when the ledger cannot be opened. `normal`
// weakens the ledger on purpose.

import Access
import Entitlements
import FoundationEssentials
import Glibc

#if DEBUG
  @testable import Ledger
#else
  import Ledger
#endif

/// One `write(2)` per line: what was printed before a kill has left the process.
func say(_ line: String) {
  let bytes = Array((line + "\n").utf8)
  _ = write(STDOUT_FILENO, bytes, bytes.count)
}

let start = Date(timeIntervalSince1970: 1_750_000_000)
let rules = EntitlementRules(
  catalog: try Catalog(tiers: ["free"], products: [:]), policy: EntitlementPolicy(), sandbox: .accept)

func entry(_ user: String) -> LedgerEntry {
  let purchase = Purchase(
    productID: "com.example.app.pro.monthly", transactionID: TransactionID("t-\(user)"),
    originalTransactionID: OriginalTransactionID("o-\(user)"), purchaseDate: start,
    expiresDate: start.addingTimeInterval(86_400))
  let history = PurchaseHistory(
    environment: .production, source: .verifyReceipt, evidenceTime: start, evaluatedAt: start, purchases: [purchase])
  let evidence = history.evidence()
  return LedgerEntry(
    user: UserID(user), evidence: evidence, contestedKeys: Set(evidence.map(\.key)),
    receipt: KeptReceipt(base64: "receipt-of-\(user)", environment: .production, bundleID: "com.example.app"),
    origin: .presented(.keep), evaluatedAt: start, recordedAt: start, requestID: "probe-\(user)",
    rules: rules)
}

func record(_ user: String, in ledger: Ledger) async {
  do throws(LedgerError) {
    _ = try await ledger.record(entry(user))
    say("ack \(user)")
  } catch {
    switch error {
    case .unavailable: say("error unavailable")
    case .unusable: say("error unusable")
    case .failed: say("error failed")
    case .closed: say("error closed")
    }
  }
}

func open(_ path: String, normal: Bool) async throws -> Ledger {
  if path.hasPrefix("postgresql://") { return try await Ledger.open(url: path, connections: 4) }
  #if DEBUG
    return try await Ledger.open(path: path, synchronous: normal ? .normal : .full) { _ in say("fatal") }
  #else
    guard !normal else { exit(64) }
    return try await Ledger.open(path: path) { _ in say("fatal") }
  #endif
}

let feature = Feature(name: "questions", kind: .meter, values: ["free": .meter([])], tiers: ["free"])

func consume(_ user: String, key: String, in ledger: Ledger) async {
  do throws(LedgerError) {
    let outcome = try await ledger.run(
      Consume(
        user: UserID(user), feature: feature, tier: "free", amount: 1, now: start,
        zone: ZoneChoice(usual: .utc, named: nil, isTrusted: false), idempotencyKey: key, request: "1"))
    guard case .consumed = outcome else { return say("error refused") }
    say("ack \(user) \(key)")
  } catch {
    say("error \(error)")
  }
}

#if DEBUG
  /// Keeps the writer until so many records wait.
  func holdWriter(of ledger: Ledger, until count: Int) async {
    let (began, begin) = AsyncStream<Void>.makeStream()
    Task {
      try? await ledger.engine.submit { _ in
        begin.finish()
        while ledger.statistics.waiting < count { usleep(200) }
      }
    }
    for await _ in began {}
  }
#endif

let arguments = CommandLine.arguments
guard arguments.count >= 3 else {
  say("usage: LedgerProbe PATH sequential|concurrent|forever|consume [COUNT] [normal]")
  exit(64)
}
let count = arguments.count > 3 ? Int(arguments[3]) ?? 0 : 0
let ledger: Ledger
do {
  ledger = try await open(arguments[1], normal: arguments.last == "normal")
} catch let error as LedgerOpenError {
  switch error {
  case .damaged: say("open damaged")
  case .diskFailed: say("open diskFailed")
  case .inaccessible, .inUse, .notALedger, .newerSchema, .notDurable: say("open refused")
  }
  exit(0)
}
say("ready")
switch arguments[2] {
case "sequential":
  for number in 0..<count { await record("u\(number)", in: ledger) }
case "concurrent":
  #if DEBUG
    await holdWriter(of: ledger, until: count)
  #endif
  await withTaskGroup { group in
    for number in 0..<count { group.addTask { await record("u\(number)", in: ledger) } }
  }
case "consume":
  let run = getpid()
  await withTaskGroup { group in
    for writer in 0..<8 {
      group.addTask {
        var number = 0
        while !Task.isCancelled {
          for _ in 0..<2 { await consume("w\(writer)", key: "\(run)-\(number)", in: ledger) }
          number += 1
        }
      }
    }
  }
default:
  // Names are of this process, so that a ledger can be filled by one probe after another.
  let run = getpid()
  await withTaskGroup { group in
    for writer in 0..<8 {
      group.addTask {
        var number = 0
        while !Task.isCancelled {
          await record("p\(run)-w\(writer)-\(number)", in: ledger)
          number += 1
        }
      }
    }
  }
}
let statistics = ledger.statistics
await ledger.close()
say("statistics \(statistics.commits) \(statistics.entries) \(statistics.largestBatch)")

import Entitlements
package import Ledger
package import Logging
import Resilience
import ServiceLifecycle
import Synchronization

import struct FoundationEssentials.Date

/// The job that works on the active run of re-validation: it asks Apple about its subscriptions, several at a time, at
/// the common pace.
///
///     claim ─▶ turn ─▶ ask Apple ─▶ record and settle, in one transaction
///       ▲       │         └ trouble: again in 30 s, in 2 min, then failed
///       │       └ Apple away: give back, wait, try one ◀─┐
///       └─────────────────────────────────────────────────┘
///
/// Settled items are in the ledger, so a run continues after a restart. An outage of Apple's fails nothing: the run
/// waits for its end. The downgrade brake ends a run: a person has to look at what it held back, and a new run takes
/// the rest. Renewals are meanwhile recorded by the scheduler.
struct RevalidationRunner: Service {
  /// The reason why the work on a run rests.
  enum Pause: Hashable, Sendable {
    case idle
    /// The remaining items are not due yet.
    case later
    /// Apple or the ledger is unavailable.
    case obstacle
  }

  var check: SubscriptionCheck
  var ledger: Ledger
  var brake: DowngradeBrakeService
  var logger: Logger
  var now: @Sendable () -> Date
  /// Whether calls to Apple are useless now.
  var isAppleAway: @Sendable () -> Bool
  var pacer: Pacer
  /// Subscriptions asked about at the same time.
  var width: Int
  var progress: RunProgress
  var pause: Duration = .seconds(1)

  static let longestPause: Duration = .seconds(10)
  /// Subscriptions claimed at once.
  static let batch = 100
  /// The lease of a claim: longer than a batch takes at the slowest pace.
  static let lease: Duration = .seconds(900)
  /// The most attempts at a subscription that Apple has trouble with.
  static let attempts = 3

  /// The pause before such a subscription is due again.
  static func delay(after attempts: Int) -> Duration { attempts == 0 ? .seconds(30) : .seconds(120) }

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var failures = 0
      await repeatUntilCancelled {
        failures = await advance(probing: failures > 0) == .obstacle ? failures + 1 : 0
        return Backoff(base: pause, cap: Self.longestPause).ceiling(after: failures)
      }
    }
  }

  /// Works until there is a reason to rest.
  ///
  /// - Parameter probing: whether Apple was away; one subscription then shows whether it still is.
  func advance(probing: Bool) async -> Pause {
    do throws(LedgerError) {
      guard let run = try await ledger.activeRun() else { return .idle }
      var pause = probing ? try await work(on: run, isProbe: true) : nil
      if pause == nil { pause = try await work(on: run, isProbe: false) }
      if pause == .obstacle, progress.obstacle(of: run.id) == nil {
        logger.warning("a re-validation run waits for the App Store", metadata: ["run": "\(run.id)"])
      }
      progress.set(pause == .obstacle ? .appStore : nil, of: run.id)
      return pause ?? .later
    } catch {
      logger.warning("a re-validation run cannot be read or written", metadata: ["error": "\(error)"])
      return .obstacle
    }
  }

  /// - Parameter isProbe: asks about one subscription only.
  /// - Returns: the reason to rest; `nil` after a probe with an answer.
  private func work(on run: Run, isProbe: Bool) async throws(LedgerError) -> Pause? {
    let reachability = Reachability()
    var claimed: ArraySlice<RunItem> = []
    var failure: LedgerError?
    await withTaskGroup(of: Void.self) { group in
      var isExhausted = false
      var inFlight = 0
      while canGoOn(reachability) {
        guard let item = claimed.first else {
          if isExhausted { break }
          do throws(LedgerError) {
            let claim = try await claim(isProbe ? 1 : Self.batch, of: run)
            claimed = claim.items[...]
            isExhausted = isProbe || claim.isExhausted
          } catch {
            failure = error
            break
          }
          continue
        }
        if inFlight >= width {
          await group.next()
          inFlight -= 1
          continue
        }
        guard await pacer.turn() else { break }
        claimed.removeFirst()
        inFlight += 1
        group.addTask { if await !ask(about: item) { reachability.markUnreachable() } }
      }
    }
    // Where the process ends, another replica goes on.
    try await ledger.giveBack(Array(claimed))
    guard !Task.isCancelled else { return .later }
    await brake.keep(logger)
    if let failure { throw failure }
    guard !brake.isEngaged else { return try await stop(run) }
    guard canGoOn(reachability) else { return .obstacle }
    return isProbe ? nil : try await finish(run)
  }

  private func canGoOn(_ reachability: Reachability) -> Bool {
    reachability.isClear && !brake.isEngaged && !isAppleAway() && !Task.isCancelled
  }

  private func claim(_ limit: Int, of run: Run) async throws(LedgerError) -> RunClaim {
    await brake.keep(logger)
    let now = now()
    let claim = try await ledger.claimRunItems(
      of: run.id, dueAt: now, until: now.advanced(by: Self.lease), limit: limit)
    if !claim.unreadable.isEmpty {
      logger.error(
        "purchases in the ledger cannot be read, and count as failed",
        metadata: [
          "run": "\(run.id)",
          "transactions": "\(claim.unreadable.map(\.originalTransactionID.rawValue).joined(separator: " "))",
        ])
    }
    return claim
  }

  /// Asks about one subscription and settles it.
  ///
  /// - Returns: whether Apple and the ledger are available.
  private func ask(about item: RunItem) async -> Bool {
    var logger = logger
    let requestID = "run-\(item.run)-\(item.key.originalTransactionID.rawValue)"
    logger[metadataKey: "request_id"] = "\(requestID)"
    let outcome = await check.ask(
      about: item.key, of: item.owner, item.receipt, requestID: requestID, settling: item, logger: logger)
    do throws(LedgerError) {
      switch outcome {
      case .recorded: break
      case .judgedAnew(let changed): try await ledger.settle(item, .done(changed: changed))
      case .heldBack: try await ledger.settle(item, .heldBack)
      case .refused: try await ledger.settle(item, .failed)
      case .troubled where item.attempts + 1 >= Self.attempts:
        logger.warning("a subscription failed: Apple had trouble with it too often", metadata: ["run": "\(item.run)"])
        try await ledger.settle(item, .failed)
      case .troubled:
        try await ledger.retry(item, at: now().advanced(by: Self.delay(after: item.attempts)), isCounted: true)
        return true
      case .away:
        try await ledger.giveBack([item])
        return false
      case .cancelled:
        try await ledger.giveBack([item])
        return true
      }
    } catch {
      logger.warning("a re-validation run cannot be read or written", metadata: ["error": "\(error)"])
      return false
    }
    progress.settled(of: item.run)
    return true
  }

  private func finish(_ run: Run) async throws(LedgerError) -> Pause {
    guard let ended = try await ledger.finishRun(run.id, at: now()), ended.state != .running else { return .later }
    logger.notice("a re-validation run ended", metadata: ended.metadata)
    return .idle
  }

  private func stop(_ run: Run) async throws(LedgerError) -> Pause {
    if let ended = try await ledger.stopRun(run.id, .downgradeBrake, at: now()) {
      logger.error("the downgrade brake stopped a re-validation run", metadata: ended.metadata)
    }
    return .idle
  }
}

/// Whether Apple and the ledger were reachable, for the tasks that are about to ask.
private final class Reachability: Sendable {
  private let clear = Mutex(true)

  var isClear: Bool { clear.withLock { $0 } }

  func markUnreachable() { clear.withLock { $0 = false } }
}

extension Run {
  package var metadata: Logger.Metadata {
    [
      "run": "\(id)", "due": .stringConvertible(counts.due), "done": .stringConvertible(counts.done),
      "changed": .stringConvertible(counts.changed), "failed": .stringConvertible(counts.failed),
      "held_back": .stringConvertible(counts.heldBack), "remaining": .stringConvertible(counts.remaining),
    ]
  }
}

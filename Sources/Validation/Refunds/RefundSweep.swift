import AppStore
import Entitlements
import FoundationEssentials
import Ledger
import Logging
import Resilience
import ServiceLifecycle
import Synchronization

/// The job that asks Apple for the refunds of purchases that no check is due for before they end: those for life, and
/// non-renewing subscriptions. A notification that was missed for longer than Apple keeps it is made good so.
///
///     every interval: production's purchases, a page at a time ─► gives access now? ─► asked, paced ─► taken ─► noted
///
/// A page that was not noted, as the process ended, is asked about again: its refunds are known then. Where a verdict would lower
/// more users than can be right, the brake holds the sweep until a person releases it. Apple's trouble makes it rest.
final class RefundSweep: Service {
  private let refunds: RefundHistory
  private let brake: DowngradeBrakeService
  private let interval: Duration
  private let logger: Logger
  private let now: @Sendable () -> Date
  /// Whether what was missed before the start is known.
  private let mayBegin: @Sendable () -> Bool
  private let isAppleAway: @Sendable () -> Bool
  private let pacer: Pacer
  private let pause: Duration

  private let rest = Mutex<(failures: Int, until: Date)>((0, .distantPast))
  /// Among replicas one asks at a time.
  private let lease: JobLease

  static let page = 100
  private static let rest = Backoff(base: .seconds(60), cap: .seconds(3_600))
  /// Pauses between two looks for something to do.
  private static let polls = 5
  static let memo = "refund_sweep"

  /// The progress that survives a restart.
  struct Progress: Codable, Hashable, Sendable {
    var beganAt: Date?
    var endedAt: Date?
    /// The last purchase that was looked at; `nil` while no sweep is under way.
    var place: Int64?
    /// Purchases of this sweep that Apple was asked about, those of them without an answer, and refunds that were new.
    var asked = 0
    var unanswered = 0
    var found = 0
  }

  init(
    refunds: RefundHistory, brake: DowngradeBrakeService, interval: Duration, logger: Logger,
    now: @escaping @Sendable () -> Date, mayBegin: @escaping @Sendable () -> Bool,
    isAppleAway: @escaping @Sendable () -> Bool, pacer: Pacer, pause: Duration
  ) {
    self.refunds = refunds
    self.brake = brake
    self.interval = interval
    self.logger = logger
    self.now = now
    self.mayBegin = mayBegin
    self.isAppleAway = isAppleAway
    self.pacer = pacer
    self.pause = pause
    lease = JobLease(ledger: refunds.ledger, name: "$refund_sweep")
  }

  private var ledger: Ledger { refunds.ledger }
  private var validator: ReceiptValidator { refunds.validator }

  func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await repeatUntilCancelled { await turn() ? nil : pause * Self.polls }
    }
  }

  /// Looks at a page of purchases, if a sweep is due.
  ///
  /// - Returns: whether there is more to do at once.
  func turn() async -> Bool {
    let isResting = rest.withLock { Self.rest.isResting(until: $0.until, at: now()) }
    guard mayBegin(), !isResting, !isAppleAway(), !brake.isEngaged, !Task.isCancelled else { return false }
    do throws(LedgerError) {
      guard isDue(try await load()), await isOurs() else { return false }
      // Another replica may have ended it meanwhile.
      var progress = try await load()
      guard isDue(progress) else { return false }
      if progress.place == nil { progress = Progress(beganAt: now(), endedAt: progress.endedAt, place: 0) }
      return try await goOn(&progress)
    } catch {
      logger.warning("refunds cannot be looked up or recorded", metadata: ["error": "\(error)"])
      return false
    }
  }

  private func isDue(_ progress: Progress) -> Bool {
    guard progress.place == nil, let began = progress.beganAt else { return true }
    // One that began in the future was begun by a wrong clock.
    return began.advanced(by: interval) <= now() || began > now()
  }

  private func load() async throws(LedgerError) -> Progress {
    let text = try await ledger.memo(Self.memo)
    let progress = text.flatMap { try? JSONDecoder().decode(Progress.self, from: Data($0.utf8)) } ?? Progress()
    refunds.noteSweep(endedAt: progress.endedAt)
    return progress
  }

  private func keep(_ progress: Progress) async throws(LedgerError) {
    let text = (try? JSONEncoder().encode(progress)).map { String(decoding: $0, as: UTF8.self) }
    try await ledger.changeMemo(Self.memo) { text ?? $0 }
    refunds.noteSweep(endedAt: progress.endedAt)
  }

  private func isOurs() async -> Bool { await lease.take(at: now()) }

  private func goOn(_ progress: inout Progress) async throws(LedgerError) -> Bool {
    let page = try await ledger.refundQuestions(after: progress.place ?? 0, limit: Self.page)
    guard let last = page.last else {
      progress.place = nil
      progress.endedAt = now()
      try await keep(progress)
      logger.notice(
        "Apple was asked for refunds",
        metadata: [
          "asked": .stringConvertible(progress.asked), "unanswered": .stringConvertible(progress.unanswered),
          "found": .stringConvertible(progress.found),
        ])
      return false
    }
    if !page.unreadable.isEmpty {
      logger.error(
        "purchases in the ledger cannot be read, and Apple is not asked for their refunds",
        metadata: ["rows": "\(page.unreadable.map(String.init).joined(separator: " "))"])
    }
    var goesOn = true
    var failure: LedgerError?
    for question in page.questions {
      do throws(LedgerError) {
        if try await mayLose(question) { goesOn = try await ask(about: question, &progress) }
      } catch {
        // One that cannot be read or recorded holds up no other: the next page begins behind it.
        progress.asked += 1
        progress.unanswered += 1
        failure = error
      }
      guard goesOn else { break }
      progress.place = question.place
      guard failure == nil else { break }
    }
    if goesOn, failure == nil { progress.place = last }
    await brake.keep(logger)
    // Another replica may have gone on meanwhile.
    if await isOurs() { try await keep(progress) }
    if let failure { throw failure }
    return goesOn
  }

  /// Whether the purchase gives access now, for which no check is due before its end.
  private func mayLose(_ question: RefundQuestion) async throws(LedgerError) -> Bool {
    let rules = validator.rules
    let kinds = question.evidence.purchases.compactMap { rules.catalog.products[$0.productID]?.kind }
    guard question.key.environment == .production,
      kinds.contains(where: { $0 == .lifetime || $0 == .nonRenewing }), !question.owner.isErased,
      !question.key.isOfApp, let profile = try await ledger.profile(of: question.owner)
    else { return false }
    return rules.running(question.owner, profile.evidence, at: now()).contains {
      $0.originalTransactionID == question.key.originalTransactionID
    }
  }

  /// - Returns: `false` where the sweep cannot go on.
  private func ask(about question: RefundQuestion, _ progress: inout Progress) async throws(LedgerError) -> Bool {
    guard await isOurs(), await pacer.turn() else { return false }
    let signed: [SignedRefund]
    do throws(AppStoreError) {
      signed = try await refunds.ask(
        about: question, retriesTrouble: false, until: .now.advanced(by: validator.gateway.deadline))
    } catch {
      switch error {
      case .cancelled: return false
      case .wrongApp, .invalidAnswer, .unexpected: break
      case let error where error.mayConcernThisReceiptOnly: break
      default:
        rest(for: error.words)
        return false
      }
      // The next sweep asks again.
      progress.asked += 1
      progress.unanswered += 1
      return true
    }
    rest.withLock { $0 = (0, .distantPast) }
    let taken = try await refunds.take(
      signed, in: question.key.environment, by: .sweep,
      requestID: "refunds-\(question.key.originalTransactionID.rawValue)", logger: logger,
      approves: brake.approval(of: validator.rules))
    guard !taken.isHeldBack else {
      await brake.announce(logger)
      return false
    }
    let found = taken.refunds.count(where: \.isNew)
    if found == 0 { brake.noteUnchanged() }
    progress.asked += 1
    progress.found += found
    return true
  }

  private func rest(for problem: String) {
    let failures = rest.withLock { rest in
      rest = (rest.failures + 1, now().advanced(by: Self.rest.ceiling(after: rest.failures)))
      return rest.failures
    }
    guard failures == 1 else { return }
    logger.warning("Apple cannot be asked for refunds", metadata: ["problem": "\(problem)"])
  }
}

import AppStore
import Entitlements
import FoundationEssentials
import Ledger
import Logging
import Resilience
import ServiceLifecycle
import Synchronization

/// The job that asks Apple for the notifications that did not arrive: after every start and every day.
///
///     history ─► a page of 20 ─► each taken like a posted one, evaluated as of its signature ─► noted ─► the next page
///
/// A page that was taken and not noted, as the process ended, is taken again: its notifications are duplicates then.
/// Pages are paced together with the other calls that the service makes by itself.
///
/// https://developer.apple.com/documentation/appstoreserverapi/get-notification-history
final class NotificationCatchUp: Service {
  private let history: NotificationHistory
  private let serverAPI: ServerAPIClient
  private let receiver: NotificationReceiver
  private let ledger: Ledger
  /// Among replicas one asks at a time.
  private let lease: JobLease
  private let logger: Logger
  private let now: @Sendable () -> Date
  private let pacer: Pacer
  private let deadline: Duration
  /// Whether it asks by itself, and not only when told to.
  private let isAutomatic: Bool
  private let pause: Duration
  /// Open once what was missed before the start is taken, or cannot be.
  private let gate: NotificationGate

  private let rests = Mutex<[NotificationHistory.Source: (failures: Int, until: Date)]>([:])
  /// Pauses between two looks for something to ask.
  private static let polls = 5
  static let rest = Backoff(base: .seconds(60), cap: .seconds(3_600))

  init(
    history: NotificationHistory, serverAPI: ServerAPIClient, receiver: NotificationReceiver, ledger: Ledger,
    logger: Logger, now: @escaping @Sendable () -> Date, pacer: Pacer, deadline: Duration, isAutomatic: Bool,
    pause: Duration, gate: NotificationGate
  ) {
    self.history = history
    self.serverAPI = serverAPI
    self.receiver = receiver
    self.ledger = ledger
    lease = JobLease(ledger: ledger, name: "notification_history")
    self.logger = logger
    self.now = now
    self.pacer = pacer
    self.deadline = deadline
    self.isAutomatic = isAutomatic
    self.pause = pause
    self.gate = gate
  }

  func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      if isAutomatic { await planStart() } else { gate.open() }
      await repeatUntilCancelled { await turn() ? nil : pause * Self.polls }
    }
  }

  private func planStart() async {
    do throws(LedgerError) {
      let newest = try await ledger.newestNotification()
      for source in history.sources {
        let now = now()
        try await history.update(source) { $0.planDue(after: newest, at: now, in: source.environment) }
      }
    } catch { logger.warning("missed notifications cannot be asked for", metadata: ["error": "\(error)"]) }
  }

  /// Asks for a page of each source that has something to ask.
  ///
  /// - Returns: whether there is more to do at once.
  func turn() async -> Bool {
    var goesOn = false
    for source in history.sources {
      let isResting = rests.withLock { $0[source].map { Self.rest.isResting(until: $0.until, at: now()) } ?? false }
      guard !isResting, !Task.isCancelled else { continue }
      do throws(LedgerError) {
        var progress = try await history.load(source)
        let now = now()
        if isAutomatic, progress.isAhead(of: now) || !progress.isAsking && isDue(progress) {
          progress = try await history.update(source) { $0.planDue(after: nil, at: now, in: source.environment) }
        }
        guard let window = progress.windows.first, await lease.take(at: now), await pacer.turn() else { continue }
        goesOn = try await ask(source, window) || goesOn
      } catch {
        logger.warning("missed notifications cannot be recorded", metadata: ["error": "\(error)"])
      }
    }
    if !goesOn { gate.open() }
    return goesOn
  }

  private func isDue(_ progress: NotificationHistory.Progress) -> Bool {
    progress.through.map { $0.advanced(by: NotificationHistory.interval) <= now() } ?? true
  }

  /// - Returns: whether there is more to ask at once.
  private func ask(
    _ source: NotificationHistory.Source, _ window: NotificationHistory.Window
  ) async throws(LedgerError) -> Bool {
    let query = NotificationQuery(
      from: window.from, to: window.to, onlyFailures: window.onlyFailures, token: window.token)
    let page: NotificationPage
    do throws(AppStoreError) {
      page = try await serverAPI.notifications(
        query, of: source.bundleID, in: source.environment, deadline: .now.advanced(by: deadline))
    } catch {
      return try await follow(error, source, window)
    }
    guard let taken = await take(page.signedPayloads) else {
      rest(source, for: "the ledger does not take them")
      return false
    }
    let progress = try await history.update(source) {
      $0.advance(
        window, next: page.nextToken, seen: page.signedPayloads.count, taken: taken.new, passedOver: taken.passedOver)
    }
    history.note(nil, of: source)
    rests.withLock { $0[source] = nil }
    if !progress.isAsking, progress.seen > 0 {
      logger.notice(
        "Apple was asked for missed notifications",
        metadata: [
          "bundle_id": "\(source.bundleID.rawValue)", "environment": "\(source.environment.rawValue)",
          "seen": .stringConvertible(progress.seen), "taken": .stringConvertible(progress.taken),
        ])
    }
    return progress.isAsking
  }

  /// Takes each notification of a page, the oldest signature first.
  ///
  /// - Returns: how many were new, and the UUIDs of those that cannot be recorded; `nil` where nothing can be.
  private func take(_ payloads: [String]) async -> (new: Int, passedOver: [String])? {
    var taken = (new: 0, passedOver: [String]())
    for payload in payloads.sorted(by: { NotificationReceiver.signedAt($0) < NotificationReceiver.signedAt($1) }) {
      do throws(NotificationReceiver.Failure) {
        let reception = try await receiver.receive(missed: payload, logger: logger)
        if reception.outcome != .duplicate { taken.new += 1 }
      } catch {
        switch error {
        case .ledgerUnavailable(.unusable(let problem)):
          // The purchase that it is about cannot be read, say. It holds up no other, and Apple is asked about the purchase.
          await receiver.recheckPurchases(named: payload)
          let uuid = SignedNotification.claimed(in: payload)?.uuid ?? ""
          logger.error(
            "a missed notification cannot be recorded, and is passed over",
            metadata: ["notification_uuid": "\(uuid)", "problem": "\(problem)"])
          taken.passedOver.append(uuid)
        case .ledgerUnavailable, .clockBehind: return nil
        // It is refused, and enough of its kind are kept.
        case .wrongPassword, .tooManyUnproven: continue
        }
      }
    }
    return taken
  }

  /// Apple's codes for a token that is not good (any more), and for a start that lies too far back.
  private static let tokenCodes: Set<Int> = [4_000_014, 4_000_017]
  private static let tooFarBack = 4_000_012

  private func follow(
    _ error: AppStoreError, _ source: NotificationHistory.Source, _ window: NotificationHistory.Window
  ) async throws(LedgerError) -> Bool {
    switch error {
    case .unexpected(let code, _) where window.token != nil && Self.tokenCodes.contains(code):
      // From its first page again.
      try await history.update(source) { progress in
        if progress.windows.first == window { progress.windows[0].token = nil }
      }
      return true
    case .unexpected(Self.tooFarBack, _):
      // It waited for too long.
      let now = now()
      try await history.update(source) { progress in
        if progress.windows.first == window { progress.loseWindow(at: now, in: source.environment) }
      }
      return true
    case .cancelled: return false
    default:
      rest(source, for: error.words)
      return false
    }
  }

  private func rest(_ source: NotificationHistory.Source, for problem: String) {
    let failures = rests.withLock { rests in
      let failures = (rests[source]?.failures ?? 0) + 1
      rests[source] = (failures, now().advanced(by: Self.rest.ceiling(after: failures - 1)))
      return failures
    }
    history.note(problem, of: source)
    guard failures == 1 else { return }
    logger.warning(
      "Apple cannot be asked for missed notifications",
      metadata: [
        "bundle_id": "\(source.bundleID.rawValue)", "environment": "\(source.environment.rawValue)",
        "problem": "\(problem)",
      ])
  }
}

/// Lets checks begin once missed notifications are taken: an answer about the present would hide what happened in between.
final class NotificationGate: Sendable {
  static let longest: Duration = .seconds(600)

  private let opened = Mutex(false)
  private let end = ContinuousClock.now.advanced(by: longest)

  var isOpen: Bool { opened.withLock { $0 } || ContinuousClock.now > end }
  func open() { opened.withLock { $0 = true } }
}

extension AppStoreError {
  /// A few constant words.
  var words: String {
    switch self {
    case .keyRejected: "Apple refuses the key"
    case .unavailable(_, _, .rateLimited): "Apple limits the rate"
    case .unavailable, .overloaded: "Apple does not answer"
    case .unexpected(let status, _): "Apple answers with the error \(status)"
    default: "Apple's answer is not one"
    }
  }
}

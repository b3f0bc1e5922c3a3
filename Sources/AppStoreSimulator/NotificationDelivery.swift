import FoundationEssentials
import Logging
import Synchronization

/// Posts notifications to the app's server as the store's clock passes the events of known customers.
///
/// They are posted one after another in the order of their events, each once whatever the response: the store would
/// retry for days, and tests do not wait for that. The responses are recorded.
final class NotificationDelivery: Sendable {
  /// One attempt.
  struct Attempt: Hashable, Sendable {
    let notification: SimulatedNotification
    /// The response's status; nil when there was none.
    let status: Int?
  }

  private struct State {
    var target: PlainHTTPURL?
    /// The time up to which each customer's events were handled.
    var deliveredUntil: [ReceiptSeed: Timestamp] = [:]
    var attempts: [Attempt] = []
    /// The post in progress; later ones wait for it.
    var posting: Task<Void, Never>?
    var ticker: Task<Void, Never>?
    var isStopped = false
  }

  private let customers: CustomerRegistry
  private let writer: NotificationWriter
  private let clock: SimulatedClock
  private let logger: Logger
  private let state = Mutex(State())
  /// The most attempts kept; the oldest are dropped.
  private static let attemptLimit = 10_000

  init(customers: CustomerRegistry, writer: NotificationWriter, clock: SimulatedClock, logger: Logger) {
    self.customers = customers
    self.writer = writer
    self.clock = clock
    self.logger = logger
  }

  /// Posts all future events to a URL; nil stops posting. Past events are not posted.
  func deliver(to target: PlainHTTPURL?) {
    let now = clock.now
    state.withLock { state in
      state.target = target
      state.deliveredUntil = [:]
      for customer in customers.all { state.deliveredUntil[customer.seed] = now }
      if target == nil {
        state.ticker?.cancel()
        state.ticker = nil
      } else if state.ticker == nil, !state.isStopped {
        state.ticker = Task { await followRunningClock() }
      }
    }
  }

  /// Posts all events since the last call. Call it when the clock has moved or a story has begun.
  func catchUp() {
    let now = clock.now
    state.withLock { state in
      guard let target = state.target, !state.isStopped else { return }
      var due: [SimulatedNotification] = []
      for customer in customers.all {
        // The first purchase of a story can happen at the very moment of its issue.
        let from = state.deliveredUntil[customer.seed] ?? customer.knownSince.before
        guard from < now else { continue }
        state.deliveredUntil[customer.seed] = now
        do {
          due += try writer.notifications(of: customer.seed, after: from, through: now)
        } catch {
          logger.error("Notifications could not be signed", metadata: ["error": "\(error)"])
        }
      }
      guard !due.isEmpty else { return }
      // Events of the same moment stay in the customers' order of arrival: the sort is stable.
      let batch = due.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
      let before = state.posting
      state.posting = Task {
        await before?.value
        for notification in batch { await post(notification, to: target) }
      }
    }
  }

  /// All attempts, after all due events were posted.
  func attempts() async -> [Attempt] {
    await state.withLock { $0.posting }?.value
    return state.withLock { $0.attempts }
  }

  func stop() {
    state.withLock { state in
      state.isStopped = true
      state.ticker?.cancel()
    }
  }

  private func post(_ notification: SimulatedNotification, to target: PlainHTTPURL) async {
    guard state.withLock({ !$0.isStopped }) else { return }
    var status: Int?
    do {
      status = try await PlainHTTPPost.send(Array(notification.body.utf8), to: target)
    } catch {
      logger.warning(
        "A notification was not answered", metadata: ["error": "\(error)", "type": "\(notification.type)"])
    }
    let attempt = Attempt(notification: notification, status: status)
    state.withLock { state in
      if state.attempts.count >= Self.attemptLimit { state.attempts.removeFirst() }
      state.attempts.append(attempt)
    }
  }

  /// Checks a running clock every second; a standing one is handled when it is moved.
  private func followRunningClock() async {
    while !Task.isCancelled {
      try? await Task.sleep(for: .seconds(1))
      if clock.isRunning { catchUp() }
    }
  }
}

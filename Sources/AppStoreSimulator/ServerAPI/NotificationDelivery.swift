import FoundationEssentials
import Logging
import Synchronization

/// Posts notifications to the app's server as the store's clock passes the events of known customers.
///
/// They are posted one after another in the order of their events. In production one that is not answered with 2xx is
/// posted again, as the store does: 1, 12, 24, 48 and 72 hours after the last time, by the store's clock; in the sandbox it
/// is not. The responses are recorded.
///
/// https://developer.apple.com/documentation/appstoreservernotifications/responding-to-app-store-server-notifications
final class NotificationDelivery: Sendable {
  struct Attempt: Hashable, Sendable {
    let notification: SimulatedNotification
    /// The response's status; nil when there was none.
    let status: Int?
  }

  /// A notification that was posted, and its outcome.
  struct Sent: Sendable {
    let notification: SimulatedNotification
    /// The moments of its posts, and the responses.
    var posts: [(at: Timestamp, status: Int?)] = []

    static func isTaken(_ status: Int?) -> Bool { status.map { (200...299).contains($0) } ?? false }
    var isTaken: Bool { posts.contains { Self.isTaken($0.status) } }
  }

  /// Milliseconds between two posts of the same notification.
  private static let pauses: [Int64] = [1, 12, 24, 48, 72].map { $0 * 3_600 * Timestamp.second }

  /// A notification to be posted.
  private struct Post {
    var notification: SimulatedNotification
    var due: Timestamp
    /// How often it was posted before.
    var posted = 0
  }

  private struct State {
    var target: PlainHTTPURL?
    /// The time up to which the events of each story were handled.
    var deliveredUntil: [ReceiptSeed: Timestamp] = [:]
    /// In the order in which they are posted, the next one last.
    var waiting: [Post] = []
    var attempts: [Attempt] = []
    /// Every notification that was posted, in the order of their first posts, and their places by UUID.
    var sent: [Sent] = []
    var places: [String: Int] = [:]
    /// Posts due notifications; nil without any.
    var posting: Task<Void, Never>?
    var ticker: Task<Void, Never>?
    var isStopped = false

    /// Adds posts by their time. Posts of the same time stay in the order of their arrival: the sort is stable.
    mutating func add(_ posts: [Post]) {
      guard !posts.isEmpty else { return }
      waiting = (waiting.reversed() + posts).sorted { $0.due < $1.due }.reversed()
    }

    func next(at now: Timestamp) -> Post? { waiting.last.flatMap { $0.due <= now ? $0 : nil } }
  }

  let extensions: RenewalExtensions
  private let customers: CustomerRegistry
  private let writer: NotificationWriter
  private let clock: SimulatedClock
  private let logger: Logger
  private let state = Mutex(State())
  /// The most attempts kept; the oldest are dropped.
  private static let attemptLimit = 10_000

  init(customers: CustomerRegistry, writer: NotificationWriter, clock: SimulatedClock, logger: Logger) {
    extensions = RenewalExtensions(customers: customers, writer: writer)
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
      state.waiting = []
      state.deliveredUntil = [:]
      for customer in customers.all { state.deliveredUntil[customer.seed.story] = now }
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
    while let job = extensions.due(at: now) {
      catchUp(through: job.due)
      do { for notification in try extensions.carryOut(job) { _ = post(notification) } } catch {
        logger.error("an extension cannot be carried out", metadata: ["error": "\(error)"])
        break
      }
    }
    catchUp(through: now)
  }

  private func catchUp(through now: Timestamp) {
    state.withLock { state in
      guard state.target != nil, !state.isStopped else { return }
      var due: [Post] = []
      for customer in customers.all {
        // The first purchase of a story can happen at the very moment of its issue.
        let from = state.deliveredUntil[customer.seed.story] ?? customer.knownSince.before
        guard from < now else { continue }
        state.deliveredUntil[customer.seed.story] = now
        do {
          due += try writer.notifications(of: customer.seed, after: from, through: now).map {
            Post(notification: $0, due: Timestamp($0.at))
          }
        } catch { logger.error("notifications cannot be signed", metadata: ["error": "\(error)"]) }
      }
      state.add(due)
      if state.posting == nil, state.next(at: now) != nil { state.posting = Task { await postAllDue() } }
    }
  }

  /// All attempts, after all due notifications were posted.
  func attempts() async -> [Attempt] {
    while let posting = state.withLock(\.posting) { await posting.value }
    return state.withLock { $0.attempts }
  }

  /// Everything that was posted so far.
  var history: [Sent] { state.withLock(\.sent) }

  /// - Returns: nil for one that was not posted yet.
  func sent(_ uuid: String) -> Sent? { state.withLock { state in state.places[uuid].map { state.sent[$0] } } }

  /// Posts a notification of no event.
  ///
  /// - Returns: whether there is a URL for it.
  func post(_ notification: SimulatedNotification) -> Bool {
    state.withLock { state in
      guard state.target != nil, !state.isStopped else { return false }
      state.add([Post(notification: notification, due: Timestamp(notification.at))])
      if state.posting == nil { state.posting = Task { await postAllDue() } }
      return true
    }
  }

  func stop() {
    state.withLock { state in
      state.isStopped = true
      state.ticker?.cancel()
    }
  }

  private func postAllDue() async {
    while let (post, target) = takeNext() {
      let notification = post.notification
      var status: Int?
      do {
        status = try await PlainHTTPPost.send(Array(notification.body.utf8), to: target)
      } catch {
        logger.warning(
          "a notification was not answered", metadata: ["error": "\(error)", "type": "\(notification.type)"])
      }
      note(Attempt(notification: notification, status: status), of: post, to: target)
    }
  }

  private func takeNext() -> (Post, PlainHTTPURL)? {
    let now = clock.now
    return state.withLock { state in
      guard let target = state.target, !state.isStopped, let post = state.next(at: now) else {
        state.posting = nil
        return nil
      }
      state.waiting.removeLast()
      return (post, target)
    }
  }

  private func note(_ attempt: Attempt, of post: Post, to target: PlainHTTPURL) {
    state.withLock { state in
      if state.attempts.count >= Self.attemptLimit { state.attempts.removeFirst() }
      state.attempts.append(attempt)
      let uuid = attempt.notification.uuid
      let place = state.places[uuid] ?? state.sent.count
      if place == state.sent.count {
        state.places[uuid] = place
        state.sent.append(Sent(notification: attempt.notification))
      }
      state.sent[place].posts.append((post.due, attempt.status))
      guard !Sent.isTaken(attempt.status), state.target == target, attempt.notification.environment == .production,
        Self.pauses.indices.contains(post.posted)
      else { return }
      let due = Timestamp(milliseconds: post.due.milliseconds + Self.pauses[post.posted])
      state.add([Post(notification: post.notification, due: due, posted: post.posted + 1)])
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

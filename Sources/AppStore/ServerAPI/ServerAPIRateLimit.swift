import Entitlements
import Synchronization

/// The limit of calls to the Server API, by Apple's published rates.
///
/// Apple counts calls by kind and app: in production 50 a second for most kinds used here (20 for account tokens and extensions,
/// 10 for orders and refunds, one for tests), in the sandbox a tenth. More than that over an hour is answered 429, to everybody.
/// Calls therefore wait for their turn, and
/// after a 429 the store is paused until the time that Apple named.
///
/// https://developer.apple.com/documentation/appstoreserverapi/identifying-rate-limits
final class ServerAPIRateLimit: Sendable {
  /// The calls that Apple counts together.
  struct Quota: Hashable, Sendable {
    var environment: StoreEnvironment
    var bundleID: BundleID
    var endpoint: ServerAPIEndpoint
  }

  enum Turn: Hashable, Sendable {
    case after(Duration)
    /// The turn would come after the deadline. None was taken.
    case tooLate
    case closed(retryIn: Duration)
  }

  private struct State {
    var closedUntil: [StoreEnvironment: ContinuousClock.Instant] = [:]
    var buckets: [Quota: RateBucket] = [:]
  }

  private let callsPerSecond: [StoreEnvironment: Int]
  private let state = Mutex(State())

  /// - Parameter callsPerSecond: for each app and kind of call; a store without a number has no limit.
  init(callsPerSecond: [StoreEnvironment: Int]) { self.callsPerSecond = callsPerSecond }

  /// Takes a turn. It is lost if the caller is cancelled while it waits.
  func turn(for quota: Quota, at now: ContinuousClock.Instant, before deadline: ContinuousClock.Instant) -> Turn {
    state.withLock { state in
      if let end = state.closedUntil[quota.environment] {
        if now < end { return .closed(retryIn: end - now) }
        state.closedUntil[quota.environment] = nil
      }
      guard var rate = callsPerSecond[quota.environment] else { return .after(.zero) }
      switch quota.endpoint {
      case .accountToken, .renewalExtension: rate = max(1, rate * 2 / 5)
      case .order, .refunds: rate = max(1, rate / 5)
      case .testNotification, .productExtension, .productExtensionStatus: rate = 1
      case .statuses, .history, .payments, .transaction, .notifications, .testOutcome, .consumption: break
      }
      var bucket = state.buckets[quota] ?? RateBucket(rate: rate, at: now)
      guard let wait = bucket.take(at: now, before: deadline) else { return .tooLate }
      state.buckets[quota] = bucket
      return .after(wait)
    }
  }

  func closed(_ environment: StoreEnvironment, at now: ContinuousClock.Instant) -> Duration? {
    state.withLock { $0.closedUntil[environment] }.flatMap { now < $0 ? $0 - now : nil }
  }

  /// Pauses a store; a longer pause stays.
  func close(_ environment: StoreEnvironment, for pause: Duration, at now: ContinuousClock.Instant) {
    let end = now.advanced(by: pause)
    state.withLock { state in
      state.closedUntil[environment] = state.closedUntil[environment].map { max($0, end) } ?? end
    }
  }
}

/// Turns at an even rate, and after a rest at once as many as come in a fifth of a second. Pure.
///
///     rate 50    10 at once, then one every 20 ms
///     rate 5      1 at once, then one every 200 ms
struct RateBucket: Hashable, Sendable {
  private let interval: Duration
  /// How much earlier than at an even rate a turn may come.
  private let tolerance: Duration
  /// The next turn at an even rate.
  private var next: ContinuousClock.Instant

  init(rate: Int, at now: ContinuousClock.Instant) {
    interval = .seconds(1) / max(1, rate)
    tolerance = interval * (max(1, rate / 5) - 1)
    next = now
  }

  /// - Returns: the time until the turn; `nil` if it would come after the deadline, and none is taken.
  mutating func take(at now: ContinuousClock.Instant, before deadline: ContinuousClock.Instant) -> Duration? {
    let even = max(next, now)
    let turn = max(now, even - tolerance)
    guard turn < deadline else { return nil }
    next = even + interval
    return turn - now
  }
}

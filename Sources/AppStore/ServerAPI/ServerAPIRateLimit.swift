import Entitlements
import Synchronization

/// Keeps our calls within what Apple allows, whoever makes them.
///
/// Apple counts calls of each kind for each app: in production 50 a second of those that are made here (of orders 10), in the
/// sandbox a tenth of that. Over an hour more than that is answered 429, to everybody; so calls wait for their turn here, and after a
/// 429 the store is left alone until the moment that Apple named.
///
/// https://developer.apple.com/documentation/appstoreserverapi/identifying-rate-limits
final class ServerAPIRateLimit: Sendable {
  /// What Apple counts together.
  struct Subject: Hashable, Sendable {
    var environment: StoreEnvironment
    var bundleID: BundleID
    var endpoint: ServerAPIEndpoint
  }

  enum Turn: Hashable, Sendable {
    case after(Duration)
    /// Not before the deadline. No turn was taken.
    case tooLate
    /// Apple has asked to be left alone.
    case closed(retryIn: Duration)
  }

  private struct State {
    var closedUntil: [StoreEnvironment: ContinuousClock.Instant] = [:]
    var buckets: [Subject: RateBucket] = [:]
  }

  private let callsPerSecond: [StoreEnvironment: Int]
  /// Guards when the next turns are, and which stores are closed.
  private let state = Mutex(State())

  /// - Parameter callsPerSecond: for each app and kind of call; a store without a number is not counted.
  init(callsPerSecond: [StoreEnvironment: Int]) { self.callsPerSecond = callsPerSecond }

  /// Takes a turn. One that is not used, as the caller is cancelled while it waits, is lost.
  func turn(for subject: Subject, at now: ContinuousClock.Instant, before deadline: ContinuousClock.Instant) -> Turn {
    state.withLock { state in
      if let end = state.closedUntil[subject.environment] {
        if now < end { return .closed(retryIn: end - now) }
        state.closedUntil[subject.environment] = nil
      }
      guard var rate = callsPerSecond[subject.environment] else { return .after(.zero) }
      if subject.endpoint == .order { rate = max(1, rate / 5) }
      var bucket = state.buckets[subject] ?? RateBucket(rate: rate, at: now)
      guard let wait = bucket.take(at: now, before: deadline) else { return .tooLate }
      state.buckets[subject] = bucket
      return .after(wait)
    }
  }

  /// For how long a store is closed still.
  func closed(_ environment: StoreEnvironment, at now: ContinuousClock.Instant) -> Duration? {
    state.withLock { $0.closedUntil[environment] }.flatMap { now < $0 ? $0 - now : nil }
  }

  /// A store that is closed for longer already stays so.
  func close(_ environment: StoreEnvironment, for pause: Duration, at now: ContinuousClock.Instant) {
    let end = now.advanced(by: pause)
    state.withLock { state in
      state.closedUntil[environment] = state.closedUntil[environment].map { max($0, end) } ?? end
    }
  }
}

/// Turns at an even rate, a fifth of a second's worth of them at once after a rest. Pure.
///
///     rate 50    10 at once, then one every 20 ms
///     rate 5      1 at once, then one every 200 ms
struct RateBucket: Hashable, Sendable {
  private let interval: Duration
  /// How far turns may be ahead of their even rate.
  private let tolerance: Duration
  /// When the next turn would come at an even rate.
  private var next: ContinuousClock.Instant

  init(rate: Int, at now: ContinuousClock.Instant) {
    interval = .seconds(1) / max(1, rate)
    tolerance = interval * (max(1, rate / 5) - 1)
    next = now
  }

  /// - Returns: how long to wait for the turn; `nil` if that is not over before the deadline, and then none is taken.
  mutating func take(at now: ContinuousClock.Instant, before deadline: ContinuousClock.Instant) -> Duration? {
    let even = max(next, now)
    let turn = max(now, even - tolerance)
    guard turn < deadline else { return nil }
    next = even + interval
    return turn - now
  }
}

import Synchronization

/// How often each caller may ask: a token bucket per caller, which holds one second's worth.
///
///     rate 10:  ten requests at once, then one every 100 ms
///
/// A bucket that nobody touched for a second is full, as one is that does not exist. So there are two generations of
/// buckets: what is asked for moves to the young one, and once in a while the old one, untouched for longer than a second,
/// is forgotten as a whole. Memory is bounded by the callers of the last moments, and by `most` in a flood of addresses,
/// whose buckets are then forgotten, full or not.
package final class RateLimiter: Sendable {
  private struct Bucket {
    var tokens: Double
    var filledAt: ContinuousClock.Instant
  }

  private struct State {
    var young: [String: Bucket] = [:]
    var old: [String: Bucket] = [:]
    var turnedAt: ContinuousClock.Instant
  }

  /// Guards the buckets.
  private let state: Mutex<State>
  /// Requests a second; zero is no limit.
  private let rate: Int
  private let most: Int
  private let clock: @Sendable () -> ContinuousClock.Instant

  /// Longer than a bucket takes to fill.
  private static let generation = Duration.seconds(2)

  /// - Parameter most: buckets of a generation; about 100 bytes each.
  package init(rate: Int, most: Int = 50_000, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.rate = rate
    self.most = most
    self.clock = clock
    state = Mutex(State(turnedAt: clock()))
  }

  /// How many buckets there are.
  var count: Int { state.withLock { $0.young.count + $0.old.count } }

  /// Takes a request of this caller's.
  ///
  /// - Returns: `nil` when it may go on, else how long until the next one may, in whole seconds and at least one.
  package func admit(_ caller: String) -> Int? {
    guard rate > 0 else { return nil }
    let capacity = Double(rate)
    return state.withLock { state in
      // Read under the lock, so that time does not go back from one caller to the next.
      let now = clock()
      turn(&state, now)
      var bucket =
        state.young[caller] ?? state.old.removeValue(forKey: caller) ?? Bucket(tokens: capacity, filledAt: now)
      bucket.tokens = min(capacity, bucket.tokens + (bucket.filledAt.duration(to: now) / .seconds(1)) * capacity)
      bucket.filledAt = now
      defer { state.young[caller] = bucket }
      guard bucket.tokens >= 1 else { return max(1, Int(((1 - bucket.tokens) / capacity).rounded(.up))) }
      bucket.tokens -= 1
      return nil
    }
  }

  /// Gives back what was taken for a request that does not count.
  package func giveBack(_ caller: String) {
    guard rate > 0 else { return }
    state.withLock { state in
      guard let tokens = state.young[caller]?.tokens else { return }
      state.young[caller]?.tokens = min(Double(rate), tokens + 1)
    }
  }

  private func turn(_ state: inout State, _ now: ContinuousClock.Instant) {
    guard state.turnedAt.duration(to: now) >= Self.generation || state.young.count >= most else { return }
    state.old = state.young
    state.young = [:]
    state.turnedAt = now
  }
}

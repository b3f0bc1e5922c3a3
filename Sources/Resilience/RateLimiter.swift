import Synchronization

/// A limit on the requests of each caller: a token bucket per caller, which holds a period's worth, usually a second's.
///
///     rate 10:                 ten requests at once, then one every 100 ms
///     rate 10, per a minute:   ten requests at once, then one every 6 s
///
/// A bucket that is unused for a period is full, and so is a new one. So there are two generations of
/// buckets: a used bucket moves to the young one, and once in a while the old one, untouched for longer than that, is
/// forgotten as a whole. Memory is bounded by the callers of the last moments, and by `most` in a flood of addresses,
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

  private let state: Mutex<State>
  /// Requests in a period; zero is no limit.
  private let rate: Int
  private let period: Duration
  private let most: Int
  private let clock: @Sendable () -> ContinuousClock.Instant

  /// Longer than a bucket takes to fill.
  private var generation: Duration { period * 2 }

  /// - Parameters:
  ///   - rate: requests in a period; zero is no limit.
  ///   - most: buckets of a generation; about 100 bytes each.
  package init(
    rate: Int, per period: Duration = .seconds(1), most: Int = 50_000,
    clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    self.rate = rate
    self.period = period
    self.most = most
    self.clock = clock
    state = Mutex(State(turnedAt: clock()))
  }

  var count: Int { state.withLock { $0.young.count + $0.old.count } }

  /// Takes a token for a request of this caller.
  ///
  /// - Returns: `nil` when the request may go on, else the time until the next one may, in whole seconds, at least one.
  package func admit(_ caller: String) -> Int? {
    guard rate > 0 else { return nil }
    let capacity = Double(rate)
    return state.withLock { state in
      // Read under the lock, so that time does not go back from one caller to the next.
      let now = clock()
      turn(&state, now)
      var bucket =
        state.young[caller] ?? state.old.removeValue(forKey: caller) ?? Bucket(tokens: capacity, filledAt: now)
      bucket.tokens = min(capacity, bucket.tokens + (bucket.filledAt.duration(to: now) / period) * capacity)
      bucket.filledAt = now
      defer { state.young[caller] = bucket }
      guard bucket.tokens >= 1 else {
        return max(1, Int(((1 - bucket.tokens) / capacity * (period / .seconds(1))).rounded(.up)))
      }
      bucket.tokens -= 1
      return nil
    }
  }

  /// Gives back the token of a request that does not count.
  package func giveBack(_ caller: String) {
    guard rate > 0 else { return }
    state.withLock { state in
      guard let tokens = state.young[caller]?.tokens else { return }
      state.young[caller]?.tokens = min(Double(rate), tokens + 1)
    }
  }

  private func turn(_ state: inout State, _ now: ContinuousClock.Instant) {
    guard state.turnedAt.duration(to: now) >= generation || state.young.count >= most else { return }
    state.old = state.young
    state.young = [:]
    state.turnedAt = now
  }
}

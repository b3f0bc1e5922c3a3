import Synchronization

/// How often each caller may ask: a token bucket per caller, which holds one second's worth.
///
///     rate 10:  ten requests at once, then one every 100 ms
final class RateLimiter: Sendable {
  private struct Bucket {
    var tokens: Double
    var filledAt: ContinuousClock.Instant
  }

  /// Guards the buckets. There are as many as there are keys in the configuration.
  private let buckets = Mutex<[String: Bucket]>([:])
  /// Requests a second; zero is no limit.
  private let rate: Int
  private let clock: @Sendable () -> ContinuousClock.Instant

  init(rate: Int, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.rate = rate
    self.clock = clock
  }

  /// Takes a request of this caller's.
  ///
  /// - Returns: `nil` when it may go on, else how long until the next one may, in whole seconds and at least one.
  func admit(_ caller: String) -> Int? {
    guard rate > 0 else { return nil }
    let now = clock()
    let capacity = Double(rate)
    return buckets.withLock { buckets in
      var bucket = buckets[caller] ?? Bucket(tokens: capacity, filledAt: now)
      bucket.tokens = min(capacity, bucket.tokens + (bucket.filledAt.duration(to: now) / .seconds(1)) * capacity)
      bucket.filledAt = now
      defer { buckets[caller] = bucket }
      guard bucket.tokens >= 1 else { return max(1, Int(((1 - bucket.tokens) / capacity).rounded(.up))) }
      bucket.tokens -= 1
      return nil
    }
  }
}

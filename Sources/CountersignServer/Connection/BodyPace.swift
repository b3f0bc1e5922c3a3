package import NIOCore

/// How slowly a request's body may come: each byte buys time, and waiting for more spends it.
///
///     patience   5 s       at first, and at most
///     a byte     1/1024 s
///
/// A sender of 1 KiB a second is never too slow. A sender of nothing is after 5 s, however much came before. Only the
/// time counts in which the service waits for the peer. Pure: it knows no clock.
package struct BodyPace: Hashable, Sendable {
  package static let usualPatience = TimeAmount.seconds(5)
  /// Bytes a second.
  static let rate: Int64 = 1024

  private let patience: TimeAmount
  /// How long nothing may come, counted from when the waiting began.
  private var left: TimeAmount
  /// When the waiting began; `nil` while nothing is waited for.
  private var since: NIODeadline?

  init(patience: TimeAmount = Self.usualPatience) {
    self.patience = patience
    left = patience
  }

  /// From now on the peer is waited for.
  mutating func wait(from now: NIODeadline) { since = since ?? now }

  /// The peer is no longer waited for: what it sent is still to be looked at.
  mutating func pause(at now: NIODeadline) {
    spend(until: now)
    since = nil
  }

  /// Bytes of the body came.
  mutating func note(_ bytes: Int, at now: NIODeadline) {
    spend(until: now)
    // More than this buys no more time.
    let bytes = min(Int64(bytes), Self.rate * 60)
    left = min(patience, left + .nanoseconds(bytes * 1_000_000_000 / Self.rate))
  }

  /// When the peer will have been too slow; `nil` while it is not waited for.
  var deadline: NIODeadline? { since.map { $0 + left } }

  func isTooSlow(at now: NIODeadline) -> Bool { deadline.map { $0 <= now } ?? false }

  private mutating func spend(until now: NIODeadline) {
    guard let start = since else { return }
    left = left - (now - start)
    since = now
  }
}

/// A request's body comes more slowly than it may.
struct SlowBody: Error {}

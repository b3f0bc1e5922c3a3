package import NIOCore

/// The slowest pace of a request's body: each byte buys time, and waiting for more spends it.
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
  /// The longest pause from here on, counted from the beginning of the wait.
  private var left: TimeAmount
  /// The beginning of the wait; `nil` while nothing is waited for.
  private var since: NIODeadline?

  init(patience: TimeAmount = Self.usualPatience) {
    self.patience = patience
    left = patience
  }

  /// Begins to wait for the peer.
  mutating func wait(from now: NIODeadline) { since = since ?? now }

  /// Ends the wait: what the peer sent is still to be read.
  mutating func pause(at now: NIODeadline) {
    spend(until: now)
    since = nil
  }

  /// Counts bytes of the body.
  mutating func note(_ bytes: Int, at now: NIODeadline) {
    spend(until: now)
    // More than this buys no more time.
    let bytes = min(Int64(bytes), Self.rate * 60)
    left = min(patience, left + .nanoseconds(bytes * 1_000_000_000 / Self.rate))
  }

  /// The time from which the peer is too slow; `nil` while it is not waited for.
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

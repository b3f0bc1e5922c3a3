import Entitlements
import Resilience

import struct FoundationEssentials.Date

extension Backoff {
  /// Whether a pause until a moment is under way. One that would last longer than any was begun by a wrong clock.
  func isResting(until end: Date, at now: Date) -> Bool { now < end && end <= now.advanced(by: cap) }
}

import Foundation
import Synchronization
import Testing

/// 2024-06-15T12:00:00Z: the time of a test that is about no other. A service's own clock stands between whole milliseconds:
/// `ServiceClock.moved(by:)` adds the nanoseconds.
let noon = Date(timeIntervalSince1970: 1_718_452_800)

/// Where the package is.
let packageFolder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
  .deletingLastPathComponent().deletingLastPathComponent()

/// A clock that goes on when a test says so.
final class MovingClock: Sendable {
  private let now: Mutex<Date>

  init(_ start: Date = noon) { now = Mutex(start) }

  var date: Date { now.withLock { $0 } }

  func advance(by seconds: TimeInterval) { now.withLock { $0 += seconds } }
}

/// Looks again and again until a condition holds: jobs tell nobody when they are done.
///
/// - Parameters:
///   - clock: goes on by `step` seconds after each look, so that whatever waits becomes due.
func eventually(
  _ clock: MovingClock? = nil, step: TimeInterval = 60, looks: Int = 4_000,
  sourceLocation: SourceLocation = #_sourceLocation,
  _ condition: () async throws -> Bool
) async throws {
  for _ in 0..<looks {
    if try await condition() { return }
    clock?.advance(by: step)
    try await Task.sleep(for: .milliseconds(20))
  }
  Issue.record("it did not come about", sourceLocation: sourceLocation)
}

import Synchronization

/// Remembers up to `limit` values; what was not asked for longest makes room for what is new.
final class BoundedMemory<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct State {
    var values: [Key: (value: Value, lastUse: UInt64)] = [:]
    var uses: UInt64 = 0
    var found = 0
  }

  private let limit: Int
  /// Guards the values, and when each was last used.
  private let state = Mutex(State())

  init(limit: Int) { self.limit = limit }

  /// How often something was found, and how much is remembered.
  var counts: (found: Int, remembered: Int) { state.withLock { ($0.found, $0.values.count) } }

  func recall(_ key: Key) -> Value? {
    state.withLock { state in
      guard let place = state.values.index(forKey: key) else { return nil }
      state.uses += 1
      state.found += 1
      state.values.values[place].lastUse = state.uses
      return state.values.values[place].value
    }
  }

  func remember(_ value: Value, as key: Key) {
    guard limit > 0 else { return }
    state.withLock { state in
      if state.values[key] == nil, state.values.count >= limit,
        let oldest = state.values.min(by: { $0.value.lastUse < $1.value.lastUse })
      {
        state.values[oldest.key] = nil
      }
      state.uses += 1
      state.values[key] = (value, state.uses)
    }
  }
}

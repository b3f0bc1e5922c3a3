import Synchronization

/// Remembers up to `limit` values; the least recently used one makes room for a new one.
///
/// The values are linked to a ring in the order of their last use, so that making room takes the same few steps however
/// many there are:
///
///     ┌▶ oldest ⇄ … ⇄ newest ◀┐
///     └───────────────────────┘
package final class LRUCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Entry {
    var key: Key
    var value: Value
    /// Places of the neighbours in the ring; its own where it is alone.
    var older: Int
    var newer: Int
  }

  private struct State {
    var places: [Key: Int] = [:]
    var entries: [Entry] = []
    var newest = 0
    var found = 0

    /// Moves the entry at `place` to the newest end of the ring.
    mutating func use(_ place: Int) {
      guard place != newest else { return }
      let (older, newer) = (entries[place].older, entries[place].newer)
      entries[older].newer = newer
      entries[newer].older = older
      let oldest = entries[newest].newer
      entries[place].older = newest
      entries[place].newer = oldest
      entries[newest].newer = place
      entries[oldest].older = place
      newest = place
    }

    /// Overwrites the least recently used entry.
    mutating func replaceOldest(by value: Value, as key: Key) {
      let oldest = entries[newest].newer
      places[entries[oldest].key] = nil
      places[key] = oldest
      entries[oldest].key = key
      entries[oldest].value = value
      use(oldest)
    }

    mutating func append(_ value: Value, as key: Key) {
      let place = entries.count
      entries.append(Entry(key: key, value: value, older: place, newer: place))
      places[key] = place
      use(place)
    }
  }

  private let limit: Int
  private let state = Mutex(State())

  package init(limit: Int) { self.limit = limit }

  package var counts: (found: Int, remembered: Int) { state.withLock { ($0.found, $0.entries.count) } }

  package func value(for key: Key) -> Value? {
    state.withLock { state in
      guard let place = state.places[key] else { return nil }
      state.found += 1
      state.use(place)
      return state.entries[place].value
    }
  }

  package func insert(_ value: Value, for key: Key) {
    guard limit > 0 else { return }
    state.withLock { state in
      if let place = state.places[key] {
        state.entries[place].value = value
        state.use(place)
      } else if state.entries.count < limit {
        state.append(value, as: key)
      } else {
        state.replaceOldest(by: value, as: key)
      }
    }
  }
}

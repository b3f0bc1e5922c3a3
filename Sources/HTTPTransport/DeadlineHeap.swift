/// The deadlines of everything under way, nearest first: a binary heap.
///
/// Entries are not removed when their request ends early; they are passed over when they come to the top, and swept out
/// once they are the great majority. So an end costs nothing, and the size stays within a small multiple of the live.
struct DeadlineHeap {
  typealias Entry = (deadline: ContinuousClock.Instant, id: UInt64)

  private(set) var entries: [Entry] = []

  mutating func insert(_ deadline: ContinuousClock.Instant, id: UInt64) {
    entries.append((deadline, id))
    var child = entries.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard entries[child].deadline < entries[parent].deadline else { return }
      entries.swapAt(child, parent)
      child = parent
    }
  }

  /// The nearest deadline of those that `isLive` knows; others on the way are dropped.
  mutating func nearest(where isLive: (UInt64) -> Bool) -> Entry? {
    while let top = entries.first {
      if isLive(top.id) { return top }
      removeFirst()
    }
    return nil
  }

  mutating func removeFirst() {
    guard let last = entries.popLast(), !entries.isEmpty else { return }
    entries[0] = last
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2] where child < entries.count {
        if entries[child].deadline < entries[least].deadline { least = child }
      }
      guard least != parent else { return }
      entries.swapAt(least, parent)
      parent = least
    }
  }

  /// Drops the dead when there are more than four for each of the living.
  mutating func sweep(live: Int, where isLive: (UInt64) -> Bool) {
    guard entries.count > 4 * live + 64 else { return }
    let kept = entries.filter { isLive($0.id) }
    entries.removeAll(keepingCapacity: true)
    for entry in kept { insert(entry.deadline, id: entry.id) }
  }
}

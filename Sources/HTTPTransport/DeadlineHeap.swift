import HeapModule

/// The deadlines of everything under way, nearest first.
///
/// Entries are not removed when their request ends early; they are passed over when they come to the top, and swept out
/// once they are the great majority. So an end costs nothing, and the size stays within a small multiple of the live.
struct DeadlineHeap {
  struct Entry: Comparable {
    let deadline: ContinuousClock.Instant
    let id: UInt64

    static func < (one: Entry, other: Entry) -> Bool { one.deadline < other.deadline }
  }

  private var heap = Heap<Entry>()

  /// In no order.
  var entries: [Entry] { heap.unordered }

  mutating func insert(_ deadline: ContinuousClock.Instant, id: UInt64) {
    heap.insert(Entry(deadline: deadline, id: id))
  }

  /// The nearest deadline of those that `isLive` knows; others on the way are dropped.
  mutating func nearest(where isLive: (UInt64) -> Bool) -> Entry? {
    while let top = heap.min {
      if isLive(top.id) { return top }
      heap.removeMin()
    }
    return nil
  }

  /// Drops the nearest.
  mutating func removeFirst() { _ = heap.popMin() }

  /// Drops the dead when there are more than four for each of the living.
  mutating func sweep(live: Int, where isLive: (UInt64) -> Bool) {
    guard heap.count > 4 * live + 64 else { return }
    heap = Heap(heap.unordered.filter { isLive($0.id) })
  }
}

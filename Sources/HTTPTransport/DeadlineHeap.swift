import HeapModule

/// The deadlines of all requests, nearest first.
///
/// Entries stay when their request ends early. They are skipped at the top of the heap, and swept out once they are the
/// great majority. The end of a request therefore costs nothing, and the size stays within a small multiple of the live
/// requests.
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

  /// The nearest deadline of a live request; dead entries before it are dropped.
  mutating func nearest(where isLive: (UInt64) -> Bool) -> Entry? {
    while let top = heap.min {
      if isLive(top.id) { return top }
      heap.removeMin()
    }
    return nil
  }

  /// Drops dead entries when there are more than four for each live one.
  mutating func sweep(live: Int, where isLive: (UInt64) -> Bool) {
    guard heap.count > 4 * live + 64 else { return }
    heap = Heap(heap.unordered.filter { isLive($0.id) })
  }
}

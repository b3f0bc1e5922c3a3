import Testing

@testable import Resilience

@Suite("Bounded memory")
struct LRUCacheTests {
  /// The same by a plain list, the newest last.
  private struct Model {
    var limit: Int
    var entries: [(key: Int, value: Int)] = []

    mutating func value(for key: Int) -> Int? {
      guard let place = entries.firstIndex(where: { $0.key == key }) else { return nil }
      entries.append(entries.remove(at: place))
      return entries.last?.value
    }

    mutating func remember(_ value: Int, as key: Int) {
      entries.removeAll { $0.key == key }
      entries.append((key, value))
      entries.removeFirst(max(0, entries.count - limit))
    }
  }

  @Test func `the value that was not asked for longest makes room`() {
    let memory = LRUCache<String, Int>(limit: 3)
    for (value, key) in ["a", "b", "c"].enumerated() { memory.insert(value, for: key) }
    #expect(memory.value(for: "a") == 0)
    memory.insert(7, for: "b")
    memory.insert(3, for: "d")
    #expect(memory.value(for: "c") == nil)
    memory.insert(4, for: "e")
    #expect(memory.value(for: "a") == nil)
    #expect(["b", "d", "e"].map(memory.value(for:)) == [7, 3, 4])
    #expect(memory.counts == (found: 4, remembered: 3))
  }

  @Test(arguments: [0, 1, 2, 3, 17, 40])
  func `the cache remembers what a plain list in the order of use does`(limit: Int) {
    let memory = LRUCache<Int, Int>(limit: limit)
    var model = Model(limit: limit)
    var chance: UInt64 = 42
    for step in 0..<20_000 {
      // Knuth's MMIX generator: the same steps in every run.
      chance = chance &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let key = Int(chance >> 33) % 40
      if chance >> 63 == 0 {
        memory.insert(step, for: key)
        model.remember(step, as: key)
      } else {
        #expect(memory.value(for: key) == model.value(for: key))
      }
      #expect(memory.counts.remembered == model.entries.count)
    }
  }
}

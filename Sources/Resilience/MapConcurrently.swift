/// Works on several items at the same time: never more than `width`, and the next begins when one has ended.
///
/// Every task that began is awaited. No further one begins after a cancellation.
/// - Parameter goesOn: called with each result; after `false` no further item begins.
/// - Returns: the results, in the order of their items.
package func mapConcurrently<Item: Sendable, Value: Sendable>(
  _ items: some Sequence<Item>, width: Int, while goesOn: (Value) -> Bool = { _ in true },
  _ work: @escaping @Sendable (Item) async -> Value
) async -> [Value] {
  await withTaskGroup(of: (place: Int, value: Value).self) { group in
    var waiting = items.enumerated().makeIterator()
    var results: [(place: Int, value: Value)] = []
    var isOver = false
    func beginNext() {
      guard !isOver, !Task.isCancelled, let (place, item) = waiting.next() else { return }
      group.addTask { (place, await work(item)) }
    }
    for _ in 0..<width { beginNext() }
    for await result in group {
      results.append(result)
      if !goesOn(result.value) { isOver = true }
      beginNext()
    }
    return results.sorted { $0.place < $1.place }.map(\.value)
  }
}

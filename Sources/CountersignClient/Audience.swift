/// The readers of the state's changes.
struct Audience: Sendable {
  var last: AccessState
  private var readers: [Int: AsyncStream<AccessState>.Continuation] = [:]
  private var lastID = 0

  init(last: AccessState) { self.last = last }

  mutating func add(_ reader: AsyncStream<AccessState>.Continuation) -> Int {
    lastID += 1
    readers[lastID] = reader
    return lastID
  }

  mutating func remove(_ id: Int) { readers[id] = nil }

  /// Whether it is another one than the last.
  mutating func publish(_ state: AccessState) -> Bool {
    guard state != last else { return false }
    last = state
    for reader in readers.values { reader.yield(state) }
    return true
  }

  mutating func takeReaders() -> [AsyncStream<AccessState>.Continuation] {
    defer { readers = [:] }
    return Array(readers.values)
  }
}

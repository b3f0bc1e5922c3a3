/// The values of a statement, in one buffer.
struct PostgreSQLValues: Hashable {
  private enum Place: Hashable {
    case null
    case text(Int)
    case bytes(Int, count: Int)
  }

  private var buffer: [UInt8] = []
  private var places: [Place] = []

  private mutating func put(_ place: Place, at index: Int) {
    while places.count <= index { places.append(.null) }
    places[index] = place
  }

  mutating func setNull(at index: Int) { put(.null, at: index) }

  /// - Throws: `StoredForm.Unstorable` for a text with a zero, which PostgreSQL cannot store.
  mutating func set(_ text: String, at index: Int) throws {
    guard !text.utf8.contains(0) else { throw StoredForm.Unstorable() }
    put(.text(buffer.count), at: index)
    buffer.append(contentsOf: text.utf8)
    buffer.append(0)
  }

  mutating func set(_ bytes: [UInt8], at index: Int) {
    put(.bytes(buffer.count, count: bytes.count), at: index)
    buffer.append(contentsOf: bytes)
    // An empty value has an address, too: a null is NULL.
    buffer.append(0)
  }

  mutating func removeAll() {
    buffer.removeAll(keepingCapacity: true)
    places.removeAll(keepingCapacity: true)
  }

  func withPointers<Result>(
    _ body: (Int32, [UnsafePointer<CChar>?], [Int32], [Int32]) throws -> Result
  ) rethrows -> Result {
    try buffer.withUnsafeBytes { buffer in
      let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
      var (pointers, lengths, formats) = ([UnsafePointer<CChar>?](), [Int32](), [Int32]())
      for place in places {
        switch place {
        case .null:
          pointers.append(nil)
          lengths.append(0)
          formats.append(0)
        case .text(let offset):
          pointers.append(start.map { $0 + offset })
          lengths.append(0)
          formats.append(0)
        case .bytes(let offset, let count):
          pointers.append(start.map { $0 + offset })
          lengths.append(Int32(clamping: count))
          formats.append(1)
        }
      }
      return try body(Int32(places.count), pointers, lengths, formats)
    }
  }
}

private import Glibc

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

  mutating func set(_ text: String, at index: Int) {
    put(.text(buffer.count), at: index)
    buffer.append(contentsOf: text.storable.utf8)
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

  /// Calls with what libpq takes of values: their number, addresses, lengths and formats (0 text, 1 binary).
  func withPointers<Result>(
    _ body: (
      Int32, UnsafePointer<UnsafePointer<CChar>?>?, _ lengths: UnsafePointer<Int32>?, _ formats: UnsafePointer<Int32>?
    ) throws -> Result
  ) rethrows -> Result {
    let count = places.count
    return try buffer.withUnsafeBytes { buffer in
      let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
      return try withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: count) { pointers in
        try withUnsafeTemporaryAllocation(of: Int32.self, capacity: 2 * count) { numbers in
          pointers.initialize(repeating: nil)
          numbers.initialize(repeating: 0)
          for (index, place) in places.enumerated() {
            switch place {
            case .null: break
            case .text(let offset): pointers[index] = start.map { $0 + offset }
            case .bytes(let offset, let length):
              pointers[index] = start.map { $0 + offset }
              numbers[index] = Int32(clamping: length)
              numbers[count + index] = 1
            }
          }
          return try body(
            Int32(clamping: count), pointers.baseAddress.map { UnsafePointer($0) },
            numbers.baseAddress.map { UnsafePointer($0) }, numbers.baseAddress.map { UnsafePointer($0 + count) })
        }
      }
    }
  }
}

extension String {
  /// The text as either engine keeps it: with U+FFFD in the place of U+0000, which no text of PostgreSQL's can have.
  var storable: String {
    var text = self
    let hasZero = text.withUTF8 { bytes in
      guard let start = bytes.baseAddress else { return false }
      return memchr(start, 0, bytes.count) != nil
    }
    return hasZero ? text.replacing("\0", with: "\u{FFFD}") : text
  }
}

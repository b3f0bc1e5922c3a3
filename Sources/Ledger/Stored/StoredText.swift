internal import JSON
private import Glibc

/// A reader for the output of `JSONWriter` alone: it fails on a space, a key out of order, an unknown
/// key or a number that is not an integer. Foundation's decoder is then tried, and reports the error.
struct StoredTextReader {
  /// Input outside this form.
  struct Unfamiliar: Error {}

  private let text: UnsafeBufferPointer<UInt8>
  private var place = 0
  private var isFirst = true
  /// The last short texts by key: the rows of a subscription share most of them.
  private var recent: [(key: UnsafePointer<UInt8>, text: String)] = []

  /// - Returns: the result of `read` on the whole text.
  static func value<Value>(
    of text: String, _ read: (inout StoredTextReader) throws(Unfamiliar) -> Value
  ) throws(Unfamiliar) -> Value {
    var text = text
    let result = text.withUTF8 { bytes -> Result<Value, Unfamiliar> in
      var reader = StoredTextReader(text: bytes)
      do throws(Unfamiliar) {
        let value = try read(&reader)
        guard reader.place == bytes.count else { throw Unfamiliar() }
        return .success(value)
      } catch {
        return .failure(error)
      }
    }
    return try result.get()
  }

  private init(text: UnsafeBufferPointer<UInt8>) { self.text = text }

  mutating func object<Value>(
    _ body: (inout StoredTextReader) throws(Unfamiliar) -> Value
  ) throws(Unfamiliar) -> Value {
    try expect(UInt8(ascii: "{"))
    isFirst = true
    let value = try body(&self)
    try expect(UInt8(ascii: "}"))
    isFirst = false
    return value
  }

  mutating func object<Value>(
    _ key: StaticString, _ body: (inout StoredTextReader) throws(Unfamiliar) -> Value
  ) throws(Unfamiliar) -> Value? {
    guard take(key) else { return nil }
    return try object(body)
  }

  mutating func array<Element>(
    _ key: StaticString, _ read: (inout StoredTextReader) throws(Unfamiliar) -> Element
  ) throws(Unfamiliar) -> [Element] {
    try Self.needed(try arrayIfPresent(key, read))
  }

  mutating func arrayIfPresent<Element>(
    _ key: StaticString, _ read: (inout StoredTextReader) throws(Unfamiliar) -> Element
  ) throws(Unfamiliar) -> [Element]? {
    guard take(key) else { return nil }
    try expect(UInt8(ascii: "["))
    var elements: [Element] = []
    if !takeByte(UInt8(ascii: "]")) {
      repeat { elements.append(try read(&self)) } while takeByte(UInt8(ascii: ","))
      try expect(UInt8(ascii: "]"))
    }
    isFirst = false
    return elements
  }

  mutating func string(_ key: StaticString) throws(Unfamiliar) -> String? {
    guard take(key) else { return nil }
    return try value()
  }

  /// As `string`, for a value that probably equals the last one of this key.
  mutating func repeated(_ key: StaticString) throws(Unfamiliar) -> String? {
    guard take(key) else { return nil }
    let bytes = try quoted()
    for index in recent.indices where recent[index].key == key.utf8Start {
      if recent[index].text.utf8.elementsEqual(bytes) { return recent[index].text }
      recent[index].text = String(decoding: bytes, as: UTF8.self)
      return recent[index].text
    }
    let text = String(decoding: bytes, as: UTF8.self)
    recent.append((key.utf8Start, text))
    return text
  }

  mutating func word<Value: RawRepresentable<String>>(
    _ key: StaticString, _ type: Value.Type = Value.self
  ) throws(Unfamiliar) -> Value? {
    guard let text = try string(key) else { return nil }
    guard let value = Value(rawValue: text) else { throw Unfamiliar() }
    return value
  }

  mutating func bool(_ key: StaticString) throws(Unfamiliar) -> Bool? {
    guard take(key) else { return nil }
    if takeLiteral("true") { return true }
    if takeLiteral("false") { return false }
    throw Unfamiliar()
  }

  mutating func integer(_ key: StaticString) throws(Unfamiliar) -> Int64? {
    guard take(key) else { return nil }
    return try number()
  }

  /// An array inside an array. Elements that are not read must be absent.
  mutating func list<Value>(_ body: (inout StoredTextReader) throws(Unfamiliar) -> Value) throws(Unfamiliar) -> Value {
    try expect(UInt8(ascii: "["))
    isFirst = true
    let value = try body(&self)
    try expect(UInt8(ascii: "]"))
    isFirst = false
    return value
  }

  /// An element of `array`.
  mutating func value() throws(Unfamiliar) -> String {
    let begin = place
    do throws(Unfamiliar) {
      return String(decoding: try quoted(), as: UTF8.self)
    } catch {
      place = begin
      return try escaped()
    }
  }

  /// A text with the escapes that `JSONWriter` writes, and no others.
  private mutating func escaped() throws(Unfamiliar) -> String {
    var bytes: [UInt8] = []
    try expect(UInt8(ascii: "\""))
    while place < text.count, text[place] != UInt8(ascii: "\"") {
      if JSONWriter.isPlain(text[place]) {
        bytes.append(text[place])
        place += 1
      } else {
        try expect(UInt8(ascii: "\\"))
        bytes.append(try takeLiteral("u00") ? control() : escape())
      }
    }
    try expect(UInt8(ascii: "\""))
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The last two digits of a control character's number.
  private mutating func control() throws(Unfamiliar) -> UInt8 {
    guard place + 2 <= text.count, case let high = text[place] &- UInt8(ascii: "0"), high < 2,
      let low = Character(Unicode.Scalar(text[place + 1])).hexDigitValue
    else { throw Unfamiliar() }
    place += 2
    return high << 4 | UInt8(low)
  }

  private mutating func escape() throws(Unfamiliar) -> UInt8 {
    guard place < text.count, let byte = Self.escapes[text[place]] else { throw Unfamiliar() }
    place += 1
    return byte
  }

  private static let escapes: [UInt8: UInt8] = [
    UInt8(ascii: "\""): UInt8(ascii: "\""), UInt8(ascii: "\\"): UInt8(ascii: "\\"), UInt8(ascii: "b"): 0x08,
    UInt8(ascii: "f"): 0x0c, UInt8(ascii: "n"): 0x0a, UInt8(ascii: "r"): 0x0d, UInt8(ascii: "t"): 0x09,
  ]

  /// The next element of a list; `nil` for `null`, and at the end.
  mutating func integerElement() throws(Unfamiliar) -> Int64? { try beginsElement() ? number() : nil }

  mutating func stringElement() throws(Unfamiliar) -> String? {
    try beginsElement() ? value() : nil
  }

  private mutating func beginsElement() throws(Unfamiliar) -> Bool {
    if place < text.count, text[place] == UInt8(ascii: "]") { return false }
    if !isFirst { try expect(UInt8(ascii: ",")) }
    isFirst = false
    return place >= text.count || text[place] != UInt8(ascii: "n") || !takeLiteral("null")
  }

  private mutating func number() throws(Unfamiliar) -> Int64 {
    let isNegative = takeByte(UInt8(ascii: "-"))
    let begin = place
    var number: Int64 = 0
    while place < text.count, case let digit = text[place] &- UInt8(ascii: "0"), digit < 10 {
      // Counted downwards: the least integer has no positive twin.
      let (tens, isTooLow) = number.multipliedReportingOverflow(by: 10)
      let (sum, isLower) = tens.subtractingReportingOverflow(Int64(digit))
      guard !isTooLow, !isLower else { throw Unfamiliar() }
      number = sum
      place += 1
    }
    let count = place - begin
    guard count > 0, count == 1 || text[begin] != UInt8(ascii: "0") else { throw Unfamiliar() }
    if isNegative { return number }
    guard number > .min else { throw Unfamiliar() }
    return -number
  }

  /// Unwraps a required value.
  static func needed<Value>(_ value: Value?) throws(Unfamiliar) -> Value {
    guard let value else { throw Unfamiliar() }
    return value
  }

  /// Consumes a key if it comes next, with the comma before it.
  private mutating func take(_ key: StaticString) -> Bool {
    var at = place
    if !isFirst {
      guard at < text.count, text[at] == UInt8(ascii: ",") else { return false }
      at += 1
    }
    let count = key.utf8CodeUnitCount
    // Two quotes and a colon. The check also proves that the key's bytes are within the text.
    guard let start = text.baseAddress, at + count + 3 <= text.count, text[at] == UInt8(ascii: "\""),
      memcmp(key.utf8Start, start + at + 1, count) == 0, text[at + 1 + count] == UInt8(ascii: "\""),
      text[at + 2 + count] == UInt8(ascii: ":")
    else { return false }
    place = at + count + 3
    isFirst = false
    return true
  }

  private mutating func quoted() throws(Unfamiliar) -> UnsafeBufferPointer<UInt8> {
    try expect(UInt8(ascii: "\""))
    let begin = place
    while place < text.count, JSONWriter.isPlain(text[place]) { place += 1 }
    let content = UnsafeBufferPointer(rebasing: text[begin..<place])
    try expect(UInt8(ascii: "\""))
    return content
  }

  private mutating func expect(_ byte: UInt8) throws(Unfamiliar) {
    guard takeByte(byte) else { throw Unfamiliar() }
  }

  private mutating func takeByte(_ byte: UInt8) -> Bool {
    guard place < text.count, text[place] == byte else { return false }
    place += 1
    return true
  }

  private mutating func takeLiteral(_ literal: StaticString) -> Bool {
    let end = place + literal.utf8CodeUnitCount
    guard end <= text.count, literal.withUTF8Buffer({ $0.elementsEqual(text[place..<end]) }) else { return false }
    place = end
    return true
  }
}

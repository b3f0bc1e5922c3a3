/// A writer of JSON (RFC 8259), value by value and without a container for each, in the spelling of Foundation's encoder
/// with unescaped slashes:
///
///     let body = JSONWriter.object { json in
///       json.member("user_id", user)
///       json.array("tiers") { json in tiers.forEach { json.value($0) } }
///     }
///
/// Members stay in the order in which they are written. The caller writes each name once.
package struct JSONWriter {
  package private(set) var bytes: [UInt8] = []
  private var needsComma = false
  private let isEscaped: (@Sendable (Unicode.Scalar) -> Bool)?

  /// - Parameters:
  ///   - capacity: the expected size in bytes.
  ///   - isEscaped: whether a scalar is written as `\uXXXX`, which JSON does not demand.
  package init(capacity: Int = 1024, escaping isEscaped: (@Sendable (Unicode.Scalar) -> Bool)? = nil) {
    bytes.reserveCapacity(capacity)
    self.isEscaped = isEscaped
  }

  package static func object(capacity: Int = 1024, _ body: (inout JSONWriter) throws -> Void) rethrows -> [UInt8] {
    var json = JSONWriter(capacity: capacity)
    try json.object(body)
    return json.bytes
  }

  // MARK: - Values

  package mutating func value(_ text: String?) {
    separate()
    if let text { quote(text) } else { append("null") }
    needsComma = true
  }

  package mutating func value(_ number: Int64?) {
    separate()
    if let number { digits(of: number) } else { append("null") }
    needsComma = true
  }

  package mutating func value(_ flag: Bool?) { value(raw: flag.map { $0 ? "true" : "false" } ?? "null") }

  /// - Parameter json: a value that is written as it is; nothing checks it.
  package mutating func value(raw json: String) {
    separate()
    bytes.append(contentsOf: json.utf8)
    needsComma = true
  }

  package mutating func object(_ body: (inout JSONWriter) throws -> Void) rethrows { try nest("{", "}", body) }

  package mutating func array(_ body: (inout JSONWriter) throws -> Void) rethrows { try nest("[", "]", body) }

  // MARK: - Members of an object

  // `nil` is written as `null`, and left out where it is named `ifPresent`.

  package mutating func member(_ name: String, _ text: String?) {
    begin(name)
    value(text)
  }

  package mutating func member(_ name: String, _ number: Int64?) {
    begin(name)
    value(number)
  }

  package mutating func member(_ name: String, _ flag: Bool?) {
    begin(name)
    value(flag)
  }

  package mutating func member(_ name: String, ifPresent text: String?) {
    if let text { member(name, text) }
  }

  package mutating func member(_ name: String, ifPresent number: Int64?) {
    if let number { member(name, number) }
  }

  package mutating func member(_ name: String, ifPresent flag: Bool?) {
    if let flag { member(name, flag) }
  }

  /// - Parameter json: a value that is written as it is; nothing checks it.
  package mutating func member(_ name: String, raw json: String) {
    begin(name)
    value(raw: json)
  }

  package mutating func object(_ name: String, _ body: (inout JSONWriter) throws -> Void) rethrows {
    begin(name)
    try object(body)
  }

  package mutating func array(_ name: String, _ body: (inout JSONWriter) throws -> Void) rethrows {
    begin(name)
    try array(body)
  }

  // MARK: - Bytes

  /// Whether a byte needs no escape between quotes.
  package static func isPlain(_ byte: UInt8) -> Bool {
    byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
  }

  private mutating func nest(
    _ open: StaticString, _ close: StaticString, _ body: (inout JSONWriter) throws -> Void
  ) rethrows {
    separate()
    append(open)
    needsComma = false
    try body(&self)
    append(close)
    needsComma = true
  }

  private mutating func begin(_ name: String) {
    separate()
    quote(name)
    bytes.append(UInt8(ascii: ":"))
    needsComma = false
  }

  private mutating func separate() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
  }

  private mutating func append(_ literal: StaticString) { literal.withUTF8Buffer { bytes.append(contentsOf: $0) } }

  private mutating func digits(of number: Int64) {
    if number < 0 { bytes.append(UInt8(ascii: "-")) }
    var rest = number.magnitude
    let begin = bytes.count
    repeat {
      bytes.append(UInt8(ascii: "0") + UInt8(rest % 10))
      rest /= 10
    } while rest > 0
    // In place: to reverse a slice would copy it.
    var (first, last) = (begin, bytes.count - 1)
    while first < last {
      bytes.swapAt(first, last)
      (first, last) = (first + 1, last - 1)
    }
  }

  private mutating func quote(_ text: String) {
    bytes.append(UInt8(ascii: "\""))
    var text = text
    // Nearly every text. Without a branch many bytes are looked at in one step.
    let isPlain = text.withUTF8 { text in
      var others: UInt8 = 0
      for byte in text {
        others |=
          (byte &- 0x20 > 0x5e ? 1 : 0) | (byte == UInt8(ascii: "\"") ? 1 : 0) | (byte == UInt8(ascii: "\\") ? 1 : 0)
      }
      if others == 0 { bytes.append(contentsOf: text) }
      return others == 0
    }
    if isPlain {
      // Written.
    } else if let isEscaped {
      for scalar in text.unicodeScalars {
        if scalar.value >= 0x20, isEscaped(scalar) {
          for unit in String(scalar).utf16 { escape(unit) }
        } else {
          escape(String(scalar))
        }
      }
    } else {
      escape(text)
    }
    bytes.append(UInt8(ascii: "\""))
  }

  /// Copies runs that need no escape at once: nearly always the whole text.
  private mutating func escape(_ text: String) {
    var text = text
    text.withUTF8 { text in
      var start = 0
      var index = 0
      while index < text.count {
        if !Self.isPlain(text[index]) {
          bytes.append(contentsOf: text[start..<index])
          escape(text[index])
          start = index + 1
        }
        index += 1
      }
      bytes.append(contentsOf: UnsafeBufferPointer(rebasing: text[start...]))
    }
  }

  private mutating func escape(_ byte: UInt8) {
    switch byte {
    case 0x08: append("\\b")
    case 0x0c: append("\\f")
    case 0x0a: append("\\n")
    case 0x0d: append("\\r")
    case 0x09: append("\\t")
    case 0..<0x20: escape(UInt16(byte))
    default: bytes += [UInt8(ascii: "\\"), byte]
    }
  }

  private mutating func escape(_ unit: UInt16) {
    append("\\u")
    for shift in stride(from: 12, through: 0, by: -4) {
      let digit = UInt8(unit >> shift & 0xf)
      bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
    }
  }
}

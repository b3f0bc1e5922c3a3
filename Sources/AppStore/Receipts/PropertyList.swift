import Entitlements

/// The reader of the old (NeXTSTEP) property list of iOS 6-style receipts: one dictionary from strings to strings.
///
///     { "key" = "value"; key = value; }
///
/// It does not nest: a value that is a dictionary, an array or data is rejected.
struct PropertyList {
  enum Malformed: Error, Hashable {
    case noDictionary, brokenString
    case missing(Character)
    case notText, tooManyKeys, repeatedKey, trailingBytes
  }

  static let keyLimit = 256

  private var rest: ArraySlice<UInt8>

  static func parse(_ bytes: [UInt8]) throws(Malformed) -> [String: String] {
    var reader = PropertyList(rest: bytes[...])
    return try reader.dictionary()
  }

  /// Whether the bytes start like one: a brace, a string, an equals sign. A description of data starts so, too.
  static func isLikely(_ bytes: ArraySlice<UInt8>) -> Bool {
    var reader = PropertyList(rest: bytes)
    guard reader.skip(UInt8(ascii: "{")), let key = try? reader.string(), key != "length" else { return false }
    return reader.skip(UInt8(ascii: "="))
  }

  private mutating func dictionary() throws(Malformed) -> [String: String] {
    guard skip(UInt8(ascii: "{")) else { throw .noDictionary }
    var dictionary: [String: String] = [:]
    while !skip(UInt8(ascii: "}")) {
      let key = try string()
      guard skip(UInt8(ascii: "=")) else { throw .missing("=") }
      let value = try string()
      guard skip(UInt8(ascii: ";")) else { throw .missing(";") }
      guard dictionary.updateValue(value, forKey: key) == nil else { throw .repeatedKey }
      guard dictionary.count <= Self.keyLimit else { throw .tooManyKeys }
    }
    skipWhitespace()
    // The end of a C string, which some clients send.
    if rest.first == 0 { rest = rest.dropFirst() }
    guard rest.isEmpty else { throw .trailingBytes }
    return dictionary
  }

  private mutating func skipWhitespace() { rest = rest.drop { $0 == 0x20 || (0x09...0x0D).contains($0) } }

  private mutating func skip(_ byte: UInt8) -> Bool {
    skipWhitespace()
    guard rest.first == byte else { return false }
    rest = rest.dropFirst()
    return true
  }

  private mutating func string() throws(Malformed) -> String {
    let octets = skip(UInt8(ascii: "\"")) ? try quoted() : bare()
    guard !octets.isEmpty || rest.first != nil else { throw .brokenString }
    guard let text = String(validating: octets, as: UTF8.self) else { throw .notText }
    return text
  }

  /// A word without quotes: letters, digits and `_$/:.-`.
  private mutating func bare() -> [UInt8] {
    let word = rest.prefix { $0.isDigit || $0.isLetter || "_$/:.-".utf8.contains($0) }
    rest = rest.dropFirst(word.count)
    return Array(word)
  }

  private mutating func quoted() throws(Malformed) -> [UInt8] {
    var octets: [UInt8] = []
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "\""): return octets
      case UInt8(ascii: "\\"): octets += try escaped()
      default: octets.append(byte)
      }
    }
    throw .brokenString
  }

  /// An escape after its backslash: one letter, up to three octal digits, or `U` with four hexadecimal digits.
  private mutating func escaped() throws(Malformed) -> [UInt8] {
    guard let byte = rest.popFirst() else { throw .brokenString }
    switch byte {
    case UInt8(ascii: "n"): return [0x0A]
    case UInt8(ascii: "r"): return [0x0D]
    case UInt8(ascii: "t"): return [0x09]
    case UInt8(ascii: "a"): return [0x07]
    case UInt8(ascii: "b"): return [0x08]
    case UInt8(ascii: "f"): return [0x0C]
    case UInt8(ascii: "v"): return [0x0B]
    case UInt8(ascii: "\\"), UInt8(ascii: "\""), UInt8(ascii: "'"), 0x0A: return [byte]
    case UInt8(ascii: "0")...UInt8(ascii: "7"):
      var value = UInt32(byte & 0x07)
      for digit in rest.prefix(2).prefix(while: { (0x30...0x37).contains($0) }) {
        value = value << 3 | UInt32(digit & 0x07)
        rest = rest.dropFirst()
      }
      return try encoded(value)
    case UInt8(ascii: "U"):
      let digits = rest.prefix(4)
      guard digits.count == 4, let text = String(validating: digits, as: UTF8.self), let value = UInt32(text, radix: 16)
      else { throw .brokenString }
      rest = rest.dropFirst(4)
      return try encoded(value)
    default: throw .brokenString
    }
  }

  private func encoded(_ value: UInt32) throws(Malformed) -> [UInt8] {
    guard let scalar = Unicode.Scalar(value) else { throw .notText }
    return Array(String(Character(scalar)).utf8)
  }
}

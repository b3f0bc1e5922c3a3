internal import Entitlements
internal import Glibc

import struct FoundationEssentials.Data

/// The names of an erased user, and where texts have them.
struct ErasedNames: Sendable {
  /// Every name in every spelling: as it is, and a UUID in small letters and in capitals too.
  let spellings: Set<String>
  /// The spellings as JSON writes them, in quotation marks.
  private let quoted: [[UInt8]]
  /// The names that are long enough to be nobody else's, without quotation marks: a receipt is no JSON.
  private let long: [[UInt8]]

  init(_ users: some Sequence<UserID>) {
    var spellings: Set<String> = []
    for user in users { spellings.formUnion([user.rawValue, user.key] + user.spellings) }
    self.spellings = spellings
    quoted = spellings.flatMap(Self.quoted)
    long = spellings.map { Array($0.utf8) }.filter { $0.count >= Self.longName }
  }

  /// The names that a purchase at Apple's can have: it names accounts by UUIDs.
  var hasAccounts: Bool { spellings.contains { UserID($0).accountToken != nil } }

  func isName(_ text: String) -> Bool { spellings.contains(text) || spellings.contains(UserID(text).key) }

  /// Whether a JSON text has a name as a string, by itself.
  func occurs(inJSON text: String) -> Bool {
    var text = text
    return text.withUTF8 { bytes in quoted.contains { Self.place(of: $0, in: bytes) != nil } }
  }

  /// Whether a receipt or a JWS has a name, in plain or in base64: a JWS has JSON in base64, with a JWS inside.
  func occurs(inSigned text: String) -> Bool { occurs(inLayers: Array(text.utf8), depth: 3) }

  private func occurs(inLayers bytes: [UInt8], depth: Int) -> Bool {
    let isHere = bytes.withUnsafeBufferPointer { bytes in
      (quoted + long).contains { Self.place(of: $0, in: bytes) != nil }
    }
    guard !isHere, depth > 0 else { return isHere }
    return bytes.split(whereSeparator: { !Self.isBase64($0) }).contains { run in
      // Shorter ones cannot hold a name with its quotation marks and member.
      guard run.count >= 16 else { return false }
      return Self.decoded(run).map { occurs(inLayers: $0, depth: depth - 1) } ?? false
    }
  }

  /// A text without the names: a long one wherever it stands, a shorter one where it is a word. One of a few letters may be
  /// a word of any language.
  func redacted(_ text: String) -> String {
    var bytes = Array(text.utf8)
    for name in spellings.map({ Array($0.utf8) }).filter({ $0.count >= 4 }).sorted(by: { $0.count > $1.count }) {
      var start = 0
      while let place = bytes.withUnsafeBufferPointer({ Self.place(of: name, in: $0, from: start) }) {
        let end = place + name.count
        let isWord =
          name.count >= Self.longName
          || (place == 0 || !Self.continuesWord(bytes[place - 1]))
            && (end == bytes.count || !Self.continuesWord(bytes[end]))
        if isWord {
          bytes.replaceSubrange(place..<end, with: Self.mark)
          start = place + Self.mark.count
        } else {
          start = place + 1
        }
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// A JSON text without the names: as strings by themselves, however short, and within others.
  func redacted(inJSON text: String) -> String {
    redacted(
      quoted.reduce(text) { $0.replacing(String(decoding: $1, as: UTF8.self), with: "\"\(Self.text)\"") })
  }

  /// The bytes from which on a name is taken for nothing else: a UUID has 36.
  private static let longName = 16

  /// The text in the place of one that is erased.
  static let text = "(erased)"
  private static let mark = Array(text.utf8)

  private static func continuesWord(_ byte: UInt8) -> Bool {
    byte.isLetter || byte.isDigit || "_-@".utf8.contains(byte) || byte >= 0x80
  }

  private static func isBase64(_ byte: UInt8) -> Bool {
    byte.isLetter || byte.isDigit || "+/-_".utf8.contains(byte)
  }

  /// Base64 of either alphabet without its padding (RFC 4648, sections 4 and 5).
  private static func decoded(_ run: ArraySlice<UInt8>) -> [UInt8]? {
    var text = run.map { byte in
      switch byte {
      case UInt8(ascii: "-"): UInt8(ascii: "+")
      case UInt8(ascii: "_"): UInt8(ascii: "/")
      default: byte
      }
    }
    if text.count % 4 == 1 { text.removeLast() }
    while text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
    return Data(base64Encoded: Data(text)).map { Array($0) }
  }

  /// The ways in which JSON may write a string: with what lies beyond ASCII as it is, or escaped.
  private static func quoted(_ text: String) -> [[UInt8]] {
    var plain: [UInt8] = []
    var escaped: [UInt8] = []
    for unit in text.utf16 {
      switch unit {
      case 0x22, 0x5C:
        escaped += [0x5C, UInt8(truncatingIfNeeded: unit)]
      case 0x20..<0x7F: escaped.append(UInt8(truncatingIfNeeded: unit))
      default:
        let digits = String(unit, radix: 16)
        escaped += Array("\\u\(String(repeating: "0", count: 4 - digits.utf8.count))\(digits)".utf8)
      }
    }
    for byte in text.utf8 {
      if byte == 0x22 || byte == 0x5C { plain.append(0x5C) }
      plain.append(byte)
    }
    return plain == escaped ? [[0x22] + plain + [0x22]] : [[0x22] + plain + [0x22], [0x22] + escaped + [0x22]]
  }

  private static func place(of needle: [UInt8], in text: UnsafeBufferPointer<UInt8>, from start: Int = 0) -> Int? {
    guard let first = needle.first, let base = text.baseAddress else { return nil }
    var start = start
    while text.count - start >= needle.count {
      guard let found = memchr(base + start, Int32(first), text.count - start - needle.count + 1) else { return nil }
      let place = UnsafeRawPointer(base).distance(to: UnsafeRawPointer(found))
      if memcmp(base + place, needle, needle.count) == 0 { return place }
      start = place + 1
    }
    return nil
  }
}

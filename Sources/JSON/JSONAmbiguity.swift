import FoundationEssentials

/// Features of a JSON text that other readers may interpret differently from Foundation's decoder, or refuse.
package enum JSONAmbiguity: Hashable {
  /// A duplicate name; its bytes.
  case repeated([UInt8])
  /// A name with an escape, so that comparing bytes proves nothing.
  case escaped
  /// A leading byte order mark (RFC 8259, section 8.1).
  case mark
  case trailingComma

  private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

  /// Inspects a text that the decoder accepted: the members of its outermost object.
  ///
  /// - Returns: `nil` if all readers agree.
  package static func first(in json: UnsafeRawBufferPointer) -> JSONAmbiguity? {
    guard !json.starts(with: byteOrderMark) else { return .mark }
    var depth = 0
    var names: Set<[UInt8]> = []
    /// The last string.
    var string = 0..<0
    var hasEscape = false
    /// Only white space followed the last comma.
    var isBehindComma = false
    var place = 0
    while place < json.count {
      let byte = json[place]
      place += 1
      switch byte {
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): continue
      case UInt8(ascii: ","):
        isBehindComma = true
        continue
      case UInt8(ascii: "\""):
        let begin = place
        (place, hasEscape) = endOfString(json, from: begin)
        string = begin..<place
        place += 1
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        guard !isBehindComma else { return .trailingComma }
        depth -= 1
      case UInt8(ascii: ":") where depth == 1:
        // The string before a colon is a name.
        guard !hasEscape else { return .escaped }
        let name = Array(json[string].prefix(256))
        guard names.insert(name).inserted else { return .repeated(name) }
      default: break
      }
      isBehindComma = false
    }
    return nil
  }

  /// The place of the closing quote, or the end of a text that has none. A receipt is a string of some thousand bytes.
  private static func endOfString(_ json: UnsafeRawBufferPointer, from begin: Int) -> (place: Int, hasEscape: Bool) {
    let quote = json.first(UInt8(ascii: "\""), from: begin) ?? json.count
    let escape = UnsafeRawBufferPointer(rebasing: json[begin..<quote]).first(UInt8(ascii: "\\"))
    guard let escape else { return (quote, false) }
    var place = begin + escape
    while place < json.count, json[place] != UInt8(ascii: "\"") { place += json[place] == UInt8(ascii: "\\") ? 2 : 1 }
    return (min(place, json.count), true)
  }
}

import FoundationEssentials

/// Features of a JSON text that other readers may interpret differently from Foundation's decoder, or refuse.
package enum JSONAmbiguity: Hashable {
  /// A duplicate name; its bytes.
  case repeated([UInt8])
  /// A name with an escape, so that comparing bytes proves nothing.
  case escaped
  /// A leading byte order mark (RFC 8259, section 8.1).
  case mark
  /// A comma before the end of an object or a list.
  case trailingComma

  private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

  /// Inspects a text that the decoder accepted; of its members, those of the outermost object.
  ///
  /// - Returns: `nil` if all readers agree.
  package init?(in json: UnsafeRawBufferPointer) {
    guard !json.starts(with: Self.byteOrderMark) else {
      self = .mark
      return
    }
    var depth = 0
    var names: Set<[UInt8]> = []
    var string: [UInt8] = []
    var isInString = false
    var isEscaped = false
    var hasEscape = false
    /// Only white space followed the last comma.
    var isBehindComma = false
    for byte in json {
      if isInString {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
          hasEscape = true
        } else if byte == UInt8(ascii: "\"") {
          isInString = false
        } else if depth == 1, string.count < 256 {
          string.append(byte)
        }
        continue
      }
      switch byte {
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): continue
      case UInt8(ascii: ","):
        isBehindComma = true
        continue
      case UInt8(ascii: "\""):
        isInString = true
        hasEscape = false
        string.removeAll(keepingCapacity: true)
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        guard !isBehindComma else {
          self = .trailingComma
          return
        }
        depth -= 1
      case UInt8(ascii: ":") where depth == 1:
        // The text before a colon is a name.
        guard !hasEscape else {
          self = .escaped
          return
        }
        guard names.insert(string).inserted else {
          self = .repeated(string)
          return
        }
      default: break
      }
      isBehindComma = false
    }
    return nil
  }
}

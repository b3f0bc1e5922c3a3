import FoundationEssentials

/// Finds names of members that make a JSON object ambiguous.
enum JSONMemberNames {
  enum Ambiguity: Hashable {
    /// A name is given twice; its bytes.
    case repeated([UInt8])
    /// A name is written with an escape, so that comparing bytes says nothing.
    case escaped
  }

  /// Looks at the members of the outermost object of valid JSON.
  static func ambiguity(in json: some Sequence<UInt8>) -> Ambiguity? {
    var depth = 0
    var names: Set<[UInt8]> = []
    var string: [UInt8] = []
    var isInString = false
    var isEscaped = false
    var hasEscape = false
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
      case UInt8(ascii: "\""):
        isInString = true
        hasEscape = false
        string.removeAll(keepingCapacity: true)
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
      case UInt8(ascii: ":") where depth == 1:
        // What went before a colon is a name.
        if hasEscape { return .escaped }
        guard names.insert(string).inserted else { return .repeated(string) }
      default: break
      }
    }
    return nil
  }
}

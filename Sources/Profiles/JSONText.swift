/// A JSON value to be written: the few kinds that a profile has.
enum JSONText {
  case text(String)
  case integer(Int64)
  case null

  static func object(_ members: [(String, JSONText)]) -> [UInt8] {
    var bytes = [UInt8(ascii: "{")]
    for (index, (name, value)) in members.enumerated() {
      if index > 0 { bytes.append(UInt8(ascii: ",")) }
      append(quoted: name, to: &bytes)
      bytes.append(UInt8(ascii: ":"))
      switch value {
      case .text(let text): append(quoted: text, to: &bytes)
      case .integer(let number): bytes += Array(String(number).utf8)
      case .null: bytes += Array("null".utf8)
      }
    }
    bytes.append(UInt8(ascii: "}"))
    return bytes
  }

  /// RFC 8259, section 7: quotation mark, reverse solidus and control characters are escaped, nothing else has to be.
  private static func append(quoted text: String, to bytes: inout [UInt8]) {
    bytes.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        bytes += [UInt8(ascii: "\\"), byte]
      case 0..<0x20:
        let hexadecimal = String(byte, radix: 16)
        bytes += Array((byte < 0x10 ? "\\u000" : "\\u00").utf8) + Array(hexadecimal.utf8)
      default:
        bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }
}

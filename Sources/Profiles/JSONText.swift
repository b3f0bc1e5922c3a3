import HTTPTransport

/// A JSON value to be written: the few kinds that a profile has.
enum JSONText {
  case text(String)
  case integer(Int64)
  case null

  static func object(_ members: [(String, JSONText)]) -> [UInt8] {
    var bytes = [UInt8(ascii: "{")]
    for (index, (name, value)) in members.enumerated() {
      if index > 0 { bytes.append(UInt8(ascii: ",")) }
      bytes.append(jsonString: name)
      bytes.append(UInt8(ascii: ":"))
      switch value {
      case .text(let text): bytes.append(jsonString: text)
      case .integer(let number): bytes += String(number).utf8
      case .null: bytes += "null".utf8
      }
    }
    bytes.append(UInt8(ascii: "}"))
    return bytes
  }
}

/// Writes one JSON object, member by member. `nil` is written as `null`.
package struct JSONObjectWriter {
  private var bytes = [UInt8(ascii: "{")]

  package init() { bytes.reserveCapacity(1024) }

  package mutating func member(_ name: String, _ text: String?) {
    begin(name)
    if let text { bytes.append(jsonString: text) } else { bytes += "null".utf8 }
  }

  package mutating func member(_ name: String, _ number: Int64?) {
    begin(name)
    bytes += (number.map { String($0) } ?? "null").utf8
  }

  package mutating func member(_ name: String, _ flag: Bool?) {
    begin(name)
    bytes += (flag.map { $0 ? "true" : "false" } ?? "null").utf8
  }

  /// - Parameter json: a value that is written as it is; nothing checks it.
  package mutating func member(_ name: String, json: [UInt8]?) {
    begin(name)
    bytes += json ?? Array("null".utf8)
  }

  private mutating func begin(_ name: String) {
    if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
    bytes.append(jsonString: name)
    bytes.append(UInt8(ascii: ":"))
  }

  /// The complete object.
  package consuming func finished() -> [UInt8] {
    bytes.append(UInt8(ascii: "}"))
    return bytes
  }
}

/// Writes DER (and the BER forms that receipts occur in), for receipts made in tests.
enum DER {
  static func tlv(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
    var length: [UInt8] = []
    if content.count < 0x80 {
      length = [UInt8(content.count)]
    } else {
      var rest = content.count
      while rest > 0 {
        length.insert(UInt8(rest & 0xFF), at: 0)
        rest >>= 8
      }
      length.insert(0x80 | UInt8(length.count), at: 0)
    }
    return [tag] + length + content
  }

  /// BER: indefinite length, ended by two zero octets. `tag` must be constructed.
  static func indefinite(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] { [tag, 0x80] + content + [0, 0] }

  static func sequence(_ parts: [UInt8]...) -> [UInt8] { tlv(0x30, parts.flatMap { $0 }) }
  static func set(_ parts: [[UInt8]]) -> [UInt8] { tlv(0x31, parts.flatMap { $0 }) }
  static func octets(_ bytes: [UInt8]) -> [UInt8] { tlv(0x04, bytes) }
  static func utf8(_ text: String) -> [UInt8] { tlv(0x0C, Array(text.utf8)) }
  static func ia5(_ text: String) -> [UInt8] { tlv(0x16, Array(text.utf8)) }
  static func bits(_ bytes: [UInt8]) -> [UInt8] { tlv(0x03, [0] + bytes) }
  static func explicit(_ number: UInt8, _ content: [UInt8]) -> [UInt8] { tlv(0xA0 | number, content) }
  /// UTCTime, as in `230102030405Z`.
  static func utcTime(_ text: String) -> [UInt8] { tlv(0x17, Array(text.utf8)) }
  static let null: [UInt8] = [0x05, 0x00]
  static let yes: [UInt8] = [0x01, 0x01, 0xFF]

  static func integer(_ value: Int64) -> [UInt8] {
    var octets = (0..<8).map { UInt8(truncatingIfNeeded: value >> (56 - 8 * Int64($0))) }
    while octets.count > 1,
      (octets[0] == 0 && octets[1] < 0x80) || (octets[0] == 0xFF && octets[1] >= 0x80)
    {
      octets.removeFirst()
    }
    return tlv(0x02, octets)
  }

  static func oid(_ dotted: String) -> [UInt8] {
    let arcs = dotted.split(separator: ".").compactMap { UInt64($0) }
    var content = [UInt8(arcs[0] * 40 + arcs[1])]
    for arc in arcs.dropFirst(2) {
      var octets = [UInt8(arc & 0x7F)]
      var rest = arc >> 7
      while rest > 0 {
        octets.insert(0x80 | UInt8(rest & 0x7F), at: 0)
        rest >>= 7
      }
      content += octets
    }
    return tlv(0x06, content)
  }

  static func algorithm(_ dotted: String) -> [UInt8] { sequence(oid(dotted), null) }
  static func name(_ common: String) -> [UInt8] {
    sequence(set([sequence(oid("2.5.4.3"), utf8(common))]))
  }
}

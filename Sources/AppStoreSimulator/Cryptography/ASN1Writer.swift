/// Writes ASN.1 values, of definite length (DER) or indefinite length (BER).
///
/// Receipts from Xcode are BER, and readers have to be tested with these too.
enum ASN1Writer {
  enum Tag {
    static let integer: UInt8 = 0x02
    static let octetString: UInt8 = 0x04
    static let null: UInt8 = 0x05
    static let objectIdentifier: UInt8 = 0x06
    static let utf8String: UInt8 = 0x0C
    static let ia5String: UInt8 = 0x16
    static let constructedOctetString: UInt8 = 0x24
    static let sequence: UInt8 = 0x30
    static let set: UInt8 = 0x31
    static let contextual0: UInt8 = 0xA0
  }

  static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] { [tag] + length(content.count) + content }

  /// A constructed value that ends with two zero octets (X.690, section 8.1.3.6).
  static func indefinite(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] { [tag, 0x80] + content + [0, 0] }

  static func integer(_ number: Int64) -> [UInt8] {
    var octets = withUnsafeBytes(of: number.bigEndian) { Array($0) }
    // The shortest two's complement form: a leading octet is dropped when the next one has the same sign bit.
    while let first = octets.first, let second = octets.dropFirst().first,
      (first == 0x00 && second < 0x80) || (first == 0xFF && second >= 0x80)
    { octets.removeFirst() }
    return value(Tag.integer, octets)
  }

  /// An INTEGER that is not negative, from its octets, big-endian.
  static func unsigned(_ magnitude: [UInt8]) -> [UInt8] {
    let digits = Array(magnitude.drop { $0 == 0 })
    return value(Tag.integer, (digits.first ?? 0x80) >= 0x80 ? [0] + digits : digits)
  }

  static func utf8(_ text: String) -> [UInt8] { value(Tag.utf8String, Array(text.utf8)) }

  static func ia5(_ text: String) -> [UInt8] { value(Tag.ia5String, Array(text.utf8)) }

  /// An object identifier, from its arcs.
  static func objectIdentifier(_ arcs: [UInt64]) -> [UInt8] {
    guard let first = arcs.first, let second = arcs.dropFirst().first else { return value(Tag.objectIdentifier, []) }
    let content = ([first * 40 + second] + arcs.dropFirst(2)).flatMap(base128)
    return value(Tag.objectIdentifier, content)
  }

  private static func base128(_ arc: UInt64) -> [UInt8] {
    var octets = [UInt8(arc & 0x7F)]
    var rest = arc >> 7
    while rest > 0 {
      octets.insert(UInt8(rest & 0x7F) | 0x80, at: 0)
      rest >>= 7
    }
    return octets
  }

  private static func length(_ count: Int) -> [UInt8] {
    if count < 0x80 { return [UInt8(count)] }
    var octets: [UInt8] = []
    var rest = count
    while rest > 0 {
      octets.insert(UInt8(rest & 0xFF), at: 0)
      rest >>= 8
    }
    return [0x80 | UInt8(octets.count)] + octets
  }
}

/// One ASN.1 value with everything inside it, read from BER (X.690, section 8.1), which includes DER.
///
/// Tag numbers above 30 are refused: no receipt has one.
struct ASN1Value {
  enum Content {
    case primitive(ArraySlice<UInt8>)
    case constructed([ASN1Value])
  }

  /// Bounds the recursion.
  private static let deepest = 50

  /// The identifier octet without the bit that marks a constructed value.
  let tag: UInt8
  let content: Content

  /// - Returns: `nil` for anything but exactly one value.
  init?(_ bytes: some Collection<UInt8>) {
    var rest = Array(bytes)[...]
    self.init(reading: &rest, depth: 1)
    guard rest.isEmpty else { return nil }
  }

  private init?(reading rest: inout ArraySlice<UInt8>, depth: Int) {
    guard depth <= Self.deepest, let identifier = rest.popFirst(), identifier & 0x1F != 0x1F, identifier & ~0x20 != 0,
      let length = Self.length(&rest)
    else { return nil }
    let isConstructed = identifier & 0x20 != 0
    tag = identifier & ~0x20
    var values: [ASN1Value] = []
    switch length {
    case .definite(let count):
      guard count <= rest.count else { return nil }
      var inside = rest.prefix(count)
      rest = rest.dropFirst(count)
      guard isConstructed else {
        content = .primitive(inside)
        return
      }
      while !inside.isEmpty {
        guard let value = ASN1Value(reading: &inside, depth: depth + 1) else { return nil }
        values.append(value)
      }
    case .indefinite:
      guard isConstructed else { return nil }
      while !rest.starts(with: [0, 0]) {
        guard let value = ASN1Value(reading: &rest, depth: depth + 1) else { return nil }
        values.append(value)
      }
      rest = rest.dropFirst(2)
    }
    content = .constructed(values)
  }

  private enum Length {
    case definite(Int)
    case indefinite
  }

  private static func length(_ rest: inout ArraySlice<UInt8>) -> Length? {
    guard let first = rest.popFirst() else { return nil }
    if first == 0x80 { return .indefinite }
    guard first > 0x80 else { return .definite(Int(first)) }
    let octets = rest.prefix(Int(first & 0x7F))
    rest = rest.dropFirst(octets.count)
    let digits = octets.drop { $0 == 0 }
    guard octets.count == Int(first & 0x7F), digits.count < 8 else { return nil }
    return .definite(digits.reduce(0) { $0 << 8 | Int($1) })
  }

  /// The values inside a constructed one.
  var children: [ASN1Value]? {
    guard case .constructed(let values) = content else { return nil }
    return values
  }

  /// The octets of an OCTET STRING, in one piece or in several.
  var octets: [UInt8]? {
    guard tag == ASN1Writer.Tag.octetString else { return nil }
    switch content {
    case .primitive(let bytes): return Array(bytes)
    case .constructed(let pieces):
      var bytes: [UInt8] = []
      for piece in pieces {
        guard case .primitive(let part) = piece.content else { return nil }
        bytes += part
      }
      return bytes
    }
  }

  /// The octets of an INTEGER, in two's complement.
  var integer: ArraySlice<UInt8>? {
    guard tag == ASN1Writer.Tag.integer, case .primitive(let bytes) = content, !bytes.isEmpty else { return nil }
    return bytes
  }
}

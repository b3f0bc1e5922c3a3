/// Reads the elements of one level of DER, one after the other.
///
/// It never recurses: a caller descends by making another reader over an element's content, so the caller's code
/// decides the depth, not the bytes. Every length is checked against the rest. Indefinite lengths and tags above 30 are
/// refused; neither occurs inside the payload of a receipt (ITU-T X.690, sections 8.1 and 10.1).
struct DERReader {
  struct Element {
    /// Class and constructed bit included: 0x30 SEQUENCE, 0x31 SET, 0x04 OCTET STRING, 0x02 INTEGER.
    var tag: UInt8
    var content: ArraySlice<UInt8>
  }

  /// The place of an element's content. A loop over many elements uses it, as it retains nothing.
  struct Place {
    var tag: UInt8
    var content: Range<Int>
  }

  enum Malformed: Error, Hashable {
    case truncated
    case unsupportedTag, indefiniteLength
    /// A length of more than four octets.
    case lengthTooLong
  }

  private let bytes: ArraySlice<UInt8>
  private var position: Int
  private var end: Int

  init(_ bytes: ArraySlice<UInt8>) {
    self.bytes = bytes
    position = bytes.startIndex
    end = bytes.endIndex
  }

  var isAtEnd: Bool { position == end }

  mutating func next() throws(Malformed) -> Element? {
    guard let place = try nextPlace() else { return nil }
    return Element(tag: place.tag, content: bytes[place.content])
  }

  /// Reads the content of the last element, and then goes on behind it.
  mutating func inside<Result, Failure: Error>(
    _ element: Place, _ body: (inout DERReader) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let outer = (position, end)
    (position, end) = (element.content.lowerBound, element.content.upperBound)
    defer { (position, end) = outer }
    return try body(&self)
  }

  mutating func nextPlace() throws(Malformed) -> Place? {
    guard let tag = octet() else { return nil }
    guard tag & 0x1F != 0x1F else { throw .unsupportedTag }
    guard let first = octet() else { throw .truncated }
    var length = Int(first)
    if first & 0x80 != 0 {
      let octets = Int(first & 0x7F)
      guard octets > 0 else { throw .indefiniteLength }
      guard octets <= 4 else { throw .lengthTooLong }
      length = 0
      for _ in 0..<octets {
        guard let octet = octet() else { throw .truncated }
        length = length << 8 | Int(octet)
      }
    }
    guard length <= end - position else { throw .truncated }
    let start = position
    position += length
    return Place(tag: tag, content: start..<position)
  }

  private mutating func octet() -> UInt8? {
    guard position < end else { return nil }
    defer { position += 1 }
    return bytes[position]
  }

  /// The only element of `bytes`; `nil` when there is none or more than one.
  static func single(_ bytes: ArraySlice<UInt8>) throws(Malformed) -> Element? {
    var reader = DERReader(bytes)
    guard let element = try reader.next(), reader.isAtEnd else { return nil }
    return element
  }

  /// The value of an INTEGER of at most eight octets.
  static func integer(_ content: ArraySlice<UInt8>) -> Int64? {
    guard let first = content.first, content.count <= 8 else { return nil }
    return content.dropFirst().reduce(Int64(Int8(bitPattern: first))) { $0 << 8 | Int64($1) }
  }
}

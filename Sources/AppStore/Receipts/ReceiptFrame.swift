/// The parts of an app receipt beside its payload and its signature: versions, algorithms, certificates, and the name of
/// the signer.
///
/// Apple signs millions of receipts in the same few frames. Everything that is read from a frame, or judged by it alone,
/// is the same for two receipts of the same frame, octet for octet.
struct ReceiptFrame: Hashable, Sendable {
  /// The longest frame that is worth remembering. Apple's have about 4 KiB.
  static let rememberedLimit = 16 * 1_024

  /// From the version up to the content.
  private let head: ArraySlice<UInt8>
  /// From the certificates up to the signature, including the signature's length.
  private let tail: ArraySlice<UInt8>

  fileprivate init(head: ArraySlice<UInt8>, tail: ArraySlice<UInt8>) {
    self.head = head
    self.tail = tail
  }

  var count: Int { head.count + tail.count }

  /// The place of the certificates, and of the little behind them, in the receipt that it was found in.
  var tailRange: Range<Int> { tail.startIndex..<tail.endIndex }

  /// The same frame without the receipt that it was found in, which its slices would keep alive.
  var detached: ReceiptFrame { ReceiptFrame(head: Array(head)[...], tail: Array(tail)[...]) }

  /// The end of the tail, which names the signer: the certificates before it take as long to hash as the rest of a look-up. Equality
  /// compares all octets.
  func hash(into hasher: inout Hasher) {
    hasher.combine(count)
    tail.suffix(256).withUnsafeBytes { hasher.combine(bytes: $0) }
  }

  static func == (left: ReceiptFrame, right: ReceiptFrame) -> Bool {
    left.head.hasSameOctets(as: right.head) && left.tail.hasSameOctets(as: right.tail)
  }
}

/// An app receipt taken apart into its frame, its payload and its signature.
///
///     SEQUENCE { signedData, [0] { SEQUENCE {
///       version, digest algorithms,                            head of the frame
///       SEQUENCE { data, [0] { OCTET STRING payload } },
///       [0] certificates, SET { SEQUENCE {                     tail of the frame
///         version, issuer and serial number, digest algorithm, signature algorithm, OCTET STRING signature } } } } }
///
/// This reader knows one form, in DER, which is how Apple writes receipts (RFC 5652, sections 5.1 and 5.3). It decides
/// nothing: OpenSSL (`SignedMessage`), which takes BER, signed attributes and more, reads every other form and each new
/// frame.
struct FramedReceipt {
  let frame: ReceiptFrame
  /// The octets that are signed; never empty.
  let content: ArraySlice<UInt8>
  let signature: ArraySlice<UInt8>

  init?(_ bytes: [UInt8]) {
    var cursor = Cursor(bytes)
    guard cursor.enterLast(0x30), cursor.skip(over: Self.signedData), cursor.enterLast(0xA0), cursor.enterLast(0x30)
    else { return nil }

    let headStart = cursor.position
    guard cursor.skip(0x02), cursor.skip(0x31) else { return nil }
    let headEnd = cursor.position
    guard let container = cursor.enter(0x30), cursor.skip(over: Self.data),
      let wrapper = cursor.enter(0xA0), wrapper.upperBound == container.upperBound,
      let content = cursor.enter(0x04), content.upperBound == container.upperBound, !content.isEmpty,
      cursor.leave(container)
    else { return nil }

    let tailStart = cursor.position
    guard cursor.skip(0xA0), cursor.enterLast(0x31), cursor.enterLast(0x30), cursor.skip(0x02), cursor.skip(0x30),
      cursor.skip(0x30), cursor.skip(0x30), cursor.enterLast(0x04), cursor.position < bytes.count
    else { return nil }

    frame = ReceiptFrame(head: bytes[headStart..<headEnd], tail: bytes[tailStart..<cursor.position])
    self.content = bytes[content]
    signature = bytes[cursor.position...]
  }

  /// The object identifier 1.2.840.113549.1.7.2.
  private static let signedData: [UInt8] = [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x02]
  /// The object identifier 1.2.840.113549.1.7.1.
  private static let data: [UInt8] = [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01]

  /// A place in the octets. Each step says whether the expected octets are there.
  private struct Cursor {
    private let bytes: [UInt8]
    private(set) var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Steps behind the header of an element and tells where its content lies.
    mutating func enter(_ tag: UInt8) -> Range<Int>? {
      guard let range = header(tag) else { return nil }
      position = range.lowerBound
      return range
    }

    /// Steps into an element that reaches to the end of the receipt.
    mutating func enterLast(_ tag: UInt8) -> Bool { enter(tag)?.upperBound == bytes.count }

    mutating func skip(_ tag: UInt8) -> Bool {
      guard let range = header(tag) else { return false }
      position = range.upperBound
      return true
    }

    mutating func skip(over octets: [UInt8]) -> Bool {
      guard bytes.count - position >= octets.count, bytes[position..<(position + octets.count)].elementsEqual(octets)
      else { return false }
      position += octets.count
      return true
    }

    mutating func leave(_ element: Range<Int>) -> Bool {
      position = element.upperBound
      return true
    }

    /// Where the content of the element lies that starts here; its length is written as DER demands, in as few octets
    /// as will do (X.690, section 10.1), and ends within the receipt.
    private func header(_ tag: UInt8) -> Range<Int>? {
      guard bytes.count - position >= 2, bytes[position] == tag else { return nil }
      let first = bytes[position + 1]
      let start: Int
      var length = 0
      if first < 0x80 {
        start = position + 2
        length = Int(first)
      } else {
        let octets = Int(first & 0x7F)
        start = position + 2 + octets
        guard (1...4).contains(octets), start <= bytes.count else { return nil }
        for octet in bytes[(position + 2)..<start] { length = length << 8 | Int(octet) }
        guard length >= 0x80, length >> (8 * (octets - 1)) > 0 else { return nil }
      }
      guard length <= bytes.count - start else { return nil }
      return start..<(start + length)
    }
  }
}

extension ArraySlice<UInt8> {
  /// Eight octets at a time.
  fileprivate func hasSameOctets(as other: ArraySlice<UInt8>) -> Bool {
    guard count == other.count else { return false }
    return withUnsafeBytes { left in
      other.withUnsafeBytes { right in
        let words = left.count & ~7
        // Both buffers have `left.count` octets, and eight more fit at every offset below `words`.
        for offset in stride(from: 0, to: words, by: 8) {
          let word = left.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
          guard word == right.loadUnaligned(fromByteOffset: offset, as: UInt64.self) else { return false }
        }
        return left[words...].elementsEqual(right[words...])
      }
    }
  }
}

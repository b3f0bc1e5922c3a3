import struct FoundationEssentials.Date

/// The attributes of a receipt's payload, or of one in-app record in it, by number.
///
///     SET OF SEQUENCE { type INTEGER, version INTEGER, value OCTET STRING }
///
/// Numbers that are not asked for are skipped unread, as Apple asks: some hold bytes that are no DER at all.
struct ReceiptAttributes {
  /// The most rows. The largest known receipts have hundreds.
  static let recordLimit = 20_000
  static let attributeLimit = 1_000

  /// The place of each attribute 17.
  private var records: [Range<Int>] = []
  private let bytes: ArraySlice<UInt8>
  /// The values of the numbers that Apple uses, by `place(of:)`.
  private var places = [Place](repeating: .empty, count: 64)
  /// The other numbers, which are never read.
  private var others: Set<Int64> = []
  /// The count of different numbers.
  private var count = 0

  private enum Place {
    case empty
    case value(Range<Int>)
    /// A number that occurs twice: neither can be trusted, so reading it is an error.
    case repeated
  }

  /// - Parameter payload: the content of the container: a SET, or an OCTET STRING (or two) around it, as some encoders
  ///   wrap the payload once more.
  init(payload: ArraySlice<UInt8>) throws(UndecodableReceipt) {
    var content = payload
    for _ in 0..<2 {
      guard let element = try Self.single(content), element.tag == 0x04 else { break }
      content = element.content
    }
    try self.init(set: content)
  }

  init(inAppRecord: ArraySlice<UInt8>) throws(UndecodableReceipt) {
    try self.init(set: inAppRecord)
    guard records.isEmpty else { throw .malformed("a row contains rows") }
  }

  /// The content of each attribute 17.
  var inAppRecords: some Sequence<ArraySlice<UInt8>> { records.lazy.map { bytes[$0] } }

  private init(set bytes: ArraySlice<UInt8>) throws(UndecodableReceipt) {
    self.bytes = bytes
    guard let set = try Self.single(bytes), set.tag == 0x31 else { throw .malformed("its payload is not a set") }
    do {
      var attributes = DERReader(set.content)
      while let attribute = try attributes.nextPlace() {
        let (number, value) = try attributes.inside(attribute) { fields in
          guard attribute.tag == 0x30,
            let type = try fields.nextPlace(), type.tag == 0x02, let number = DERReader.integer(bytes[type.content]),
            let version = try fields.nextPlace(), version.tag == 0x02,
            let value = try fields.nextPlace(), value.tag == 0x04, fields.isAtEnd
          else { throw UndecodableReceipt.malformed("an attribute has the wrong shape") }
          return (number, value.content)
        }
        try add(value, as: number)
      }
    } catch let error as UndecodableReceipt {
      throw error
    } catch {
      throw .malformed("an attribute has a wrong length")
    }
  }

  private mutating func add(_ value: Range<Int>, as number: Int64) throws(UndecodableReceipt) {
    if number == 17 {
      guard records.count < Self.recordLimit else { throw .malformed("it has more rows than any real receipt") }
      records.append(value)
    } else if isNew(number, value) {
      count += 1
      guard count <= Self.attributeLimit else { throw .malformed("it has more attributes than any real receipt") }
    }
  }

  private mutating func isNew(_ number: Int64, _ value: Range<Int>) -> Bool {
    guard let place = Self.place(of: number) else { return others.insert(number).inserted }
    switch places[place] {
    case .empty:
      places[place] = .value(value)
      return true
    case .value, .repeated:
      places[place] = .repeated
      return false
    }
  }

  /// 0 to 31 in a receipt, 1700 to 1731 in a row.
  private static func place(of number: Int64) -> Int? {
    switch number {
    case 0...31: Int(number)
    case 1_700...1_731: 32 + Int(number - 1_700)
    default: nil
    }
  }

  private static func single(_ bytes: ArraySlice<UInt8>) throws(UndecodableReceipt) -> DERReader.Element? {
    do {
      return try DERReader.single(bytes)
    } catch {
      throw .malformed("its payload has a wrong length")
    }
  }

  /// The raw value; empty if missing.
  func octets(_ number: Int64) throws(UndecodableReceipt) -> ArraySlice<UInt8> {
    guard let place = Self.place(of: number) else { return [] }
    switch places[place] {
    case .empty: return []
    case .value(let octets): return bytes[octets]
    case .repeated: throw .malformed("attribute \(number) occurs twice")
    }
  }

  /// A string; `nil` when absent or empty.
  func text(_ number: Int64) throws(UndecodableReceipt) -> String? {
    guard let octets = try characters(number) else { return nil }
    guard let text = String(validating: octets, as: UTF8.self) else { throw .unreadableText(number) }
    return text
  }

  /// The octets of a string; `nil` when absent or empty.
  private func characters(_ number: Int64) throws(UndecodableReceipt) -> ArraySlice<UInt8>? {
    guard let element = try element(number) else { return nil }
    switch element.tag {
    // UTF8String, IA5String, PrintableString.
    case 0x0C, 0x16, 0x13: return element.content.isEmpty ? nil : element.content
    default: throw .unreadableText(number)
    }
  }

  func integer(_ number: Int64) throws(UndecodableReceipt) -> Int64? {
    guard let element = try element(number) else { return nil }
    // Some integers are left empty as strings where they do not apply.
    if element.content.isEmpty, element.tag == 0x0C || element.tag == 0x16 { return nil }
    guard element.tag == 0x02, let value = DERReader.integer(element.content) else {
      throw .malformed("attribute \(number) is not a readable number")
    }
    return value
  }

  /// A number that Apple does not document: another shape counts as missing and does not spoil the receipt.
  func undocumentedInteger(_ number: Int64) -> Int64? { try? integer(number) }

  func flag(_ number: Int64) throws(UndecodableReceipt) -> Bool? {
    switch try integer(number) {
    case nil: nil
    case 0: false
    case 1: true
    default: throw .malformed("attribute \(number) is neither true nor false")
    }
  }

  /// A date in RFC 3339; `nil` when absent or empty, an error when it cannot be read.
  func date(_ number: Int64) throws(UndecodableReceipt) -> Date? {
    guard let text = try characters(number) else { return nil }
    guard let date = ReceiptDate.parse(rfc3339: text) else {
      // Octets that are no text at all are named as such.
      _ = try self.text(number)
      throw .malformed("attribute \(number) is not a readable date")
    }
    return date
  }

  private func element(_ number: Int64) throws(UndecodableReceipt) -> DERReader.Element? {
    let octets = try self.octets(number)
    guard !octets.isEmpty else { return nil }
    do {
      guard let element = try DERReader.single(octets) else {
        throw UndecodableReceipt.malformed("attribute \(number) holds more than one value")
      }
      return element
    } catch let error as UndecodableReceipt {
      throw error
    } catch {
      throw .malformed("attribute \(number) has a wrong length")
    }
  }
}

extension UndecodableReceipt {
  fileprivate static func unreadableText(_ number: Int64) -> UndecodableReceipt {
    .malformed("attribute \(number) is not readable text")
  }
}

/// Reads rows of comma-separated values (RFC 4180). The header says whether semicolons part them instead.
struct CSVReader {
  private static let quote = UInt8(ascii: "\"")
  private static let newline = UInt8(ascii: "\n")
  private static let carriageReturn = UInt8(ascii: "\r")

  private let bytes: [UInt8]
  private let separator: UInt8
  private var position = 0
  /// The number of the row that `next` returned last, the header included.
  private(set) var row = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
    let header = bytes.prefix { $0 != Self.newline }
    let (commas, semicolons) = (UInt8(ascii: ","), UInt8(ascii: ";"))
    separator = header.count { $0 == semicolons } > header.count { $0 == commas } ? semicolons : commas
    // The byte order mark that spreadsheets write.
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { position = 3 }
  }

  /// A quotation that began in the row ends neither its field nor the file: it may have swallowed rows.
  struct OpenQuotation: Error, Hashable {
    var row: Int
  }

  /// - Returns: `nil` at the end.
  mutating func next() throws(OpenQuotation) -> [String]? {
    guard position < bytes.count else { return nil }
    row += 1
    var fields: [String] = []
    var field: [UInt8] = []
    var isQuoted = false
    loop: while position < bytes.count {
      let byte = bytes[position]
      position += 1
      switch byte {
      case Self.quote where isQuoted:
        if position < bytes.count, bytes[position] == Self.quote {
          field.append(byte)
          position += 1
        } else {
          isQuoted = false
          let ends = [separator, Self.newline, Self.carriageReturn]
          guard position == bytes.count || ends.contains(bytes[position]) else { throw OpenQuotation(row: row) }
        }
      case Self.quote where field.isEmpty: isQuoted = true
      case separator where !isQuoted:
        fields.append(String(decoding: field, as: UTF8.self))
        field = []
      case Self.carriageReturn where !isQuoted: break
      case Self.newline where !isQuoted: break loop
      default: field.append(byte)
      }
    }
    guard !isQuoted else { throw OpenQuotation(row: row) }
    fields.append(String(decoding: field, as: UTF8.self))
    return fields
  }
}

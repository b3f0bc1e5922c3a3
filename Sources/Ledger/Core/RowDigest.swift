internal import Cryptography

/// A value of a row, whatever the engine.
enum CopiedValue: Hashable {
  case null
  case integer(Int64)
  case text(String)
  case blob([UInt8])

  /// The value as a statement writes it.
  var storable: CopiedValue {
    if case .text(let text) = self { .text(text.storable) } else { self }
  }
}

/// The digest of a table's rows in their order: each row's is over the one before and the row.
struct RowDigest {
  private(set) var value: [UInt8] = []

  /// - Parameter value: of the rows before, to go on from.
  init(value: [UInt8] = []) { self.value = value }

  mutating func update(_ row: [CopiedValue]) {
    var bytes = value
    func append(_ kind: UInt8, _ content: some Collection<UInt8>) {
      bytes.append(kind)
      withUnsafeBytes(of: UInt64(content.count).bigEndian) { bytes.append(contentsOf: $0) }
      bytes.append(contentsOf: content)
    }
    for value in row {
      switch value {
      case .null: append(0, [])
      case .integer(let value): append(1, withUnsafeBytes(of: value.bigEndian, Array.init))
      case .text(let text): append(2, text.utf8)
      case .blob(let content): append(3, content)
      }
    }
    value = SHA256Digest(of: bytes).bytes
  }
}

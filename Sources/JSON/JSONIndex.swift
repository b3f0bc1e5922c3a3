internal import Glibc

/// A JSON text read in one pass: the places of its values, instead of a tree of them.
///
///     {"a":[7,{"b":"x"}]}
///
///     entry   key   value
///     0       b     text x
///     1             integer 7
///     2             object, entries 0..<1
///     3       a     array, entries 1..<3
///     4             object, entries 3..<4: the root
///
/// The pass accepts only text that the parser would accept. It gives up on any doubt: a syntax error, an escape in a
/// key, a number that may be out of range, two equal keys in an object, more than the limits allow. The parser then
/// reads the text and reports any error: only the parser decides whether a text is JSON.
final class JSONIndex {
  enum Kind: UInt8 {
    case object, array, text, integer, yes, no, null
    /// A text with escapes or a number with a fraction: the parser computes its value.
    case unread
  }

  struct Entry {
    var kind: Kind
    /// The bytes of the key; none for an element of a list.
    var keyStart: UInt32 = 0
    var keyCount: UInt32 = 0
    /// The bytes of the value, those of a text without its quotes; for a container, the entries of its items.
    var start: UInt32 = 0
    var count: UInt32 = 0

    var range: Range<Int> { Int(start)..<Int(start) + Int(count) }
  }

  /// The most keys of an object; a row from Apple has about 25.
  fileprivate static let mostKeys = 256

  let bytes: [UInt8]
  /// The values: the items of a container side by side, and before it.
  let entries: [Entry]
  /// The last of the long texts that were read, by length and last byte.
  private var shared = [String](repeating: "", count: 8)

  /// - Returns: `nil` if the parser has to read the text.
  init?(_ bytes: [UInt8], root: JSONRoot, limits: JSONLimits) {
    let entries = bytes.withUnsafeBytes { text -> [Entry]? in
      guard text.count <= limits.bytes, let scanner = JSONScanner(text) else { return nil }
      var pass = Pass(scanner: scanner, limits: limits)
      // A value of an answer takes some 40 bytes, with its key.
      pass.entries.reserveCapacity(text.count / 32)
      guard pass.run(root), !pass.scanner.sawMoreThanASCII || String(validating: text, as: UTF8.self) != nil else {
        return nil
      }
      return pass.entries
    }
    guard let entries else { return nil }
    self.bytes = bytes
    self.entries = entries
  }

  var root: Int { entries.count - 1 }

  func kind(of place: Int) -> JSONValue.Kind {
    let entry = entries[place]
    switch entry.kind {
    case .object: return .object
    case .array: return .array
    case .text: return .string(bytes.withUnsafeBytes { text(UnsafeRawBufferPointer(rebasing: $0[entry.range])) })
    case .integer: return .integer(bytes.withUnsafeBytes { Self.integer($0[entry.range]) })
    case .yes: return .bool(true)
    case .no: return .bool(false)
    case .null: return .null
    case .unread:
      // The parser accepts every text that the pass accepted.
      return bytes.withUnsafeBytes { JSONTree.value(of: UnsafeRawBufferPointer(rebasing: $0[entry.range])) } ?? .null
    }
  }

  /// Texts that repeat, as the product of every row does, share one allocation.
  private func text(_ text: UnsafeRawBufferPointer) -> String {
    // Shorter ones need none.
    guard text.count > 15, let start = text.baseAddress, let last = text.last else {
      return String(decoding: text, as: UTF8.self)
    }
    let slot = (text.count &+ Int(last)) % shared.count
    let isKnown = shared[slot].utf8.withContiguousStorageIfAvailable { known in
      known.count == text.count && known.baseAddress.map { memcmp($0, start, text.count) } == 0
    }
    if isKnown != true { shared[slot] = String(decoding: text, as: UTF8.self) }
    return shared[slot]
  }

  /// At most 18 digits, behind a minus if there is one.
  private static func integer(_ text: Slice<UnsafeRawBufferPointer>) -> Int64 {
    var number: Int64 = 0
    for byte in text where byte != UInt8(ascii: "-") { number = number * 10 + Int64(byte & 0x0F) }
    return text.first == UInt8(ascii: "-") ? -number : number
  }

  /// The place of a member's value.
  func member(_ key: String, of place: Int) -> Int? {
    guard entries[place].kind == .object else { return nil }
    let range = entries[place].range
    var key = key
    return key.withUTF8 { key in
      bytes.withUnsafeBytes { text in
        entries[range].withUnsafeBufferPointer { members in
          members.firstIndex { Self.isKey(UnsafeRawBufferPointer(key), of: $0, in: text.baseAddress) }
            .map { range.lowerBound + $0 }
        }
      }
    }
  }

  /// The places of the elements of an array; none for anything else.
  func elements(of place: Int) -> Range<Int> { entries[place].kind == .array ? entries[place].range : 0..<0 }

  /// - Parameter text: the start of the text of the entry.
  @inline(__always)
  fileprivate static func isKey(_ key: UnsafeRawBufferPointer, of entry: Entry, in text: UnsafeRawPointer?) -> Bool {
    guard Int(entry.keyCount) == key.count else { return false }
    guard let text, let start = key.baseAddress else { return key.isEmpty }
    return memcmp(start, text + Int(entry.keyStart), key.count) == 0
  }

  /// The pass over a text.
  private struct Pass {
    /// An open object or list.
    struct Level {
      var isObject: Bool
      var hasItems = false
      /// The place of its first item in `pending`.
      var first: Int
      /// A bit for each of its keys: different bits mean different keys.
      var keyBits: UInt64 = 0

      var end: UInt8 { isObject ? UInt8(ascii: "}") : UInt8(ascii: "]") }
    }

    var scanner: JSONScanner
    let limits: JSONLimits
    /// The finished entries.
    var entries: [Entry] = []
    /// The items of all open containers, the innermost's last, and before each container's items itself.
    var pending: [Entry] = []
    /// The containers around the innermost one.
    var levels: [Level] = []
    var containers = 0
    var values = 1

    init(scanner: JSONScanner, limits: JSONLimits) {
      self.scanner = scanner
      self.limits = limits
    }

    /// Reads the whole text.
    ///
    /// - Returns: `false` to give up.
    mutating func run(_ root: JSONRoot) -> Bool {
      scanner.skipSpace()
      guard root == .any || scanner.next == UInt8(ascii: "{"), var level = open(Entry(kind: .null)) else {
        return false
      }
      while true {
        scanner.skipSpace()
        // An item has to follow a comma; none need follow the bracket.
        if level.hasItems || scanner.next != level.end {
          guard let item = readKey(in: &level) else { return false }
          level.hasItems = true
          if scanner.next == UInt8(ascii: "{") || scanner.next == UInt8(ascii: "[") {
            levels.append(level)
            guard let inner = open(item) else { return false }
            level = inner
            continue
          }
          guard readValue(of: item) else { return false }
        }
        scanner.skipSpace()
        while !scanner.take(UInt8(ascii: ",")) {
          guard scanner.take(level.end) else { return false }
          scanner.skipSpace()
          close(level)
          guard let outer = levels.popLast() else { return scanner.isAtEnd }
          level = outer
        }
        values += 1
        guard values <= limits.values else { return false }
      }
    }

    /// Opens a container; its bracket is next.
    private mutating func open(_ container: Entry) -> Level? {
      var container = container
      container.kind = scanner.next == UInt8(ascii: "{") ? .object : .array
      guard scanner.take(UInt8(ascii: "{")) || scanner.take(UInt8(ascii: "[")) else { return nil }
      containers += 1
      guard levels.count < limits.depth, containers <= limits.containers else { return nil }
      pending.append(container)
      return Level(isObject: container.kind == .object, first: pending.count)
    }

    /// Closes a container: its items are known, and it is a pending item itself, or the root.
    private mutating func close(_ level: Level) {
      let container = level.first - 1
      pending[container].start = UInt32(truncatingIfNeeded: entries.count)
      pending[container].count = UInt32(truncatingIfNeeded: pending.count - level.first)
      entries.append(contentsOf: pending[level.first...])
      pending.removeLast(pending.count - level.first)
      if levels.isEmpty { entries.append(pending[container]) }
    }

    /// Reads up to an item's value.
    ///
    /// - Returns: `nil` to give up.
    @inline(__always)
    private mutating func readKey(in level: inout Level) -> Entry? {
      var item = Entry(kind: .null)
      guard level.isObject else { return item }
      guard scanner.take(UInt8(ascii: "\"")), let key = scanner.skipKey() else { return nil }
      let bit: UInt64 = 1 &<< (key.hash &>> 58)
      if level.keyBits & bit != 0 {
        let name = UnsafeRawBufferPointer(start: key.start, count: key.length)
        let others = pending[level.first...]
        guard others.count < JSONIndex.mostKeys,
          !others.contains(where: { JSONIndex.isKey(name, of: $0, in: scanner.start) })
        else { return nil }
      }
      level.keyBits |= bit
      item.keyStart = UInt32(truncatingIfNeeded: key.start - scanner.start)
      item.keyCount = UInt32(truncatingIfNeeded: key.length)
      scanner.skipSpace()
      guard scanner.take(UInt8(ascii: ":")) else { return nil }
      scanner.skipSpace()
      return item
    }

    /// Reads a value that is no container.
    ///
    /// - Returns: `false` to give up.
    @inline(__always)
    private mutating func readValue(of item: Entry) -> Bool {
      var item = item
      let start = scanner.place
      guard let kind = scanner.skipValue() else { return false }
      let quote = kind == .text ? 1 : 0
      item.kind = kind
      item.start = UInt32(truncatingIfNeeded: start - scanner.start + quote)
      item.count = UInt32(truncatingIfNeeded: scanner.place - start - 2 * quote)
      pending.append(item)
      return true
    }
  }
}

internal import Glibc

/// A JSON text as the places of its values, instead of a tree of them.
///
///     {"a":[7,{"b":"x"}]}
///
///     entry   value                                    name
///     0       text x                                   0    b
///     1       integer 7                                1    a
///     2       object, entries 0..<1, names 0..<1
///     3       array, entries 1..<3
///     4       object, entries 3..<4, names 1..<2: the root
///
/// One pass reads a plain text. It accepts only text that the parser would accept, and gives up on any doubt: a syntax
/// error, an escape in a name, a number that may be out of range, two equal names in an object, more than the limits
/// allow. The parser then reads the text and reports any error: only the parser decides whether a text is JSON.
final class JSONIndex {
  enum Kind: UInt8 {
    case object, array, text, integer, yes, no, null
    /// A text with escapes or a number with a fraction: the parser computes its value.
    case unread
  }

  struct Entry {
    var kind: Kind
    /// The bytes of the value, those of a text without its quotes; for a container, the entries of its items.
    var start: UInt32 = 0
    var count: UInt32 = 0
    /// The first name of an object. Objects of one list that have the same names share them.
    var names: UInt32 = 0

    var range: Range<Int> { Int(start)..<Int(start) + Int(count) }
    var isContainer: Bool { kind == .object || kind == .array }
  }

  /// The place of a member's name in the bytes.
  struct Name {
    var start: UInt32
    var count: UInt32
  }

  /// The most names of an object; a row from Apple has about 25.
  fileprivate static let mostNames = 256

  let bytes: [UInt8]
  /// The values: the items of a container side by side, and before it.
  let entries: [Entry]
  let names: [Name]
  /// The members that the last object was asked for, in order, with their places among its own. A decoder asks each row of
  /// a list for the same.
  @exclusivity(unchecked) private var questions: [(key: String, names: Range<UInt32>, answer: UInt32?)] = []
  @exclusivity(unchecked) private var asked = (object: -1, questions: 0)
  /// The last of the long texts that were read, by length and last byte.
  @exclusivity(unchecked) private var shared = [String](repeating: "", count: 8)

  init(bytes: [UInt8], entries: [Entry], names: [Name]) {
    self.bytes = bytes
    self.entries = entries
    self.names = names
    questions.reserveCapacity(32)
  }

  /// - Returns: `nil` if the parser has to read the text.
  convenience init?(_ bytes: [UInt8], root: JSONRoot, limits: JSONLimits) {
    let pass = bytes.withUnsafeBytes { text -> Pass? in
      guard text.count <= limits.bytes, let scanner = JSONScanner(text) else { return nil }
      var pass = Pass(scanner: scanner, limits: limits)
      // A value of an answer takes some 40 bytes, with its name; a row of one has some 25 of them.
      pass.entries.reserveCapacity(text.count / 32)
      pass.pending.reserveCapacity(64)
      pass.open.reserveCapacity(64)
      pass.names.reserveCapacity(64)
      pass.levels.reserveCapacity(8)
      guard pass.run(root), !pass.scanner.sawMoreThanASCII || String(validating: text, as: UTF8.self) != nil else {
        return nil
      }
      return pass
    }
    guard let pass else { return nil }
    self.init(bytes: bytes, entries: pass.entries, names: pass.names)
  }

  var root: Int { entries.count - 1 }

  func kind(of place: Int) -> JSONValue.Kind {
    let entry = entries[place]
    switch entry.kind {
    case .object: return .object
    case .array: return .array
    case .text: return .string(text(of: entry))
    case .integer: return .integer(digits(of: place) ?? 0)
    case .yes: return .bool(true)
    case .no: return .bool(false)
    case .null: return .null
    case .unread:
      // The parser accepts every text that the pass accepted.
      return bytes.withUnsafeBytes { JSONTree.value(of: UnsafeRawBufferPointer(rebasing: $0[entry.range])) } ?? .null
    }
  }

  /// Texts that repeat, as the product of every row does, share one allocation.
  private func text(of entry: Entry) -> String {
    bytes.withUnsafeBytes { bytes in
      let text = UnsafeRawBufferPointer(rebasing: bytes[entry.range])
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
  }

  /// The value of an integer, or of a text of at most 18 digits behind a minus, if there is one; `nil` for any other value.
  func digits(of place: Int) -> Int64? {
    let entry = entries[place]
    let isNegative = bytes[entry.range].first == UInt8(ascii: "-")
    let digits = bytes[entry.range].dropFirst(isNegative ? 1 : 0)
    guard entry.kind == .integer || entry.kind == .text && (1...18).contains(digits.count) else { return nil }
    var number: Int64 = 0
    for byte in digits {
      guard byte &- UInt8(ascii: "0") < 10 else { return nil }
      // An integer of the parser may be the least of all.
      number = number &* 10 &+ Int64(byte & 0x0F)
    }
    return isNegative ? 0 &- number : number
  }

  func member(_ key: String, of place: Int) -> Int? {
    let object = entries[place]
    guard object.kind == .object else { return nil }
    if asked.object != place { asked = (place, 0) }
    let number = asked.questions
    asked.questions += 1
    let names = object.names..<object.names + object.count
    if number == questions.count || questions[number].names != names || questions[number].key != key {
      let question = (key, names, find(key, in: names))
      if number == questions.count { questions.append(question) } else { questions[number] = question }
    }
    return questions[number].answer.map { Int(object.start + $0) }
  }

  private func find(_ key: String, in range: Range<UInt32>) -> UInt32? {
    var key = key
    return key.withUTF8 { key in
      bytes.withUnsafeBytes { bytes in
        range.first { Self.isName(names[Int($0)], UnsafeRawBufferPointer(key), in: bytes.baseAddress) }
          .map { $0 - range.lowerBound }
      }
    }
  }

  /// The places of the elements of an array; none for anything else.
  func elements(of place: Int) -> Range<Int> { entries[place].kind == .array ? entries[place].range : 0..<0 }

  /// The way from the root to a value, for example `receipt.in_app[3].expires_date_ms`.
  func path(of place: Int) -> String {
    var path = ""
    var container = root
    while container != place {
      let items = entries[container].range
      // The entries inside an item end with its own items.
      let around = items.first { entries[$0].isContainer && place < entries[$0].range.upperBound }
      guard let next = items.contains(place) ? place : around else { break }
      if entries[container].kind == .object {
        let name = names[Int(entries[container].names) + next - items.lowerBound]
        path += path.isEmpty ? "" : "."
        path += String(decoding: bytes[Int(name.start)...].prefix(Int(name.count)), as: UTF8.self)
      } else {
        path += "[\(next - items.lowerBound)]"
      }
      container = next
    }
    return path
  }

  /// - Parameter bytes: the start of those in which the name is.
  @inline(__always)
  fileprivate static func isName(_ name: Name, _ key: UnsafeRawBufferPointer, in bytes: UnsafeRawPointer?) -> Bool {
    guard Int(name.count) == key.count else { return false }
    guard let bytes, let start = key.baseAddress else { return key.isEmpty }
    return memcmp(start, bytes + Int(name.start), key.count) == 0
  }

  private struct Pass {
    struct Level {
      var isObject: Bool
      /// The place of its first item in `pending`.
      var first: Int
      /// The names of the object before it in the same list. As long as its own are the same, they need no comparison
      /// with each other.
      var model: Range<Int>
      var followsModel = true
      /// The place of its first name in `open`, if it does not follow the model.
      var firstName: Int
      /// A bit for each of its names: different bits mean different names.
      var nameBits: UInt64 = 0
      /// The names of the last object in it.
      var inner = 0..<0

      var end: UInt8 { isObject ? UInt8(ascii: "}") : UInt8(ascii: "]") }
    }

    var scanner: JSONScanner
    let limits: JSONLimits
    /// The finished entries, and the names of finished objects.
    var entries: [Entry] = []
    var names: [Name] = []
    /// The items of all open containers, the innermost's last, and before each container's items itself.
    var pending: [Entry] = []
    /// The names in the open objects that follow no model, the innermost's last.
    var open: [Name] = []
    /// The containers around the innermost one.
    var levels: [Level] = []
    var containers = 0
    var values = 1

    /// Reads the whole text.
    ///
    /// - Returns: `false` to give up.
    mutating func run(_ root: JSONRoot) -> Bool {
      scanner.skipSpace()
      guard root == .any || scanner.next == UInt8(ascii: "{"), var level = open(model: 0..<0) else { return false }
      while true {
        scanner.skipSpace()
        // An item has to follow a comma; none need follow the bracket.
        if pending.count > level.first || scanner.next != level.end {
          if level.isObject {
            guard readName(in: &level) else { return false }
          }
          if scanner.next == UInt8(ascii: "{") || scanner.next == UInt8(ascii: "[") {
            levels.append(level)
            guard let inner = open(model: level.isObject ? 0..<0 : level.inner) else { return false }
            level = inner
            continue
          }
          guard readValue() else { return false }
        }
        scanner.skipSpace()
        while !scanner.take(UInt8(ascii: ",")) {
          guard scanner.take(level.end) else { return false }
          scanner.skipSpace()
          let closed = close(level)
          guard let outer = levels.popLast() else { return scanner.isAtEnd }
          level = outer
          level.inner = closed
        }
        values += 1
        guard values <= limits.values else { return false }
      }
    }

    /// Opens a container; its bracket is next.
    private mutating func open(model: Range<Int>) -> Level? {
      let isObject = scanner.next == UInt8(ascii: "{")
      guard scanner.take(UInt8(ascii: "{")) || scanner.take(UInt8(ascii: "[")) else { return nil }
      containers += 1
      guard levels.count < limits.depth, containers <= limits.containers else { return nil }
      pending.append(Entry(kind: isObject ? .object : .array))
      return Level(isObject: isObject, first: pending.count, model: model, firstName: open.count)
    }

    /// Closes a container: its items are known, and it is a pending item itself, or the root.
    ///
    /// - Returns: the names of an object.
    private mutating func close(_ level: Level) -> Range<Int> {
      let container = level.first - 1
      let count = pending.count - level.first
      var model = level.model.prefix(count)
      if level.isObject, !level.followsModel {
        model = names.count..<names.count + count
        names.append(contentsOf: open[level.firstName...])
        open.removeLast(count)
      }
      pending[container].start = UInt32(truncatingIfNeeded: entries.count)
      pending[container].count = UInt32(truncatingIfNeeded: count)
      pending[container].names = UInt32(truncatingIfNeeded: model.lowerBound)
      entries.append(contentsOf: pending[level.first...])
      pending.removeLast(count)
      if levels.isEmpty { entries.append(pending[container]) }
      return model
    }

    /// Reads up to a member's value.
    ///
    /// - Returns: `false` to give up.
    @inline(__always)
    private mutating func readName(in level: inout Level) -> Bool {
      let place = level.model.lowerBound + pending.count - level.first
      if !level.followsModel || place >= level.model.upperBound || !scanner.take(names[place]) {
        if level.followsModel { leaveModel(&level, before: place) }
        guard scanner.take(UInt8(ascii: "\"")), let name = scanner.skipName() else { return false }
        let bit: UInt64 = 1 &<< (name.hash &>> 58)
        if level.nameBits & bit != 0 {
          let text = UnsafeRawBufferPointer(start: name.start, count: name.length)
          let others = open[level.firstName...]
          guard others.count < JSONIndex.mostNames,
            !others.contains(where: { JSONIndex.isName($0, text, in: scanner.start) })
          else { return false }
        }
        level.nameBits |= bit
        open.append(
          Name(
            start: UInt32(truncatingIfNeeded: name.start - scanner.start),
            count: UInt32(truncatingIfNeeded: name.length)))
      }
      scanner.skipSpace()
      guard scanner.take(UInt8(ascii: ":")) else { return false }
      scanner.skipSpace()
      return true
    }

    /// From here on an object has names of its own.
    private mutating func leaveModel(_ level: inout Level, before place: Int) {
      level.followsModel = false
      open.append(contentsOf: names[level.model.lowerBound..<place])
      // The bits of these are unknown.
      if place > level.model.lowerBound { level.nameBits = .max }
    }

    /// Reads a value that is no container.
    ///
    /// - Returns: `false` to give up.
    @inline(__always)
    private mutating func readValue() -> Bool {
      let start = scanner.place
      guard let kind = scanner.skipValue() else { return false }
      let quote = kind == .text ? 1 : 0
      pending.append(
        Entry(
          kind: kind, start: UInt32(truncatingIfNeeded: start - scanner.start + quote),
          count: UInt32(truncatingIfNeeded: scanner.place - start - 2 * quote)))
      return true
    }
  }
}

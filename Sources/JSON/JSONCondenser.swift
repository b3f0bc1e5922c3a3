/// A first pass over a text of which only some members are needed: it copies the members of a selection and skips the
/// others. The copy is again a JSON text, for the parser.
///
///     a and b are selected
///     {"a":[{"b":1,"c":2},{"c":3}],"d":"…"}   becomes   {"a":[{"b":1},{"":0}]}
///
/// The condenser accepts only text that the parser would accept. It gives up on any doubt: a syntax error, an escape in
/// a key, a number that may be out of range, two keys of one object that may be equal, more than the limits allow. The
/// parser then reads the whole text and reports any error: only the parser decides what is JSON.
/// Visible structure is preserved: the elements of a list keep their indexes, and an object with members still has one,
/// though under a name that no reader looks up.
struct JSONCondenser {
  /// The selected text.
  struct Condensed {
    var bytes: [UInt8]
    /// The number of objects and lists in it, and an upper bound of the values.
    var containers: Int
    var values: Int
  }

  /// An open object or list.
  private struct Level {
    var isObject: Bool
    /// Whether it is copied rather than skipped.
    var isKept: Bool
    var hasItems = false
    /// Whether any of its items was copied.
    var hasKept = false
    /// The index in `hashes` of its first key.
    var firstHash: Int
    /// A bit for each of its keys: different bits mean different keys.
    var keyBits: UInt64 = 0
    /// The groups whose first member is present, which makes the others redundant.
    var settled: UInt64 = 0
    /// The last copied members of a group, which become redundant if the group's first comes next: their start in the
    /// output, and whether anything was copied before them.
    var latest: (group: UInt8, start: Int, hasKept: Bool) = (JSONSelection.Role.none, 0, false)

    var end: UInt8 { isObject ? UInt8(ascii: "}") : UInt8(ascii: "]") }
  }

  /// The most keys of an object and those around it; a row from Apple has about 25.
  private static let mostKeys = 256

  /// `false"`, the last six bytes of that text.
  private static let falseText: UInt64 = 0x2265_736C_6166

  private let selection: JSONSelection
  private let limits: JSONLimits
  /// Hashes of the keys of all open objects, the innermost last.
  private let hashes: UnsafeMutableBufferPointer<UInt32>
  /// The containers around the innermost one, up to the limit of nesting.
  private let levels: UnsafeMutableBufferPointer<Level>
  private var scanner: JSONScanner
  private var output: Output
  private var depth = 1
  private var hashCount = 0
  private var containers = 1
  private var values = 1
  private var containersKept = 1
  private var valuesKept = 1

  /// - Returns: `nil` if the parser has to read the whole text.
  static func condense(
    _ text: UnsafeRawBufferPointer, to selection: JSONSelection, limits: JSONLimits
  ) -> Condensed? {
    guard text.count <= limits.bytes, limits.depth > 0, limits.containers > 0, limits.values > 0,
      let scanner = JSONScanner(text)
    else { return nil }
    var condensed = Condensed(bytes: [], containers: 0, values: 0)
    // Both have a fixed size for any text; `Level` holds nothing to be freed.
    withUnsafeTemporaryAllocation(of: UInt32.self, capacity: mostKeys) { hashes in
      withUnsafeTemporaryAllocation(of: Level.self, capacity: limits.depth) { levels in
        condensed.bytes = [UInt8](unsafeUninitializedCapacity: text.count) { room, count in
          var condenser = JSONCondenser(
            selection: selection, limits: limits, hashes: hashes, levels: levels, scanner: scanner,
            output: Output(room: UnsafeMutableRawBufferPointer(room)))
          guard condenser.run(), !condenser.scanner.sawMoreThanASCII || isUTF8(text) else { return }
          count = condenser.output.count
          condensed.containers = condenser.containersKept
          condensed.values = condenser.valuesKept
        }
      }
    }
    return condensed.bytes.isEmpty ? nil : condensed
  }

  private static func isUTF8(_ text: UnsafeRawBufferPointer) -> Bool { String(validating: text, as: UTF8.self) != nil }

  /// Reads the whole text.
  ///
  /// - Returns: `false` to give up.
  private mutating func run() -> Bool {
    scanner.skipSpace()
    guard scanner.take(UInt8(ascii: "{")), output.write(UInt8(ascii: "{")) else { return false }
    var level = Level(isObject: true, isKept: true, firstHash: 0)
    while true {
      scanner.skipSpace()
      // An item has to follow a comma; none need follow the bracket.
      if level.hasItems || scanner.next != level.end {
        guard let isComplete = skipItem(in: &level) else { return false }
        if !isComplete { continue }
      }
      scanner.skipSpace()
      while !scanner.take(UInt8(ascii: ",")) {
        guard scanner.take(level.end), close(level) else { return false }
        scanner.skipSpace()
        depth -= 1
        if depth == 0 { return scanner.isAtEnd }
        level = levels[depth - 1]
      }
      values += 1
      guard values <= limits.values else { return false }
    }
  }

  /// Skips a member or an element, and copies a selected one.
  ///
  /// - Returns: `false` for a container that was only opened, which then is the `level`; `nil` to give up.
  @inline(__always)
  private mutating func skipItem(in level: inout Level) -> Bool? {
    let start = scanner.place
    level.hasItems = true
    var role: JSONSelection.Role? = level.isKept ? .plain : nil
    if level.isObject {
      guard scanner.take(UInt8(ascii: "\"")), let key = scanner.skipKey(), add(key.hash, to: &level) else { return nil }
      if level.isKept {
        role = selection.role(of: key, in: scanner)
        if let found = role, !found.isFirst, level.settled & found.bit != 0 { role = nil }
      }
      scanner.skipSpace()
      guard scanner.take(UInt8(ascii: ":")) else { return nil }
      scanner.skipSpace()
    }
    /// Whether the value is a number or a non-empty text.
    var settles = false
    switch scanner.next {
    case UInt8(ascii: "\""):
      scanner.step()
      let text = scanner.place
      guard scanner.skipText() else { return nil }
      let length = scanner.place - text
      settles = length > 1
      if let found = role, found.isFalseByDefault, length == 6, scanner.word(at: text, length: 6) == Self.falseText {
        role = nil
      }
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
      guard scanner.skipNumber() else { return nil }
      settles = true
    case UInt8(ascii: "{"):
      return open(from: start, isObject: true, isKept: role != nil, in: &level) ? false : nil
    case UInt8(ascii: "["):
      return open(from: start, isObject: false, isKept: role != nil, in: &level) ? false : nil
    default:
      guard scanner.skipWord() else { return nil }
    }
    if let role { return keep(from: start, role, settles: settles, in: &level) ? true : nil }
    return true
  }

  /// Records a key.
  ///
  /// - Returns: `false` if the object may have it already, or for too many keys.
  @inline(__always)
  private mutating func add(_ hash: UInt64, to level: inout Level) -> Bool {
    guard hashCount < Self.mostKeys else { return false }
    let hash32 = UInt32(truncatingIfNeeded: hash)
    let bit: UInt64 = 1 &<< (hash &>> 58)
    if level.keyBits & bit != 0 {
      // A loop without early exit compares several at a time.
      var same: UInt32 = 0
      for place in level.firstHash..<hashCount { same |= hashes[place] == hash32 ? 1 : 0 }
      if same != 0 { return false }
    }
    level.keyBits |= bit
    hashes[hashCount] = hash32
    hashCount += 1
    return true
  }

  /// Opens a container, whose bracket is next.
  private mutating func open(
    from start: UnsafeRawPointer, isObject: Bool, isKept: Bool, in level: inout Level
  ) -> Bool {
    scanner.step()
    containers += 1
    guard depth < limits.depth, containers <= limits.containers else { return false }
    if isKept {
      guard keep(from: start, .plain, settles: false, in: &level) else { return false }
      containersKept += 1
    }
    levels[depth - 1] = level
    depth += 1
    level = Level(isObject: isObject, isKept: isKept, firstHash: hashCount)
    return true
  }

  /// Closes a container, whose bracket was the last byte.
  private mutating func close(_ level: Level) -> Bool {
    hashCount = level.firstHash
    guard level.isKept else { return true }
    if level.isObject, level.hasItems, !level.hasKept {
      // An object with members must not become empty. Its skipped members were at least as long as this one.
      guard output.write(UInt8(ascii: "\"")), output.write(UInt8(ascii: "\"")), output.write(UInt8(ascii: ":")),
        output.write(UInt8(ascii: "0"))
      else { return false }
    }
    return output.write(level.end)
  }

  /// Copies an item, which ends at the scanner's place.
  @inline(__always)
  private mutating func keep(
    from start: UnsafeRawPointer, _ role: JSONSelection.Role, settles: Bool, in level: inout Level
  ) -> Bool {
    if role.bit != 0, !role.isFirst {
      if level.latest.group != role.group { level.latest = (role.group, output.count, level.hasKept) }
    } else {
      if settles, role.isFirst {
        level.settled |= role.bit
        if level.latest.group == role.group {
          output.cut(to: level.latest.start)
          level.hasKept = level.latest.hasKept
        }
      }
      level.latest.group = JSONSelection.Role.none
    }
    if level.hasKept {
      guard output.write(UInt8(ascii: ",")) else { return false }
      valuesKept += 1
    }
    level.hasKept = true
    return output.write(UnsafeRawBufferPointer(start: start, count: scanner.place - start))
  }

  /// The copy so far. It is never longer than the text read: it consists of copied bytes, and of the stand-in for the
  /// members of an object. Writes are checked all the same.
  private struct Output {
    private let room: UnsafeMutableRawBufferPointer
    private(set) var count = 0

    init(room: UnsafeMutableRawBufferPointer) { self.room = room }

    @inline(__always)
    mutating func write(_ byte: UInt8) -> Bool {
      guard count < room.count else { return false }
      room[count] = byte
      count += 1
      return true
    }

    @inline(__always)
    mutating func write(_ bytes: UnsafeRawBufferPointer) -> Bool {
      guard bytes.count <= room.count - count else { return false }
      UnsafeMutableRawBufferPointer(rebasing: room[count...]).copyMemory(from: bytes)
      count += bytes.count
      return true
    }

    /// Removes the last bytes written.
    @inline(__always)
    mutating func cut(to count: Int) { self.count = min(count, self.count) }
  }
}

/// The members of a text that its reader looks at, at whatever depth they stand.
///
/// A reader that names them has all others stepped over instead of parsed, see `JSONCondenser`.
package struct JSONSelection: Sendable {
  /// A member that makes others needless: where `first` has a number or a text that is not empty, nobody looks at
  /// `others` of the same object.
  package struct Precedence: Sendable {
    package var first: String
    var others: [String]

    package init(of first: String, over others: [String]) {
      self.first = first
      self.others = others
    }
  }

  /// What a selected member is to the reader: alone, or one of a group with a precedence.
  struct Role {
    static let plain = Role(group: none, isFirst: false)
    static let none: UInt8 = 64

    var group: UInt8
    var isFirst: Bool
    /// Whether the text `"false"` says the same as no member.
    var isFalseByDefault = false

    /// The group as a bit of a set.
    var bit: UInt64 { group < Self.none ? 1 << UInt64(group) : 0 }
  }

  private struct Slot {
    var hash: UInt64
    /// Of the name, in bytes; 0 where the slot is free.
    var length: Int
    /// Where in `words` the name begins.
    var firstWord: Int
    var role: Role
  }

  /// The names as a hash table: at least three of four slots are free, so that a search soon ends.
  private var slots: [Slot]
  /// The names, each cut into words of eight bytes.
  private var words: [UInt64] = []

  /// - Parameters:
  ///   - names: the members that are looked at. One that is here too is kept whatever `precedences` says.
  ///   - falseByDefault: members that are also looked at, and whose text `"false"` the reader takes for the same as no
  ///     member.
  ///   - precedences: members that are also looked at, some of them only where another is missing.
  package init(_ names: [String], falseByDefault: [String] = [], precedences: [Precedence] = []) {
    var roles: [String: Role] = [:]
    for (number, precedence) in precedences.enumerated() {
      let group = UInt8(min(number, Int(Role.none)))
      for name in [precedence.first] + precedence.others {
        let role = Role(group: group, isFirst: name == precedence.first)
        // Who stands in two groups is looked at in one where the other would drop it.
        roles[name] = roles[name] == nil && group < Role.none ? role : .plain
      }
    }
    for name in falseByDefault { roles[name] = Role(group: Role.none, isFirst: false, isFalseByDefault: true) }
    for name in names { roles[name] = .plain }
    // What stands in for the members of an object that lost all of them has no name.
    roles[""] = nil
    var size = 16
    while size < roles.count * 4 { size *= 2 }
    slots = Array(repeating: Slot(hash: 0, length: 0, firstWord: 0, role: .plain), count: size)
    for (name, role) in roles { insert(name, role) }
  }

  private mutating func insert(_ name: String, _ role: Role) {
    let bytes = Array(name.utf8)
    let firstWord = words.count
    var hash = JSONKeyHash()
    // The last word is the one that is not full, and there always is one, as in `JSONScanner.skipKey`.
    for start in stride(from: 0, through: bytes.count, by: 8) {
      var word: UInt64 = 0
      for (place, byte) in bytes.dropFirst(start).prefix(8).enumerated() { word |= UInt64(byte) << (8 * place) }
      words.append(word)
      hash.add(word)
    }
    var place = Int(truncatingIfNeeded: hash.value) & (slots.count - 1)
    while slots[place].length > 0 { place = (place + 1) & (slots.count - 1) }
    slots[place] = Slot(hash: hash.value, length: bytes.count, firstWord: firstWord, role: role)
  }

  /// What a member is to the reader; `nil` for one that it does not look at.
  @inline(__always)
  func role(of key: JSONScanner.Key, in scanner: JSONScanner) -> Role? {
    var place = Int(truncatingIfNeeded: key.hash) & (slots.count - 1)
    while slots[place].length > 0 {
      if slots[place].hash == key.hash, slots[place].length == key.length, isSame(slots[place], key, scanner) {
        return slots[place].role
      }
      place = (place + 1) & (slots.count - 1)
    }
    return nil
  }

  /// Whether a name is a key, byte for byte. Only for those of the same length.
  @inline(__always)
  private func isSame(_ slot: Slot, _ key: JSONScanner.Key, _ scanner: JSONScanner) -> Bool {
    var start = 0
    var word = slot.firstWord
    while start < slot.length {
      if words[word] != scanner.word(at: key.start + start, length: slot.length - start) { return false }
      start += 8
      word += 1
    }
    return true
  }

  /// Whether its reader may look at a member.
  package func contains(_ name: String) -> Bool {
    let quoted = Array(name.utf8) + [UInt8(ascii: "\"")]
    return quoted.withUnsafeBytes { text in
      guard var scanner = JSONScanner(text), let key = scanner.skipKey() else { return false }
      return role(of: key, in: scanner) != nil
    }
  }
}

/// A number for a key, made of its words of eight bytes. Equal keys have equal numbers; different ones nearly always
/// have different ones, and nothing relies on that but speed.
struct JSONKeyHash {
  private(set) var value: UInt64 = 0x243F_6A88_85A3_08D3

  @inline(__always)
  mutating func add(_ word: UInt64) {
    value = (value ^ word) &* 0x9E37_79B9_7F4A_7C15
    value ^= value >> 32
  }
}

/// The members of a text that its reader needs, at any depth.
///
/// All others are skipped instead of parsed, see `JSONCondenser`.
package struct JSONSelection: Sendable {
  /// A member that makes others redundant: if `first` has a number or a non-empty text, the reader ignores `others` of
  /// the same object.
  package struct Precedence: Sendable {
    package var first: String
    var others: [String]

    package init(of first: String, over others: [String]) {
      self.first = first
      self.others = others
    }
  }

  /// The role of a selected member: alone, or in a group with a precedence.
  struct Role {
    static let plain = Role(group: none, isFirst: false)
    static let none: UInt8 = 64

    var group: UInt8
    var isFirst: Bool
    /// Whether the text `"false"` means the same as an absent member.
    var isFalseByDefault = false

    /// The group as a bit of a set.
    var bit: UInt64 { group < Self.none ? 1 << UInt64(group) : 0 }
  }

  private struct Slot {
    var hash: UInt64
    /// The name's length in bytes; 0 for a free slot.
    var length: Int
    /// The index in `words` of the name's start.
    var firstWord: Int
    var role: Role
  }

  /// The names as a hash table: at least three of four slots are free, so that a search ends soon.
  private var slots: [Slot]
  /// The names, split into words of eight bytes.
  private var words: [UInt64] = []

  /// - Parameters:
  ///   - names: the members that are read. One of these is kept whatever `precedences` says.
  ///   - falseByDefault: members that are also read, and for which the text `"false"` means the same as an absent
  ///     member.
  ///   - precedences: members that are also read, some of them only if another is missing.
  package init(_ names: [String], falseByDefault: [String] = [], precedences: [Precedence] = []) {
    var roles: [String: Role] = [:]
    for (number, precedence) in precedences.enumerated() {
      let group = UInt8(min(number, Int(Role.none)))
      for name in [precedence.first] + precedence.others {
        let role = Role(group: group, isFirst: name == precedence.first)
        // A member of two groups is kept even if one group would drop it.
        roles[name] = roles[name] == nil && group < Role.none ? role : .plain
      }
    }
    for name in falseByDefault { roles[name] = Role(group: Role.none, isFirst: false, isFalseByDefault: true) }
    for name in names { roles[name] = .plain }
    // The stand-in for the members of an object that lost all of them has the empty name.
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
    // The last word is the one that is not full, and there is always one, as in `JSONScanner.skipKey`.
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

  /// The role of a member; `nil` for one that is not selected.
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

  /// Whether a name equals a key of the same length, byte for byte.
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

  /// Whether a member may be read.
  package func contains(_ name: String) -> Bool {
    let quoted = Array(name.utf8) + [UInt8(ascii: "\"")]
    return quoted.withUnsafeBytes { text in
      guard var scanner = JSONScanner(text), let key = scanner.skipKey() else { return false }
      return role(of: key, in: scanner) != nil
    }
  }
}

/// A hash of a key, computed from its words of eight bytes. Different keys may rarely collide, which affects only
/// speed.
struct JSONKeyHash {
  private(set) var value: UInt64 = 0x243F_6A88_85A3_08D3

  @inline(__always)
  mutating func add(_ word: UInt64) {
    value = (value ^ word) &* 0x9E37_79B9_7F4A_7C15
    value ^= value >> 32
  }
}

internal import Glibc

/// Skips the tokens of a JSON text, eight bytes at a time, and returns `false` or `nil` on any doubt. It accepts less
/// than the parser does, never more.
///
/// The scanner's own checks are the only bounds checks: `place` is never beyond `end`, and `word(at:)` reads nothing from `end`
/// on.
struct JSONScanner {
  /// A name: the unescaped bytes between its quotes.
  struct Name {
    var start: UnsafeRawPointer
    var length: Int
    /// Different hashes mean different keys.
    var hash: UInt64
  }

  let start: UnsafeRawPointer
  private(set) var place: UnsafeRawPointer
  private let end: UnsafeRawPointer
  /// The bitwise OR of all bytes in texts: shows whether one was not ASCII.
  private var seen: UInt64 = 0

  /// - Parameter text: must outlive the scanner. Returns nil for an empty buffer.
  init?(_ text: UnsafeRawBufferPointer) {
    guard let start = text.baseAddress else { return nil }
    self.start = start
    place = start
    end = start + text.count
  }

  var isAtEnd: Bool { place == end }
  /// Whether a text had a non-ASCII byte. UTF-8 is not checked here.
  var sawMoreThanASCII: Bool { seen & 0x8080_8080_8080_8080 != 0 }

  /// The next byte; NUL, which no token contains, at the end.
  @inline(__always)
  var next: UInt8 { place < end ? place.load(as: UInt8.self) : 0 }

  /// Skips a byte that `next` has returned, and which therefore exists.
  @inline(__always)
  mutating func step() { if place < end { place += 1 } }

  @inline(__always)
  mutating func take(_ byte: UInt8) -> Bool {
    guard next == byte else { return false }
    step()
    return true
  }

  /// Takes a name that was read before, with its quotes.
  @inline(__always)
  mutating func take(_ name: JSONIndex.Name) -> Bool {
    let count = Int(name.count)
    guard end - place >= count + 2, next == UInt8(ascii: "\""), memcmp(place + 1, start + Int(name.start), count) == 0,
      place.load(fromByteOffset: count + 1, as: UInt8.self) == UInt8(ascii: "\"")
    else { return false }
    place += count + 2
    return true
  }

  @inline(__always)
  mutating func skipSpace() {
    while true {
      switch next {
      case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\t"), UInt8(ascii: "\r"): step()
      default: return
      }
    }
  }

  /// Eight bytes, the first of them the lowest; NUL for those beyond the end.
  @inline(__always)
  func word(at start: UnsafeRawPointer) -> UInt64 {
    let left = end - start
    if left >= 8 { return UInt64(littleEndian: start.loadUnaligned(as: UInt64.self)) }
    var word: UInt64 = 0
    var offset = 0
    while offset < left {
      word |= UInt64(start.load(fromByteOffset: offset, as: UInt8.self)) << UInt64(8 * offset)
      offset += 1
    }
    return word
  }

  /// A mark at the first byte of a word that needs attention in a text: a quote, a backslash, a control character.
  /// There may be further marks above the first.
  ///
  /// `x - 0x01` borrows, and `~x` has the high bit, for a byte that is 0; `x - 0x20` for one below 0x20. A borrow
  /// reaches only the bytes above, so that the lowest mark is right.
  @inline(__always)
  private static func marks(_ word: UInt64) -> UInt64 {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
    let backslashes = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
    return
      (((quotes &- ones) & ~quotes) | ((backslashes &- ones) & ~backslashes) | ((word &- (ones &* 0x20)) & ~word))
      & (ones &* 0x80)
  }

  /// Skips bytes of a text up to the first that needs attention, and returns it: NUL at the end.
  @inline(__always)
  private mutating func skipPlain() -> UInt8 {
    var place = place
    var seen: UInt64 = 0
    while true {
      let word = word(at: place)
      let marks = Self.marks(word)
      seen |= word
      if marks == 0 {
        // Without a mark, none of the eight bytes is a NUL, so all of them exist.
        place += 8
        continue
      }
      let bits = UInt64(truncatingIfNeeded: marks.trailingZeroBitCount & ~7)
      // Bytes beyond the end are marked, so the first mark is at the end at most.
      self.place = place + Int(truncatingIfNeeded: bits / 8)
      self.seen |= seen
      return UInt8(truncatingIfNeeded: word &>> bits)
    }
  }

  /// Skips a name from behind its first quote, and its last quote.
  @inline(__always)
  mutating func skipName() -> Name? {
    let start = place
    guard skipPlain() == UInt8(ascii: "\"") else { return nil }
    let length = place - start
    place += 1
    let first = length < 8 ? word(at: start) & (1 &<< UInt64(8 * length) &- 1) : word(at: start)
    let last = length < 8 ? 0 : word(at: start + length - 8)
    return Name(start: start, length: length, hash: Self.mix(Self.mix(UInt64(length), first), last))
  }

  @inline(__always)
  private static func mix(_ hash: UInt64, _ word: UInt64) -> UInt64 {
    let product = (hash ^ word) &* 0x9E37_79B9_7F4A_7C15
    return product ^ product >> 32
  }

  /// Skips a value that is no container.
  @inline(__always)
  mutating func skipValue() -> JSONIndex.Kind? {
    switch next {
    case UInt8(ascii: "\""): skipText()
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): skipNumber()
    default: skipWord()
    }
  }

  /// Skips a text; its first quote is next.
  @inline(__always)
  private mutating func skipText() -> JSONIndex.Kind? {
    step()
    var kind = JSONIndex.Kind.text
    while true {
      switch skipPlain() {
      case UInt8(ascii: "\""):
        place += 1
        return kind
      case UInt8(ascii: "\\"):
        guard skipEscape() else { return nil }
        kind = .unread
      default: return nil
      }
    }
  }

  /// Skips a backslash and its escape. Surrogates, even in pairs, and NUL are refused.
  private mutating func skipEscape() -> Bool {
    step()
    switch next {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
      UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
      step()
      return true
    case UInt8(ascii: "u"):
      step()
      var code: UInt32 = 0
      for _ in 0..<4 {
        guard let digit = Self.hexadecimal(next) else { return false }
        code = code << 4 | digit
        step()
      }
      return code != 0 && !(0xD800...0xDFFF).contains(code)
    default: return false
    }
  }

  private static func hexadecimal(_ byte: UInt8) -> UInt32? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0"))
    case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt32(byte - UInt8(ascii: "a") + 10)
    case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt32(byte - UInt8(ascii: "A") + 10)
    default: nil
    }
  }

  /// Skips a number of at most 18 digits before the point and without an exponent, which is always in range.
  @inline(__always)
  private mutating func skipNumber() -> JSONIndex.Kind? {
    _ = take(UInt8(ascii: "-"))
    if !take(UInt8(ascii: "0")) {
      let count = skipDigits()
      guard (1...18).contains(count) else { return nil }
    }
    guard take(UInt8(ascii: ".")) else { return .integer }
    return skipDigits() > 0 ? .unread : nil
  }

  @inline(__always)
  private mutating func skipDigits() -> Int {
    let start = place
    while next &- UInt8(ascii: "0") < 10 { step() }
    return place - start
  }

  @inline(__always)
  private mutating func skipWord() -> JSONIndex.Kind? {
    let word = word(at: place)
    switch UInt32(truncatingIfNeeded: word) {
    case 0x6575_7274:
      place += 4
      return .yes
    case 0x6C6C_756E:
      place += 4
      return .null
    case 0x736C_6166 where UInt8(truncatingIfNeeded: word >> 32) == UInt8(ascii: "e"):
      place += 5
      return .no
    default: return nil
    }
  }
}

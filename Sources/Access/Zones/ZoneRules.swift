/// The offsets of a zone from UTC, by time.
struct ZoneRules: Sendable {
  /// The times at which the clocks change, ascending, in seconds since 1970.
  private var changes: [Int64] = []
  /// Seconds ahead of UTC: before the first change, and after each.
  private var offsets: [Int64] = [0]
  /// The rule after the last change.
  private var yearly: YearlyZoneRule?

  /// UTC.
  init() {}

  /// A file of the IANA database as zic(8) compiles it (TZif, RFC 8536).
  ///
  /// A header of 44 bytes and a block with times of 32 bits. From version 2 on the same follows with times of 64 bits, and a
  /// line with the rule of the time after it.
  ///
  ///     "TZif" version reserved[15] isutcnt isstdcnt leapcnt timecnt typecnt charcnt
  ///     times[timecnt] types[timecnt] {offset, isdst, idx}[typecnt] …
  ///
  /// - Returns: `nil` for a damaged file, and for one that counts leap seconds.
  init?(tzif bytes: [UInt8]) {
    var input = TZifInput(bytes)
    guard let first = input.header() else { return nil }
    if first.version == 0 {
      guard let block = input.block(first, timeSize: 4) else { return nil }
      (changes, offsets) = block
      return
    }
    guard input.block(first, timeSize: 4) != nil, let second = input.header(), second.version == first.version,
      let block = input.block(second, timeSize: 8), let footer = input.line()
    else { return nil }
    (changes, offsets) = block
    guard !footer.isEmpty else { return }
    guard let rule = YearlyZoneRule(footer) else { return nil }
    yearly = rule
  }

  /// - Parameter time: in seconds since 1970.
  /// - Returns: seconds ahead of UTC.
  func offset(at time: Int64) -> Int64 {
    if let yearly, changes.last.map({ $0 <= time }) ?? true { return yearly.offset(at: time) }
    // The number of changes up to the time.
    var (low, high) = (0, changes.count)
    while low < high {
      let middle = (low + high) / 2
      if changes[middle] <= time { low = middle + 1 } else { high = middle }
    }
    return offsets[low]
  }
}

private struct TZifInput {
  struct Header {
    var version: UInt8
    var isUTCount, isStandardCount, leapCount, timeCount, typeCount, nameLength: Int
  }

  private var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { rest = bytes[...] }

  private mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
    guard count <= rest.count else { return nil }
    defer { rest = rest.dropFirst(count) }
    return rest.prefix(count)
  }

  mutating func header() -> Header? {
    guard let bytes = take(44), bytes.starts(with: "TZif".utf8), let version = bytes.dropFirst(4).first,
      version == 0 || version >= UInt8(ascii: "2")
    else { return nil }
    let counts = Self.numbers(bytes.dropFirst(20), size: 4).map { Int(UInt32(truncatingIfNeeded: $0)) }
    return Header(
      version: version, isUTCount: counts[0], isStandardCount: counts[1], leapCount: counts[2], timeCount: counts[3],
      typeCount: counts[4], nameLength: counts[5])
  }

  /// The times of the changes, and the offsets before the first and after each.
  mutating func block(_ header: Header, timeSize: Int) -> (changes: [Int64], offsets: [Int64])? {
    guard header.leapCount == 0, let times = take(header.timeCount * timeSize), let indices = take(header.timeCount),
      let types = take(header.typeCount * 6), take(header.nameLength + header.isStandardCount + header.isUTCount) != nil
    else { return nil }
    let changes = Self.numbers(times, size: timeSize)
    let ahead = (0..<header.typeCount).flatMap { Self.numbers(types.dropFirst($0 * 6).prefix(4), size: 4) }
    // The first type is that before the first change (section 3.2). Section 3.2 names the range of an offset, too.
    guard let standard = ahead.first, ahead.allSatisfy({ (-89_999...93_599).contains($0) }),
      indices.allSatisfy({ Int($0) < ahead.count }), zip(changes, changes.dropFirst()).allSatisfy(<)
    else { return nil }
    return (changes, [standard] + indices.map { ahead[Int($0)] })
  }

  /// The rest: a line between two line feeds.
  func line() -> ArraySlice<UInt8>? {
    let feed = UInt8(ascii: "\n")
    guard rest.count >= 2, rest.first == feed, rest.last == feed else { return nil }
    return rest.dropFirst().dropLast()
  }

  /// Signed numbers, the most significant byte first.
  private static func numbers(_ bytes: ArraySlice<UInt8>, size: Int) -> [Int64] {
    stride(from: bytes.startIndex, to: bytes.endIndex, by: size).map { start in
      let number = bytes[start..<start + size].reduce(into: UInt64(0)) { $0 = $0 << 8 | UInt64($1) }
      return size == 4 ? Int64(Int32(truncatingIfNeeded: number)) : Int64(bitPattern: number)
    }
  }
}

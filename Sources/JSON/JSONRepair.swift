extension JSONReader {
  /// Parses a text of a proven sender, without waiting for a turn, and lends the document for the duration of
  /// `decode`. A part that the parser refuses in a text or a number does not spoil the rest: half a surrogate pair,
  /// NUL, thirty digits.
  ///
  /// Such a value is read as an empty object, which is neither text nor number; such a name is empty. Of members with one
  /// name the last counts. The limits are those of `read`, and 512 KiB.
  package static func readForgivingly<Decoded>(
    _ bytes: [UInt8], decode: (JSONValue) throws(JSONError) -> Decoded
  ) throws(JSONError) -> Decoded {
    try decode(JSONDocument(forgiving: bytes, limits: JSONLimits(bytes: 512 * 1024)).root)
  }
}

extension JSONDocument {
  fileprivate init(forgiving bytes: [UInt8], limits: JSONLimits) throws(JSONError) {
    do throws(JSONError) { try self.init(bytes, limits: limits) } catch {
      // No JSON has a NUL outside of an escape, and not every store takes one.
      guard error == .syntax, !bytes.contains(0) else { throw error }
      let repaired = bytes.withUnsafeBytes(JSONRepair.repaired)
      self.init(try JSONTree.index(of: repaired, root: .object, limits: limits, rejectsDuplicates: false))
    }
  }
}

extension JSONDocument {
  init(
    _ bytes: [UInt8], root: JSONRoot, _ largeIntegers: JSONReader.LargeIntegers, limits: JSONLimits
  ) throws(JSONError) {
    do throws(JSONError) { try self.init(bytes, root: root, limits: limits) } catch {
      guard error == .syntax, largeIntegers == .text else { throw error }
      let quoted = bytes.withUnsafeBytes(JSONRepair.quotingLargeIntegers)
      guard quoted.count > bytes.count else { throw error }
      try self.init(parsing: quoted, root: root, limits: limits)
    }
  }
}

private enum JSONRepair {
  /// The text with each integer that the parser finds too large between quotes. It is JSON where the text is.
  static func quotingLargeIntegers(_ text: UnsafeRawBufferPointer) -> [UInt8] {
    var quoted: [UInt8] = []
    quoted.reserveCapacity(text.count)
    var place = 0
    while place < text.count {
      let end = max(endOfScalar(in: text, from: place), place + 1)
      let part = UnsafeRawBufferPointer(rebasing: text[place..<end])
      let isQuoted = isLargeInteger(part) && !isName(in: text, endingAt: end)
      if isQuoted { quoted.append(UInt8(ascii: "\"")) }
      quoted.append(contentsOf: part)
      if isQuoted { quoted.append(UInt8(ascii: "\"")) }
      place = end
    }
    return quoted
  }

  private static func isLargeInteger(_ text: UnsafeRawBufferPointer) -> Bool {
    let digits = text.first == UInt8(ascii: "-") ? text.dropFirst() : text[...]
    return digits.count > 18 && digits.first != UInt8(ascii: "0")
      && digits.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } && JSONTree.value(of: text) == nil
  }

  /// The text with an empty object in the place of each text and each number that the parser refuses, and an empty name
  /// in that of a name. The parser reads the text between them.
  static func repaired(_ text: UnsafeRawBufferPointer) -> [UInt8] {
    var repaired: [UInt8] = []
    repaired.reserveCapacity(text.count)
    var place = 0
    while place < text.count {
      let end = endOfScalar(in: text, from: place)
      if end == place {
        repaired.append(text[place])
        place += 1
        continue
      }
      let scalar = UnsafeRawBufferPointer(rebasing: text[place..<end])
      if JSONTree.value(of: scalar) != nil {
        repaired.append(contentsOf: scalar)
      } else {
        repaired.append(contentsOf: isName(in: text, endingAt: end) ? Array("\"\"".utf8) : Array("{}".utf8))
      }
      place = end
    }
    return repaired
  }

  /// The end of the text or number that begins at a place; the place itself where none does.
  private static func endOfScalar(in text: UnsafeRawBufferPointer, from place: Int) -> Int {
    switch text[place] {
    case UInt8(ascii: "\""):
      var end = place + 1
      while end < text.count, text[end] != UInt8(ascii: "\"") { end += text[end] == UInt8(ascii: "\\") ? 2 : 1 }
      return min(end + 1, text.count)
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
      return text[place...].firstIndex { !"+-.eE0123456789".utf8.contains($0) } ?? text.count
    default: return place
    }
  }

  private static func isName(in text: UnsafeRawBufferPointer, endingAt end: Int) -> Bool {
    text[end...].first { !" \t\r\n".utf8.contains($0) } == UInt8(ascii: ":")
  }
}

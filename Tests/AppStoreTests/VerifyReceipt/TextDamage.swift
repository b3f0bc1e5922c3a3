import SeededRandom

/// Damage to the bytes of a JSON text.
enum TextDamage {
  /// Pieces that mean something to a JSON parser or to the decoder.
  private static let pieces: [[UInt8]] = [
    "\"", "\\", "{", "}", "[", "]", ",", ":", "null", "true", "\"\"", "0", "-1", "1e999", "9223372036854775808", "0.5",
    "\\u0000", "\\ud800", "{}", "[]", "\"cancellation_date_ms\":", "\"status\":0,", "Etc/GMT", " ", "\u{0}", "_ms", "é",
  ].map { Array($0.utf8) }

  static func mutate(_ seed: [UInt8], _ dice: inout SeededRandom) -> [UInt8] {
    var bytes = seed
    for _ in 0..<Int.random(in: 1...4, using: &dice) where !bytes.isEmpty {
      let place = Int.random(in: 0..<bytes.count, using: &dice)
      let end = min(bytes.count, place + Int.random(in: 1...24, using: &dice))
      switch Int.random(in: 0..<7, using: &dice) {
      case 0: bytes[place] = UInt8.random(in: 0...255, using: &dice)
      case 1: bytes[place] ^= 1 << UInt8.random(in: 0...7, using: &dice)
      case 2: bytes.removeSubrange(place..<end)
      case 3: bytes.insert(contentsOf: bytes[place..<end], at: Int.random(in: 0...bytes.count, using: &dice))
      case 4: bytes.insert(contentsOf: pieces.randomElement(using: &dice) ?? [], at: place)
      case 5: bytes.replaceSubrange(place..<end, with: pieces.randomElement(using: &dice) ?? [])
      default: bytes.removeSubrange(place...)
      }
    }
    return bytes
  }
}

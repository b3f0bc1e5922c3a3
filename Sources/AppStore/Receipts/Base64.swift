/// Base64 of the standard alphabet (RFC 4648, section 4), read in one pass.
enum Base64 {
  /// The value of each digit, by its character; `noDigit` for every other character.
  private static let values: [UInt8] = {
    var values = [UInt8](repeating: noDigit, count: 256)
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for (value, digit) in alphabet.utf8.enumerated() { values[Int(digit)] = UInt8(value) }
    return values
  }()
  private static let noDigit: UInt8 = 0xFF

  /// The octets that digits without padding stand for.
  ///
  /// - Returns: `nil` when there is another character, or one digit too many. `isCanonical` is whether the digits are
  ///   those that an encoder writes: some leave bits at the end that mean nothing.
  static func decode(_ digits: UnsafeBufferPointer<UInt8>) -> (bytes: [UInt8], isCanonical: Bool)? {
    let tail = digits.count % 4
    guard tail != 1 else { return nil }
    let groups = digits.count / 4
    var seen: UInt8 = 0
    var isCanonical = true
    let bytes = values.withUnsafeBufferPointer { values in
      // `values` has 256 entries, one for each octet that is looked up in it. Of `digits`, 4 × `groups` + `tail` are
      // read, which is all of them; 3 × `groups` + 2 octets at most are written.
      [UInt8](unsafeUninitializedCapacity: groups * 3 + 2) { bytes, count in
        for group in 0..<groups {
          let a = values[Int(digits[4 * group])]
          let b = values[Int(digits[4 * group + 1])]
          let c = values[Int(digits[4 * group + 2])]
          let d = values[Int(digits[4 * group + 3])]
          seen |= a | b | c | d
          bytes[3 * group] = a << 2 | b >> 4
          bytes[3 * group + 1] = b << 4 | c >> 2
          bytes[3 * group + 2] = c << 6 | d
        }
        count = 3 * groups
        guard tail > 0 else { return }
        let a = values[Int(digits[4 * groups])]
        let b = values[Int(digits[4 * groups + 1])]
        let c = tail == 3 ? values[Int(digits[4 * groups + 2])] : 0
        seen |= a | b | c
        bytes[count] = a << 2 | b >> 4
        count += 1
        isCanonical = b & 0x0F == 0
        guard tail == 3 else { return }
        bytes[count] = b << 4 | c >> 2
        count += 1
        isCanonical = c & 0x03 == 0
      }
    }
    // Values of digits stay below 64.
    return seen < 64 ? (bytes, isCanonical) : nil
  }
}

import Entitlements

extension UserID {
  /// A path segment without its percent-encoding (RFC 3986, section 2.1): clients have to write `|` that way, and many
  /// write `@` and `:` so too.
  ///
  /// - Returns: `nil` for what is no percent-encoding, or not UTF-8.
  static func percentDecoded(_ segment: some StringProtocol) -> String? {
    var bytes: [UInt8] = []
    var rest = Array(segment.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst().flatMap(Self.digit), let low = rest.popFirst().flatMap(Self.digit) else {
        return nil
      }
      bytes.append(high << 4 | low)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    Character(Unicode.Scalar(byte)).hexDigitValue.flatMap { UInt8(exactly: $0) }
  }

  /// A user ID from outside.
  ///
  /// - Parameter name: the member or parameter that it came as.
  /// - Throws: a 400 problem.
  init(checking text: String, named name: String = "user_id") throws(Problem) {
    guard let user = UserID(valid: text) else {
      throw Problem(
        .malformedRequest,
        "'\(name)' has to be 1 to 128 letters, digits or any of . _ : @ | + = - $ and cannot be 'me'.")
    }
    self = user
  }
}

import Entitlements

extension UserID {
  /// A user ID from outside: 1 to 128 letters, digits and `. _ : @ | + = -`, which holds UUIDs and what the common
  /// identity providers hand out. `me` is not an ID.
  /// - Throws: a 400 problem.
  init(checking text: String) throws(Problem) {
    let isPlain = text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
      default: "._:@|+=-".utf8.contains(byte)
      }
    }
    guard isPlain, (1...128).contains(text.utf8.count), text != "me" else {
      throw Problem(
        .malformedRequest,
        "'user_id' has to be 1 to 128 letters, digits or any of . _ : @ | + = - and cannot be 'me'.")
    }
    self.init(text)
  }
}

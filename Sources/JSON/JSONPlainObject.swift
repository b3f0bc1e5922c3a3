/// A JSON object whose members are all texts without escapes, such as an app's post, which is nearly all receipt.
///
/// Parsing needs neither a tree nor Foundation. Any other input is left to a full JSON parser, which reports
/// errors.
package struct JSONPlainObject: Sendable {
  /// The most members; objects with more are not ours.
  private static let limit = 16

  private var members: [(name: String, text: String)] = []

  /// - Returns: `nil` for an escape, a duplicate member, a value that is not a text, invalid UTF-8, and anything but
  ///   one JSON object.
  package init?(_ json: UnsafeRawBufferPointer) {
    guard var scanner = JSONScanner(json) else { return nil }
    scanner.skipSpace()
    guard scanner.take(UInt8(ascii: "{")) else { return nil }
    repeat {
      scanner.skipSpace()
      guard let name = Self.text(&scanner) else { return nil }
      scanner.skipSpace()
      guard scanner.take(UInt8(ascii: ":")) else { return nil }
      scanner.skipSpace()
      guard let text = Self.text(&scanner), self[name] == nil, members.count < Self.limit else { return nil }
      members.append((name, text))
      scanner.skipSpace()
    } while scanner.take(UInt8(ascii: ","))
    guard scanner.take(UInt8(ascii: "}")) else { return nil }
    scanner.skipSpace()
    guard scanner.isAtEnd else { return nil }
  }

  /// The text of a member; `nil` if it is absent.
  package subscript(name: String) -> String? { members.first { $0.name == name }?.text }

  private static func text(_ scanner: inout JSONScanner) -> String? {
    // A key is a text without escapes.
    guard scanner.take(UInt8(ascii: "\"")), let token = scanner.skipKey() else { return nil }
    return String(validating: UnsafeRawBufferPointer(start: token.start, count: token.length), as: UTF8.self)
  }
}

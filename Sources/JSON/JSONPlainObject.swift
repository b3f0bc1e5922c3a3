/// A JSON object whose members are all texts, each written as it is: what an app posts is one, and nearly all of it is a
/// receipt.
///
/// It is read without a tree and without Foundation. Whatever is not plainly of this kind is left to a parser that knows all
/// of JSON, and tells what is wrong.
package struct JSONPlainObject: Sendable {
  /// More members than this are none of ours.
  private static let limit = 16

  private var members: [(name: String, text: String)] = []

  /// - Returns: `nil` for an escape, a member twice, a value that is no text, bytes that are no UTF-8, and whatever is not
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

  /// The text of a member; `nil` where there is none of that name.
  package subscript(name: String) -> String? { members.first { $0.name == name }?.text }

  private static func text(_ scanner: inout JSONScanner) -> String? {
    // A key is a text without escapes.
    guard scanner.take(UInt8(ascii: "\"")), let token = scanner.skipKey() else { return nil }
    return String(validating: UnsafeRawBufferPointer(start: token.start, count: token.length), as: UTF8.self)
  }
}

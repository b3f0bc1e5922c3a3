import YAML

extension Node {
  /// The document as a test looks into it: `[String: Any]`, `[Any]`, texts, numbers and truth values of YAML 1.2's core schema.
  static func value(of text: String) throws -> Any? { try document(in: Array(text.utf8))?.value }

  private var value: Any? {
    switch content {
    case .sequence(let items): items.compactMap(\.value)
    case .mapping(let members):
      Dictionary(members.compactMap { key, item in item.value.map { (key.scalar?.string ?? "", $0) } }) { $1 }
    case .scalar(let scalar): scalar.isPlain ? Self.plain(scalar.string) : scalar.string
    }
  }

  private static func plain(_ text: String) -> Any? {
    switch text {
    case "", "~", "null": nil
    case "true", "false": text == "true"
    default: Int(text) ?? (text.first?.isNumber == true ? Double(text) : nil) ?? text
    }
  }
}

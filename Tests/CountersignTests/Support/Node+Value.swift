import class Foundation.NSNull
import YAML

extension Node {
  /// The document as a test looks into it: `[String: Any]`, `[Any]`, texts, numbers, truth values and `NSNull`, by the core
  /// schema of YAML 1.2.
  static func value(of text: String) throws -> Any? { try document(in: Array(text.utf8))?.value }

  private var value: Any {
    switch content {
    case .sequence(let items): items.map(\.value)
    case .mapping(let members): Dictionary(members.map { ($0.scalar?.string ?? "", $1.value) }) { $1 }
    case .scalar(let scalar): scalar.isPlain ? Self.plain(scalar.string) : scalar.string
    }
  }

  private static func plain(_ text: String) -> Any {
    switch text {
    case "", "~", "null": NSNull()
    case "true", "false": text == "true"
    default: Int(text) ?? (text.first?.isNumber == true ? Double(text) : nil) ?? text
    }
  }
}

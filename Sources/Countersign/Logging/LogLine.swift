import Entitlements
import FoundationEssentials
import JSON
import Logging

/// An event of the log. What is not plain is escaped in either form, so that no value can start a new line or control a
/// terminal.
struct LogLine {
  var time: Date
  var level: Logger.Level
  var label: String
  var message: String
  var fields: Logger.Metadata

  private var sortedFields: [(key: String, value: Logger.MetadataValue)] { fields.sorted { $0.key < $1.key } }
}

// MARK: - For machines

extension LogLine {
  /// One object of JSON, and a newline.
  var json: String {
    var json = JSONWriter(capacity: 512, escaping: \.steersTerminals)
    json.object { json in
      json.member("time", time.rfc3339)
      json.member("level", level.rawValue)
      json.member("logger", label)
      json.member("message", message)
      for (key, value) in sortedFields {
        switch value {
        case .string(let text): json.member(key, text)
        case .stringConvertible(let value): Self.write(key, value, to: &json)
        case .array, .dictionary: json.member(key, value.description)
        }
      }
    }
    return String(decoding: json.bytes, as: UTF8.self) + "\n"
  }

  /// The type decides, never the text: an identifier of digits is a string.
  private static func write(_ key: String, _ value: any CustomStringConvertible & Sendable, to json: inout JSONWriter) {
    switch value {
    case let flag as Bool: json.member(key, flag)
    case let number as any FixedWidthInteger: json.member(key, raw: number.description)
    // JSON has no infinity, and three decimals are precise enough for any logged value.
    case let number as Double where number.magnitude < 1e12:
      json.member(key, raw: "\((number * 1_000).rounded() / 1_000)")
    default: json.member(key, value.description)
    }
  }
}

// MARK: - For people

extension LogLine {
  /// The message, then its metadata:
  ///
  ///     2026-01-15T12:00:00Z info verdict reason=renewing tier=pro user_id=user-1
  var text: String {
    var line = "\(time.rfc3339) \(level.rawValue) "
    Self.appendText(message, isValue: false, to: &line)
    for (key, value) in sortedFields {
      line += " "
      Self.appendText(key, isValue: false, to: &line)
      line += "="
      if case .stringConvertible(let number as Double) = value {
        line += "\((number * 1_000).rounded() / 1_000)"
      } else {
        Self.appendText(value.description, isValue: true, to: &line)
      }
    }
    return line + "\n"
  }

  /// A value that contains a space or a quotation mark is quoted.
  private static func appendText(_ text: String, isValue: Bool, to line: inout String) {
    let isQuoted = isValue && (text.isEmpty || text.contains { $0 == " " || $0 == "\"" })
    if isQuoted { line += "\"" }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"" where isQuoted, "\\" where isQuoted: line += "\\\(scalar)"
      case _ where scalar.steersTerminals: line += scalar.escaped(asASCII: true)
      default: line.unicodeScalars.append(scalar)
      }
    }
    if isQuoted { line += "\"" }
  }
}

extension Unicode.Scalar {
  /// Whether it is a control character, or changes the direction of text.
  fileprivate var steersTerminals: Bool {
    switch self {
    case "\u{0}"..<"\u{20}", "\u{7f}"..."\u{9f}", "\u{200e}"..."\u{200f}", "\u{2028}"..."\u{202e}",
      "\u{2066}"..."\u{2069}":
      true
    default: false
    }
  }
}

import Entitlements
import FoundationEssentials
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
  /// One object of JSON.
  var json: String {
    var line = ""
    line.reserveCapacity(512)
    line += "{\"time\":\""
    line += time.rfc3339
    line += "\",\"level\":\""
    line += level.rawValue
    line += "\",\"logger\":"
    Self.appendJSON(label, to: &line)
    line += ",\"message\":"
    Self.appendJSON(message, to: &line)
    for (key, value) in sortedFields {
      line += ","
      Self.appendJSON(key, to: &line)
      line += ":"
      switch value {
      case .string(let text): Self.appendJSON(text, to: &line)
      case .stringConvertible(let value): Self.appendJSON(value, to: &line)
      case .array, .dictionary: Self.appendJSON(value.description, to: &line)
      }
    }
    line += "}\n"
    return line
  }

  /// The type decides, never the text: an identifier of digits is a string.
  private static func appendJSON(_ value: any CustomStringConvertible & Sendable, to line: inout String) {
    switch value {
    case let flag as Bool: line += flag ? "true" : "false"
    case let number as any FixedWidthInteger: line += number.description
    // JSON has no infinity, and three decimals are precise enough for any logged value.
    case let number as Double where number.magnitude < 1e12: line += "\((number * 1_000).rounded() / 1_000)"
    default: appendJSON(value.description, to: &line)
    }
  }

  private static func appendJSON(_ text: String, to line: inout String) {
    line += "\""
    // Fast path: most texts need no escape.
    let isHarmless = text.utf8.allSatisfy { byte in
      byte >= 0x20 && byte < 0x7f && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }
    if isHarmless {
      line += text
    } else {
      for scalar in text.unicodeScalars {
        switch scalar {
        case "\"": line += "\\\""
        case "\\": line += "\\\\"
        case "\n": line += "\\n"
        case _ where scalar.steersTerminals:
          let digits = String(scalar.value, radix: 16)
          line += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        default: line.unicodeScalars.append(scalar)
        }
      }
    }
    line += "\""
  }
}

// MARK: - For people

extension LogLine {
  /// The message, then its metadata:
  ///
  ///     2026-01-15T12:00:00Z info validated reason=renewing tier=pro user_id=user-1
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

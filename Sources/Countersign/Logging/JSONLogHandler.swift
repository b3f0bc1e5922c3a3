import Entitlements
import FoundationEssentials
import Logging

/// Writes each event as one line of JSON to standard error.
///
/// Everything is escaped, so that no value can start a new line or control a terminal.
struct JSONLogHandler: LogHandler {
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?
  var logLevel: Logger.Level
  let label: String
  let output: LogOutput

  init(label: String, level: Logger.Level, output: LogOutput) {
    self.label = label
    self.logLevel = level
    self.output = output
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    var fields = metadata
    for (key, value) in metadataProvider?.get() ?? [:] { fields[key] = value }
    for (key, value) in event.metadata ?? [:] { fields[key] = value }
    output.write(
      Self.line(time: .now, level: event.level, label: label, message: event.message.description, fields: fields))
  }

  static func line(
    time: Date, level: Logger.Level, label: String, message: String, fields: Logger.Metadata
  ) -> String {
    var line = ""
    line.reserveCapacity(512)
    line += "{\"time\":\""
    line += time.rfc3339
    line += "\",\"level\":\""
    line += level.rawValue
    line += "\",\"logger\":"
    append(label, to: &line)
    line += ",\"message\":"
    append(message, to: &line)
    for (key, value) in fields.sorted(by: { $0.key < $1.key }) {
      line += ","
      append(key, to: &line)
      line += ":"
      switch value {
      case .string(let text): append(text, to: &line)
      case .stringConvertible(let value): append(value, to: &line)
      case .array, .dictionary: append(value.description, to: &line)
      }
    }
    line += "}\n"
    return line
  }

  /// The type decides, never the text: an identifier of digits is a string.
  private static func append(_ value: any CustomStringConvertible & Sendable, to line: inout String) {
    switch value {
    case let flag as Bool: line += flag ? "true" : "false"
    case let number as any FixedWidthInteger: line += number.description
    // JSON has no infinity, and three decimals are precise enough for any logged value.
    case let number as Double where number.magnitude < 1e12: line += "\((number * 1_000).rounded() / 1_000)"
    default: append(value.description, to: &line)
    }
  }

  private static func append(_ text: String, to line: inout String) {
    // Fast path: most texts need no escape.
    let isHarmless = text.utf8.allSatisfy { byte in
      byte >= 0x20 && byte < 0x7f && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }
    guard isHarmless else {
      line += quoted(text)
      return
    }
    line += "\""
    line += text
    line += "\""
  }

  private static func quoted(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": quoted += "\\\""
      case "\\": quoted += "\\\\"
      case "\n": quoted += "\\n"
      // Control characters, and those that change the direction of text.
      case "\u{0}"..<"\u{20}", "\u{7f}"..."\u{9f}", "\u{200e}"..."\u{200f}", "\u{2028}"..."\u{202e}",
        "\u{2066}"..."\u{2069}":
        let digits = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }
}

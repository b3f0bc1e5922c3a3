import Entitlements
import FoundationEssentials
import Logging

/// Writes each event as one line for people: the message, then its metadata.
///
///     2026-01-15T12:00:00Z info validated reason=renewing tier=pro user_id=user-1
struct TextLogHandler: LogHandler {
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?
  var logLevel: Logger.Level
  let output: LogOutput

  init(level: Logger.Level, output: LogOutput) {
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
    output.write(Self.line(time: .now, level: event.level, message: event.message.description, fields: fields))
  }

  static func line(time: Date, level: Logger.Level, message: String, fields: Logger.Metadata) -> String {
    var line = "\(time.rfc3339) \(level.rawValue) "
    append(message, isValue: false, to: &line)
    for (key, value) in fields.sorted(by: { $0.key < $1.key }) {
      line += " "
      append(key, isValue: false, to: &line)
      line += "="
      if case .stringConvertible(let number as Double) = value {
        line += "\((number * 1_000).rounded() / 1_000)"
      } else {
        append(value.description, isValue: true, to: &line)
      }
    }
    return line + "\n"
  }

  /// Control characters are escaped, so that no value can start a new line or control a terminal. A value that contains
  /// a space or a quotation mark is quoted.
  private static func append(_ text: String, isValue: Bool, to line: inout String) {
    let isQuoted = isValue && (text.isEmpty || text.contains { $0 == " " || $0 == "\"" })
    if isQuoted { line += "\"" }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"" where isQuoted, "\\" where isQuoted: line += "\\\(scalar)"
      // Control characters, and those that change the direction of text.
      case "\u{0}"..<"\u{20}", "\u{7f}"..."\u{9f}", "\u{200e}"..."\u{200f}", "\u{2028}"..."\u{202e}",
        "\u{2066}"..."\u{2069}":
        line += scalar.escaped(asASCII: true)
      default: line.unicodeScalars.append(scalar)
      }
    }
    if isQuoted { line += "\"" }
  }
}

import Entitlements

/// The reference of all keys, for people.
enum ConfigurationReference {
  /// For `docs/reference/configuration.md`: one row per key.
  static func markdownTable() -> String {
    var lines = ["| key | value | default | environment | what |", "|---|---|---|---|---|"]
    for key in ConfigurationKey.allCases {
      let names = ["`\(key.rawValue)`", key.fileVariant.map { "`\($0)`" }]
      let variables = [key.environmentName, key.fileVariant.map(ConfigurationKey.environmentName(of:))]
        .compactMap { $0.map { "`\($0)`" } }
      let cells = [
        names.compactMap(\.self).joined(separator: " or "), value(of: key), standard(of: key),
        variables.isEmpty ? "file only" : variables.joined(separator: " or "), key.entry.summary,
      ]
      lines.append("| " + cells.joined(separator: " | ") + " |")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  /// For `--help`: a line with the key, and its purpose below.
  static func plainText() -> String {
    ConfigurationKey.allCases.flatMap { key in
      lines("\(key.rawValue) (\(value(of: key)); \(standard(of: key)))", indentation: 2, hanging: 10)
        + lines(key.entry.summary, indentation: 6, hanging: 6)
    }.joined(separator: "\n") + "\n"
  }

  /// Wrapped for a terminal of 80 columns, which would not keep the indentation itself.
  private static func lines(_ text: String, indentation: Int, hanging: Int) -> [String] {
    var lines: [String] = []
    var line = String(repeating: " ", count: indentation)
    var isEmpty = true
    for word in text.replacing("`", with: "").split(separator: " ") {
      if !isEmpty, line.count + 1 + word.count > 80 {
        lines.append(line)
        line = String(repeating: " ", count: hanging)
        isEmpty = true
      }
      line += isEmpty ? "\(word)" : " \(word)"
      isEmpty = false
    }
    return lines + [line]
  }

  private static func value(of key: ConfigurationKey) -> String {
    switch key.entry.kind {
    case .text: "text"
    case .integer(let range): "\(range.lowerBound) to \(range.upperBound)"
    case .size(let range):
      "size, \(ConfigurationValue.describe(size: range.lowerBound)) to "
        + ConfigurationValue.describe(size: range.upperBound)
    case .duration(let range):
      "duration, \(range.lowerBound.configurationText) to \(range.upperBound.configurationText)"
    case .choice(let choices): choices.map { "`\($0)`" }.joined(separator: ", ")
    case .url: "https URL"
    case .keySetURL: "https URL"
    case .baseURL: "https or http URL"
    case .name: "name"
    case .file: "file"
    case .secret: "secret"
    case .privateKey: "private key (PEM)"
    case .list: "list"
    case .fileList: "list of files"
    case .products: "mapping"
    case .apiKeys: "list of mappings"
    }
  }

  private static func standard(of key: ConfigurationKey) -> String {
    switch key.entry.default {
    case .required: "required"
    case .absent: "none"
    case .text(let text): "`\(text)`"
    case .emptyList: "`[]`"
    }
  }
}

/// The reference of all keys, for people.
enum ConfigurationReference {
  /// For `docs/reference/configuration.md`: one row per key.
  static func markdownTable() -> String {
    func quoted(_ names: [String]) -> String { names.map { "`\($0)`" }.joined(separator: " or ") }
    let head = "| key | value | default | environment | what |\n|---|---|---|---|---|\n"
    return ConfigurationKey.all.reduce(into: head) { table, key in
      let variables = key.variables.isEmpty ? "file only" : quoted(key.variables)
      table += "| \(quoted(key.fileNames)) | \(key.form) | \(key.standard) | \(variables) | \(key.summary) |\n"
    }
  }

  /// For `--help`: a line with the key, and its purpose below.
  static func plainText() -> String {
    ConfigurationKey.all.flatMap { key in
      lines("\(key.name) (\(key.form); \(key.standard))", indentation: 2, hanging: 10)
        + lines(key.summary, indentation: 6, hanging: 6)
    }.joined(separator: "\n") + "\n"
  }

  /// Wrapped for a terminal of 80 columns. A longer line the parser would wrap itself, without the indentation; it counts the
  /// line break.
  private static func lines(_ text: String, indentation: Int, hanging: Int) -> [String] {
    var lines: [String] = []
    var line = String(repeating: " ", count: indentation)
    var isEmpty = true
    for word in text.replacing("`", with: "").split(separator: " ") {
      if !isEmpty, line.count + 1 + word.count > 79 {
        lines.append(line)
        line = String(repeating: " ", count: hanging)
        isEmpty = true
      }
      line += isEmpty ? "\(word)" : " \(word)"
      isEmpty = false
    }
    return lines + [line]
  }
}

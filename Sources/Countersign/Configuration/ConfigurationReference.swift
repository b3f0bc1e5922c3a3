/// The reference of all keys, for people.
enum ConfigurationReference {
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

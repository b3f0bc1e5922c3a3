import CountersignAPI
import FoundationEssentials

/// The customers of a file who are not equal, as lines of JSON beside it, for its owner alone. It goes when all are.
struct ImportDifferences {
  var path: String

  /// Merges what a call has found into what earlier ones had.
  ///
  /// - Parameter unequal: the numbers of all lines that are known to be unequal.
  func write(_ found: [ImportReport.Line], unequal: Set<Int>) throws {
    var lines = former()
    for line in found { lines[line.number] = try String(decoding: JSONEncoder.countersign.encode(line), as: UTF8.self) }
    let text = lines.filter { unequal.contains($0.key) }.sorted { $0.key < $1.key }.map { $0.value + "\n" }.joined()
    try OwnFile.replace(path, with: text)
  }

  private func former() -> [Int: String] {
    struct Number: Decodable { var line: Int }
    let lines = (try? String(contentsOfFile: path, encoding: .utf8))?.split(separator: "\n") ?? []
    return lines.reduce(into: [:]) { lines, line in
      guard let number = try? JSONDecoder().decode(Number.self, from: Data(line.utf8)) else { return }
      lines[number.line] = String(line)
    }
  }
}

/// A file that an import makes beside the one it reads. It has personal data.
enum OwnFile {
  /// Writes a file anew, with mode 0600; an empty text removes it.
  static func replace(_ path: String, with text: String) throws {
    let files = FileManager.default
    guard !text.isEmpty else {
      if files.fileExists(atPath: path) { try files.removeItem(atPath: path) }
      return
    }
    if !files.fileExists(atPath: path) {
      guard files.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]) else {
        throw CocoaError(.fileWriteUnknown)
      }
    }
    // What replaces a file gets its mode.
    try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
    try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
  }
}

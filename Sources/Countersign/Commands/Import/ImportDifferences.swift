import CountersignAPI
import Files
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
    try NewFile.replace(path, with: text)
  }

  private func former() -> [Int: String] {
    struct Number: Decodable { var line: Int }
    let bytes = (try? BoundedFile(path: path, limit: CustomersCSV.largest).bytes) ?? []
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    return lines.reduce(into: [:]) { lines, line in
      guard let number = try? JSONDecoder().decode(Number.self, from: Data(line.utf8)) else { return }
      lines[number.line] = String(line)
    }
  }
}

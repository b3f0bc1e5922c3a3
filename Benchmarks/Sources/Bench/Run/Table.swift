import Foundation

/// One figure, with what it is measured against.
struct Row {
  var name: String
  var value: String
  /// Beside the bound of the same run: "2.8 × bare transport".
  var ratio = ""
  var target = ""
  /// Whether the target is met; `nil` for a figure without one.
  var holds: Bool?
}

/// Prints rows as they come, and keeps them for the file.
final class Table {
  private(set) var sections: [(title: String, rows: [Row])] = []

  func section(_ title: String) {
    sections.append((title, []))
    print("\n\(title)")
  }

  func add(_ row: Row) {
    if sections.isEmpty { sections.append(("", [])) }
    sections[sections.count - 1].rows.append(row)
    let mark = row.holds.map { $0 ? "  ok" : "  MISSED" } ?? ""
    func pad(_ text: String, _ width: Int) -> String {
      text + String(repeating: " ", count: Swift.max(1, width - text.count))
    }
    print("  " + pad(row.name, 58) + pad(row.value, 22) + pad(row.ratio, 34) + pad(row.target, 20) + mark)
    fflush(nil)
  }

  var markdown: String {
    sections.map { section in
      "### \(section.title)\n\n| what | measured | beside | target | |\n|---|---|---|---|---|\n"
        + section.rows.map { row in
          "| \(row.name) | \(row.value) | \(row.ratio) | \(row.target) | \(row.holds.map { $0 ? "met" : "missed" } ?? "") |"
        }.joined(separator: "\n")
    }.joined(separator: "\n\n") + "\n"
  }
}

extension Double {
  func text(_ digits: Int = 0) -> String { String(format: "%.\(digits)f", self) }
}

/// Rows of cells as a table for a terminal: each column as wide as its widest cell.
enum TextTable {
  /// - Parameter numbers: columns that are aligned at the right, as numbers are.
  static func text(_ rows: [[String]], numbers: Range<Int> = 0..<0) -> String {
    let columns = rows.map(\.count).max() ?? 0
    let widths = (0..<columns).map { column in rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0 }
    return rows.map { row in
      var line = zip(row.indices, row).map { column, cell in
        let space = String(repeating: " ", count: widths[column] - cell.count)
        return numbers.contains(column) ? space + cell : cell + space
      }.joined(separator: "  ")
      while line.last == " " { line.removeLast() }
      return line
    }.joined(separator: "\n")
  }
}

/// Answers, one line each.
struct DemoTable {
  private let json: Bool
  private let columns: [String]
  private var rows: [(name: String, answer: DemoAnswer)] = []

  init(json: Bool, columns: [String] = ["scenario", "http", "tier", "status", "access until", "reason"]) {
    self.json = json
    self.columns = columns
  }

  mutating func add(_ name: String, _ answer: DemoAnswer) { rows.append((name, answer)) }

  func print() {
    if json {
      for row in rows { Swift.print(row.answer.json) }
      return
    }
    let cells =
      [columns]
      + rows.map {
        [$0.name, String($0.answer.status)] + $0.answer.cells
      }
    Swift.print(TextTable(cells).text)
  }
}

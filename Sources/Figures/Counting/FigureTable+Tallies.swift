internal import Entitlements
internal import Ledger

extension FigureTable {
  /// Adds the changes of counts to their sums.
  /// - Returns: the number of changes.
  func addTallies(limit: Int) throws -> Int {
    let noted = try all(
      "SELECT id, name, day, label, detail, change FROM tally_change ORDER BY id LIMIT ?", max(0, limit),
      as: (Int64, Tally.Name, Int, String, String, Int64).self)
    guard let last = noted.last?.0 else { return 0 }
    var sums: [Tally: Int64] = [:]
    for (_, name, day, label, detail, change) in noted {
      let tally = Tally(name: name, day: day, label: label, detail: detail)
      sums[tally, default: 0] += change
      if let month = tally.month { sums[month, default: 0] += change }
    }
    for (tally, sum) in sums.sorted(by: { $0.key < $1.key }) where sum != 0 {
      try execute(
        """
        INSERT INTO tally (name, day, label, detail, count) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (name, day, label, detail) DO UPDATE SET count = tally.count + excluded.count
        """, tally.name, tally.day, tally.label, tally.detail, sum)
    }
    try execute("DELETE FROM tally_change WHERE id <= ?", last)
    return noted.count
  }

  /// Replaces every monthly sum by that of its days.
  func addUpMonths() throws {
    var months: [Tally: Int64] = [:]
    for name in Tally.Name.allCases {
      guard let ofMonths = name.months else { continue }
      try execute("DELETE FROM tally WHERE name = ?", ofMonths)
      for (day, count) in try tallies(name, Int(Int32.min)..<Int(Int32.max)) {
        if let month = day.month { months[month, default: 0] += count }
      }
    }
    for (month, count) in months.sorted(by: { $0.key < $1.key }) {
      try execute(
        "INSERT INTO tally (name, day, label, detail, count) VALUES (?, ?, ?, ?, ?)", month.name, month.day,
        month.label, month.detail, count)
    }
  }

  /// The counts of a range of days, in the order of their keys.
  func tallies(_ name: Tally.Name, _ days: Range<Int> = 0..<1) throws -> [(tally: Tally, count: Int64)] {
    try all(
      """
      SELECT name, day, label, detail, count FROM tally WHERE name = ? AND day >= ? AND day < ?
      ORDER BY name, day, label, detail
      """, name, days.lowerBound, days.upperBound
    ) { row in
      (Tally(name: try row.get(0), day: try row.get(1), label: try row.get(2), detail: try row.get(3)), try row.get(4))
    }
  }
}

extension Tally {
  /// The monthly sum of a daily count; `nil` for a count as of now.
  fileprivate var month: Tally? {
    name.months.map { Tally(name: $0, day: CalendarDay.firstOfMonth(of: day), label: label, detail: detail) }
  }
}

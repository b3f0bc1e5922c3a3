internal import Entitlements
internal import struct FoundationEssentials.Date

/// Exchange rates by day, in the form in which the European Central Bank publishes its reference rates:
///
///     Date,USD,JPY,BGN,…                        Date, USD, JPY, BGN, …
///     2026-11-27,1.0545,159.23,1.9558,…         27 November 2026, 1.0545, 159.23, 1.9558, …
///     2026-11-26,1.0531,N/A,1.9558,…
///
/// A rate is the amount of a currency for one euro; with a column for EUR, for one of whatever unit all columns share. A
/// day without a rate has that of the day before it, as weekends do; days before the first rate have the first.
///
/// https://www.ecb.europa.eu/stats/policy_and_exchange_rates/euro_reference_exchange_rates
package struct ExchangeRates: Sendable {
  /// Why a text holds no rates, as the end of a sentence.
  package struct Unusable: Error, Hashable {
    package let reason: String

    package init(reason: String) { self.reason = reason }
  }

  /// The most bytes: the bank's file since 1999 has two million.
  package static let sizeLimit = 8 << 20
  /// The most currencies, and days from the first to the last: a century.
  private static let currencyLimit = 100
  private static let dayLimit = 36_600

  /// The currency into which amounts are converted, as ISO 4217 names it.
  package let currency: String
  /// The first and the last day of the text, since 1970-01-01.
  package let days: ClosedRange<Int>
  /// The sums of each currency's factors up to each day, of which the first is zero: they make means of any span quick.
  private let sums: [String: [Double]]

  /// - Parameter currency: the one into which amounts are converted.
  package init(csv: [UInt8], into currency: String) throws(Unusable) {
    guard csv.count <= Self.sizeLimit else { throw Unusable(reason: "is larger than \(Self.sizeLimit >> 20) MiB") }
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    let lines = csv.dropFirst(csv.starts(with: mark) ? mark.count : 0)
      .split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map(Self.cells)
    let names = try Self.currencies(lines.first ?? [])
    var rows: [(day: Int, rates: [Double?])] = []
    for (number, cells) in lines.enumerated().dropFirst() where !cells.isEmpty {
      rows.append(try Self.row(cells, number: number + 1, names))
    }
    rows.sort { $0.day < $1.day }
    guard let first = rows.first?.day, let last = rows.last?.day else { throw Unusable(reason: "has no day") }
    if let twice = zip(rows, rows.dropFirst()).first(where: { $0.day == $1.day }) {
      throw Unusable(reason: "has \(Self.text(twice.0.day)) twice")
    }
    guard last - first < Self.dayLimit else { throw Unusable(reason: "spans more than a hundred years") }
    var rates: [String: [Double]] = [:]
    for (column, name) in names.enumerated() {
      rates[name] = Self.filled(rows.map { ($0.day, $0.rates[column]) }, first...last)
    }
    let count = last - first + 1
    if rates["EUR"] == nil { rates["EUR"] = Array(repeating: 1, count: count) }
    guard let target = rates[currency] else { throw Unusable(reason: "has no rate of \(currency)") }
    self.currency = currency
    days = first...last
    sums = rates.mapValues { rates in
      zip(rates, target).reduce(into: [0]) { sums, rate in sums.append((sums.last ?? 0) + rate.1 / rate.0) }
    }
  }

  /// The mean of the factors by which an amount is multiplied on each day of a span; `nil` for an unknown currency. Days
  /// outside of the text have its first or last rates.
  package func factor(_ currency: String, over span: Range<Int>) -> Double? {
    guard !span.isEmpty, let sums = sums[currency] else { return nil }
    let last = sums.count - 1
    func sum(to day: Int) -> Double {
      let place = day - days.lowerBound
      if place < 0 { return Double(place) * sums[1] }
      return place <= last ? sums[place] : sums[last] + Double(place - last) * (sums[last] - sums[last - 1])
    }
    return (sum(to: span.upperBound) - sum(to: span.lowerBound)) / Double(span.count)
  }

  // MARK: The text

  /// A day as `2026-01-31`.
  package static func text(_ day: Int) -> String {
    Date(timeIntervalSince1970: Double(day) * 86_400).rfc3339.prefix(10).description
  }

  private static func cells(_ line: ArraySlice<UInt8>) -> [String] {
    func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == 0x0D }
    var cells = line.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).map { cell in
      let start = cell.drop(while: isSpace)
      return String(decoding: start.dropLast(start.reversed().prefix(while: isSpace).count), as: UTF8.self)
    }
    // The bank ends each line with a comma.
    if cells.last == "" { cells.removeLast() }
    return cells
  }

  private static func currencies(_ cells: [String]) throws(Unusable) -> [String] {
    guard cells.first?.lowercased() == "date", cells.count > 1 else {
      throw Unusable(reason: "has no first line with Date and currencies, such as Date,USD,GBP")
    }
    let names = Array(cells.dropFirst())
    guard names.count <= currencyLimit else { throw Unusable(reason: "has more than \(currencyLimit) currencies") }
    for (place, name) in names.enumerated() {
      guard name.utf8.count == 3, name.utf8.allSatisfy({ (0x41...0x5a).contains($0) }) else {
        throw Unusable(reason: "has a currency in the first line that is not three capitals such as USD")
      }
      guard !names[..<place].contains(name) else { throw Unusable(reason: "has \(name) twice in the first line") }
    }
    return names
  }

  private static func row(
    _ cells: [String], number: Int, _ names: [String]
  ) throws(Unusable) -> (day: Int, rates: [Double?]) {
    guard let date = cells.first, let day = day(date) else {
      throw Unusable(reason: "has no day in line \(number), such as 2026-11-27 or 27 November 2026")
    }
    guard cells.count == names.count + 1 else {
      throw Unusable(reason: "has \(cells.count - 1) rates in line \(number), and \(names.count) currencies")
    }
    var rates: [Double?] = []
    for (name, cell) in zip(names, cells.dropFirst()) {
      if cell.isEmpty || cell == "N/A" {
        rates.append(nil)
      } else if let rate = Double(cell), rate >= 1e-9, rate <= 1e9 {
        rates.append(rate)
      } else {
        throw Unusable(reason: "has no number above zero as the rate of \(name) in line \(number)")
      }
    }
    return (day, rates)
  }

  private static let months = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
  ]

  private static func day(_ text: String) -> Int? {
    var parts = text.split(separator: "-").map(String.init)
    if parts.count != 3 {
      parts = text.split(separator: " ").reversed().map(String.init)
      guard parts.count == 3, let month = months.firstIndex(of: parts[1]) else { return nil }
      parts[1] = String(month + 1)
    }
    guard let year = Int(parts[0]), let month = Int(parts[1]), let day = Int(parts[2]) else { return nil }
    return CalendarDay(year: year, month: month, day: day)?.daysSince1970
  }

  /// A rate for each day; `nil` if there is none at all.
  private static func filled(_ known: [(day: Int, rate: Double?)], _ days: ClosedRange<Int>) -> [Double]? {
    guard var last = known.lazy.compactMap(\.rate).first else { return nil }
    var filled: [Double] = []
    filled.reserveCapacity(days.count)
    for (day, rate) in known {
      while days.lowerBound + filled.count < day { filled.append(last) }
      last = rate ?? last
      filled.append(last)
    }
    return filled
  }
}

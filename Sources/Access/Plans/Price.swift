/// An exact amount of money, in thousandths of the currency's unit, as Apple has it: 4.99 is 4,990.
package struct Price: Hashable, Sendable {
  package let milliunits: Int64

  package init(milliunits: Int64) { self.milliunits = milliunits }

  /// Reads `4.99`, `5`, or `0.125`: up to nine digits, and three after the point.
  package init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard let whole = parts.first, parts.count <= 2, Self.isDigits(whole, 1...9), let units = Int64(whole) else {
      return nil
    }
    let fraction = parts.dropFirst().first
    guard fraction.map({ Self.isDigits($0, 1...3) }) ?? true else { return nil }
    let digits = (fraction ?? "") + String(repeating: "0", count: 3 - (fraction?.count ?? 0))
    guard let thousandths = Int64(digits) else { return nil }
    milliunits = units * 1000 + thousandths
  }

  /// The price as the configuration writes it: `4.99`, with at least two digits after the point.
  package var text: String {
    let (units, thousandths) = milliunits.magnitude.quotientAndRemainder(dividingBy: 1000)
    let (hundredths, last) = thousandths.quotientAndRemainder(dividingBy: 10)
    let fraction = last == 0 ? "" : "\(last)"
    return "\(milliunits < 0 ? "-" : "")\(units).\(hundredths / 10)\(hundredths % 10)\(fraction)"
  }

  private static func isDigits(_ text: Substring, _ count: ClosedRange<Int>) -> Bool {
    count.contains(text.utf8.count) && text.utf8.allSatisfy { (0x30...0x39).contains($0) }
  }
}

/// Parses durations: `300ms`, `10s`, `5m`, `24h`, `30d`.
enum DurationText {
  private static let units: [(suffix: String, milliseconds: Int64)] = [
    ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
  ]

  /// - Returns: milliseconds, negative for a text with a minus sign; nil for anything else.
  static func milliseconds(_ text: String) -> Int64? {
    if text == "0" { return 0 }
    guard let unit = units.first(where: { text.hasSuffix($0.suffix) }),
      let number = Int64(text.dropLast(unit.suffix.count))
    else { return nil }
    let product = number.multipliedReportingOverflow(by: unit.milliseconds)
    return product.overflow ? nil : product.partialValue
  }
}

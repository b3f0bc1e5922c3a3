extension Duration {
  /// As it is written in the configuration: a whole number of the largest unit that carries it exactly.
  ///
  ///     60 days      60d
  ///     1.5 days     36h
  ///     1.5 minutes  90s
  ///     none         0
  ///
  /// What is finer than a millisecond is cut off.
  package var configurationText: String {
    let milliseconds = wholeMilliseconds
    if milliseconds == 0 { return "0" }
    let units: [(length: Int64, name: String)] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")]
    for unit in units where milliseconds.isMultiple(of: unit.length) {
      return "\(milliseconds / unit.length)\(unit.name)"
    }
    return "\(milliseconds)ms"
  }

  /// In milliseconds, held within what an `Int64` can carry.
  var wholeMilliseconds: Int64 {
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    let (sum, carried) = whole.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
    return overflow || carried ? (seconds < 0 ? .min : .max) : sum
  }
}

import struct FoundationEssentials.Date

extension [Certificate] {
  /// When all of them are valid, in whole seconds; `nil` when never, or when one does not say.
  var validity: Range<Date>? {
    let starts = compactMap(\.notBefore)
    let ends = compactMap(\.notAfter)
    guard starts.count == count, ends.count == count, let start = starts.max(), let end = ends.min(), start < end
    else { return nil }
    return start..<end
  }
}

extension Date {
  /// The whole second, the precision of certificates.
  var wholeSecond: Date { Date(timeIntervalSince1970: timeIntervalSince1970.rounded(.down)) }
}

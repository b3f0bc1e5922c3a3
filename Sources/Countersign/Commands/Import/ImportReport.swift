import CountersignServer

/// The result of an import, in counts of lines.
struct ImportReport: Hashable, Sendable, Encodable {
  /// The result of one line.
  enum Outcome: Hashable, Sendable {
    /// The other service and this one give the same, or the file does not say what the other gave.
    case same
    case differs(String)
    /// The service refuses the purchase, or Apple does.
    case refused(String)
    case unreadable(String)
  }

  var lines = 0
  var same = 0
  var different = 0
  var refused = 0
  var unreadable = 0
  /// Lines that an earlier call had settled.
  var skipped = 0

  mutating func count(_ outcome: Outcome) {
    lines += 1
    switch outcome {
    case .same: same += 1
    case .differs: different += 1
    case .refused: refused += 1
    case .unreadable: unreadable += 1
    }
  }

  var summary: String {
    "\(lines) lines: \(same) agree, \(different) differ, \(refused) refused, \(unreadable) unreadable"
      + (skipped > 0 ? "; \(skipped) were settled before." : ".")
  }

  /// The line about a customer, on standard output; `nil` where there is nothing to say.
  static func line(_ number: Int, user: String?, _ outcome: Outcome) -> String? {
    let name = user.map { ServiceClient.printable(String($0.prefix(128))) }
    return switch outcome {
    case .same: nil
    case .differs(let sentence): "\(number) \(name ?? "-"): \(sentence)"
    case .refused(let sentence): "\(number) \(name ?? "-"): refused: \(sentence)"
    case .unreadable(let sentence): "\(number): cannot be read: \(sentence)"
    }
  }
}

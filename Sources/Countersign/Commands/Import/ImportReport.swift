import CountersignAPI
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

    var word: Word {
      switch self {
      case .same: .same
      case .differs: .differs
      case .refused: .refused
      case .unreadable: .unreadable
      }
    }
  }

  /// An outcome without its sentence.
  enum Word: String, Hashable, Sendable, Encodable {
    case same, differs, refused, unreadable
  }

  /// A line that is not equal.
  struct Line: Hashable, Sendable, Encodable {
    var number: Int
    /// `null` where the line cannot be read.
    @Nullable var user: String?
    var outcome: Word
    var detail: String

    enum CodingKeys: String, CodingKey {
      case number = "line"
      case user = "user_id"
      case outcome, detail
    }

    /// - Returns: `nil` for an outcome about which there is nothing to say.
    init?(_ number: Int, user: String?, _ outcome: Outcome) {
      switch outcome {
      case .same: return nil
      case .differs(let sentence), .refused(let sentence), .unreadable(let sentence): detail = sentence
      }
      self.number = number
      _user = Nullable(wrappedValue: user)
      self.outcome = outcome.word
    }

    /// For people, on a terminal.
    var text: String {
      let name = user.map { ServiceClient.printable(String($0.prefix(128))) } ?? "-"
      return switch outcome {
      case .same, .differs: "\(number) \(name): \(detail)"
      case .refused: "\(number) \(name): refused: \(detail)"
      case .unreadable: "\(number): cannot be read: \(detail)"
      }
    }
  }

  var lines = 0
  var same = 0
  var different = 0
  var refused = 0
  var unreadable = 0
  /// Lines that an earlier call had settled.
  var skipped = 0
  /// The lines among them that differ.
  var skippedDifferent = 0

  enum CodingKeys: String, CodingKey {
    case lines, same, different, refused, unreadable, skipped
    case skippedDifferent = "skipped_different"
  }

  /// Whether no line of the file is known to be unequal.
  var isEqual: Bool { lines == same && skippedDifferent == 0 }

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
    var text = "\(lines) lines: \(same) agree, \(different) differ, \(refused) refused, \(unreadable) unreadable"
    if skipped > 0 { text += "; \(skipped) were settled before" }
    if skippedDifferent > 0 { text += ", \(skippedDifferent) of them differ (--again takes those again)" }
    return text + "."
  }
}

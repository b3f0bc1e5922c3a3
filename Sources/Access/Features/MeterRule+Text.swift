import Entitlements

extension MeterRule {
  package struct TextError: Error, Hashable {
    /// The end of a sentence about the text: `must be …`.
    package let sentence: String
    /// The wrong word, and the words that could replace it.
    package let word: String
    package let known: [String]
  }

  package static let largestMaximum = 1_000_000_000
  /// The most days in a row: each is looked up.
  package static let mostDaysInARow = 366
  package static let rollingRange: ClosedRange<Duration> = .seconds(60) ... .seconds(366 * 86_400)
  package static let unlimited = "unlimited"

  private static let examples =
    "must be a rule such as 40 per day, 10 per month, 1 per rolling 7d, 1 in total, 3 days in a row or unlimited"

  /// Reads the rules of one tier; all have to allow an amount, and none is `unlimited`.
  package static func rules(_ texts: [String]) throws(TextError) -> [MeterRule] {
    var rules: [MeterRule] = []
    for text in texts where text != unlimited { rules.append(try MeterRule(text)) }
    return rules
  }

  /// Reads `40 per day`, `5 per week`, `10 per month`, `1 per rolling 7d`, `1 in total`, or `3 days in a row`.
  init(_ text: String) throws(TextError) {
    let words = text.split(separator: " ").map(String.init)
    guard let count = words.first, let kind = words.dropFirst().first else {
      throw TextError(sentence: Self.examples, word: text, known: [Self.unlimited])
    }
    // ASCII digits only: `Int` would also accept a sign.
    guard count.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let maximum = Int(count),
      maximum <= Self.largestMaximum
    else { throw TextError(sentence: "must begin with a whole number up to 1000000000", word: count, known: []) }
    let rest = Array(words.dropFirst(2))
    switch kind {
    case "per": self.init(maximum: maximum, window: try Self.window(rest))
    case "in":
      guard rest == ["total"] else {
        throw TextError(sentence: "must end in total", word: rest.joined(separator: " "), known: ["total"])
      }
      self.init(maximum: maximum, window: .total)
    case "day", "days":
      guard rest == ["in", "a", "row"] else {
        throw TextError(sentence: "must end with days in a row", word: rest.joined(separator: " "), known: ["in a row"])
      }
      guard (1...Self.mostDaysInARow).contains(maximum) else {
        throw TextError(sentence: "must be from 1 to \(Self.mostDaysInARow) days in a row", word: count, known: [])
      }
      self.init(maximum: maximum, window: .daysInARow)
    default: throw TextError(sentence: Self.examples, word: kind, known: ["per", "in total", "days in a row"])
    }
  }

  private static func window(_ words: [String]) throws(TextError) -> Window {
    switch words {
    case ["day"]: return .day
    case ["week"]: return .week
    case ["month"]: return .month
    default: break
    }
    guard words.first == "rolling", let text = words.last, words.count == 2 else {
      throw TextError(
        sentence: "must be per day, week, month or rolling and a duration such as 7d",
        word: words.joined(separator: " "), known: ["day", "week", "month", "rolling 7d"])
    }
    do throws(Duration.TextError) {
      return .rolling(try Duration(configurationText: text, in: rollingRange))
    } catch {
      throw TextError(sentence: "per rolling \(error.sentence(in: rollingRange))", word: text, known: [])
    }
  }

  package var text: String {
    switch window {
    case .day: "\(maximum) per day"
    case .week: "\(maximum) per week"
    case .month: "\(maximum) per month"
    case .rolling(let duration): "\(maximum) per rolling \(duration.configurationText)"
    case .total: "\(maximum) in total"
    case .daysInARow: "\(maximum) \(maximum == 1 ? "day" : "days") in a row"
    }
  }
}

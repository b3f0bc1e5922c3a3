/// The text format of Prometheus, read strictly: https://prometheus.io/docs/instrumenting/exposition_formats/
///
/// It takes less than Prometheus does, so that whatever it takes is taken there: help and type before the first value,
/// each once; the values of a metric together; no label twice, no line twice; counters end with `_total` and nothing else
/// does; histograms are complete, and their buckets ascend to the count.
package struct Exposition {
  package struct Malformed: Error, CustomStringConvertible {
    package var line: Int
    package var problem: String
    package var description: String { "line \(line): \(problem)" }
  }

  package struct Sample: Hashable {
    package var name: String
    package var labels: [String: String]
    package var value: Double
  }

  package private(set) var types: [String: String] = [:]
  package private(set) var helps: [String: String] = [:]
  package private(set) var samples: [Sample] = []

  package init(_ text: String) throws {
    guard text.isEmpty || text.last == "\n" else { throw Malformed(line: 0, problem: "the last line has no end") }
    var current: String?
    var seen: Set<Sample> = []
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().enumerated() {
      func fail(_ problem: String) -> Malformed { Malformed(line: index + 1, problem: "\(problem): \(line)") }
      if line.hasPrefix("# HELP ") {
        let parts = line.dropFirst(7).split(separator: " ", maxSplits: 1)
        guard parts.count == 2, Self.isName(parts[0]) else { throw fail("no help") }
        guard helps.updateValue(try Self.unescaped(parts[1], quotes: false), forKey: String(parts[0])) == nil else {
          throw fail("help given twice")
        }
        current = String(parts[0])
      } else if line.hasPrefix("# TYPE ") {
        let parts = line.dropFirst(7).split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 2, ["counter", "gauge", "histogram"].contains(parts[1]) else { throw fail("no type") }
        guard current == String(parts[0]) else { throw fail("type without its help") }
        guard types.updateValue(String(parts[1]), forKey: String(parts[0])) == nil else { throw fail("type twice") }
      } else {
        let sample: Sample
        do { sample = try Self.sample(line) } catch { throw fail("\(error)") }
        guard let current, let type = types[current] else { throw fail("a value before its type") }
        let suffixes = type == "histogram" ? ["_bucket", "_sum", "_count"] : [""]
        guard suffixes.contains(where: { sample.name == current + $0 }) else { throw fail("not of \(current)") }
        guard (type == "counter") == sample.name.hasSuffix("_total") else { throw fail("_total is for counters") }
        if type != "gauge", sample.name.hasSuffix("_sum") == false, sample.value < 0 || sample.value.isNaN {
          throw fail("a count below zero")
        }
        guard seen.insert(Sample(name: sample.name, labels: sample.labels, value: 0)).inserted else {
          throw fail("the same twice")
        }
        samples.append(sample)
      }
    }
    try checkFamilies()
  }

  /// The one value of these labels, in any order.
  package subscript(name: String, labels: [String: String]) -> Double? {
    samples.first { $0.name == name && $0.labels == labels }?.value
  }

  package subscript(name: String) -> Double? { self[name, [:]] }

  /// The sum over all labels.
  package func total(_ name: String, where matches: [String: String] = [:]) -> Double {
    samples.filter { sample in sample.name == name && matches.allSatisfy { sample.labels[$0.key] == $0.value } }
      .reduce(0) { $0 + $1.value }
  }

  private func checkFamilies() throws {
    for name in helps.keys where types[name] == nil { throw Malformed(line: 0, problem: "\(name) has no type") }
    for (name, type) in types {
      let own = samples.filter {
        type == "histogram" ? ["_bucket", "_sum", "_count"].map { name + $0 }.contains($0.name) : $0.name == name
      }
      guard !own.isEmpty else { throw Malformed(line: 0, problem: "\(name) has no value") }
      guard Set(own.map { Set($0.labels.keys).subtracting(["le"]) }).count == 1 else {
        throw Malformed(line: 0, problem: "\(name) has different labels")
      }
      if type == "histogram" { try checkHistogram(name, own) }
    }
  }

  private func checkHistogram(_ name: String, _ samples: [Sample]) throws {
    func without(_ labels: [String: String]) -> [String: String] { labels.filter { $0.key != "le" } }
    for labels in Set(samples.map { without($0.labels) }) {
      let buckets = samples.filter { $0.name == name + "_bucket" && without($0.labels) == labels }
      let bounds = buckets.compactMap { $0.labels["le"] }.compactMap(Self.number)
      guard bounds.count == buckets.count, bounds == bounds.sorted(), Set(bounds).count == bounds.count,
        bounds.last == .infinity, buckets.map(\.value) == buckets.map(\.value).sorted(),
        let count = self[name + "_count", labels], count == buckets.last?.value, self[name + "_sum", labels] != nil
      else { throw Malformed(line: 0, problem: "\(name) \(labels) is no histogram") }
    }
  }

  // MARK: - Lines

  private struct Bad: Error, CustomStringConvertible { var description: String }

  private static func sample(_ line: Substring) throws -> Sample {
    let name = line.prefix { $0 != "{" && $0 != " " }
    guard isName(name) else { throw Bad(description: "no name") }
    var rest = line.dropFirst(name.count)
    var labels: [String: String] = [:]
    if rest.first == "{" {
      rest = rest.dropFirst()
      while true {
        let label = rest.prefix { $0 != "=" }
        guard isName(label), !label.contains(":"), rest.dropFirst(label.count).hasPrefix("=\"") else {
          throw Bad(description: "no label")
        }
        rest = rest.dropFirst(label.count + 2)
        var raw = ""
        while let character = rest.first, character != "\"" {
          raw.append(character)
          rest = rest.dropFirst()
          if character == "\\", let next = rest.first {
            raw.append(next)
            rest = rest.dropFirst()
          }
        }
        guard rest.first == "\"" else { throw Bad(description: "a label without an end") }
        rest = rest.dropFirst()
        guard labels.updateValue(try unescaped(raw[...], quotes: true), forKey: String(label)) == nil else {
          throw Bad(description: "a label twice")
        }
        if rest.first == "," {
          rest = rest.dropFirst()
        } else if rest.first == "}" {
          rest = rest.dropFirst()
          break
        } else {
          throw Bad(description: "labels without an end")
        }
      }
    }
    guard rest.first == " ", let value = number(rest.dropFirst()) else { throw Bad(description: "no value") }
    return Sample(name: String(name), labels: labels, value: value)
  }

  private static func number(_ text: some StringProtocol) -> Double? {
    switch text {
    case "+Inf": .infinity
    case "-Inf": -.infinity
    case "NaN": .nan
    default:
      String(text).wholeMatch(of: /-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?/) == nil ? nil : Double(String(text))
    }
  }

  private static func isName(_ text: some StringProtocol) -> Bool {
    String(text).wholeMatch(of: /[a-zA-Z_:][a-zA-Z0-9_:]*/) != nil
  }

  private static func unescaped(_ text: some StringProtocol, quotes: Bool) throws -> String {
    var result = ""
    var characters = text.unicodeScalars.makeIterator()
    while let scalar = characters.next() {
      guard scalar == "\\" else {
        if scalar == "\"", quotes { throw Bad(description: "a bare quote") }
        result.unicodeScalars.append(scalar)
        continue
      }
      switch characters.next() {
      case "\\": result += "\\"
      case "n": result += "\n"
      case "\"" where quotes: result += "\""
      default: throw Bad(description: "an unknown escape")
      }
    }
    return result
  }
}

/// Prometheus' text format, version 0.0.4.
///
///     # HELP countersign_http_requests_total Requests that were answered
///     # TYPE countersign_http_requests_total counter
///     countersign_http_requests_total{route="/livez",method="GET",code="200"} 12
///
/// https://prometheus.io/docs/instrumenting/exposition_formats/
package enum ExpositionFormat {
  package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  /// The text of all families with values: a description alone is useless.
  package static func text(of families: [MetricFamily]) -> String {
    var text = ""
    for family in families where !family.samples.isEmpty { write(family, to: &text) }
    return text
  }

  private static func write(_ family: MetricFamily, to text: inout String) {
    text += "# HELP \(family.name) \(escaped(family.help, quotes: false))\n"
    text += "# TYPE \(family.name) \(family.kind.rawValue)\n"
    for sample in family.samples {
      text += family.name
      text += sample.suffix
      if !sample.labels.isEmpty {
        let labels = sample.labels.map { "\($0.name)=\"\(escaped($0.value, quotes: true))\"" }
        text += "{\(labels.joined(separator: ","))}"
      }
      text += " \(number(sample.value))\n"
    }
  }

  /// A float in Go's syntax.
  package static func number(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    // Integers without a fraction, as far as a `Double` is exact.
    if let whole = Int64(exactly: value), whole.magnitude < 1 << 53 { return "\(whole)" }
    return "\(value)"
  }

  /// Backslashes and line breaks are escaped everywhere, quotes in label values.
  static func escaped(_ text: String, quotes: Bool) -> String {
    guard text.utf8.contains(where: { $0 == 0x5c || $0 == 0x0a || ($0 == 0x22 && quotes) }) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\"" where quotes: result += "\\\""
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}

/// One metric with all its values at one moment.
package struct MetricFamily: Hashable, Sendable {
  /// The metric types of the exposition format.
  package enum Kind: String, Hashable, Sendable {
    case counter, gauge, histogram
  }

  /// A label of a time series.
  package struct Label: Hashable, Sendable {
    package var name: String
    package var value: String

    package init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }
  }

  /// One line: `name + suffix {labels} value`.
  package struct Sample: Hashable, Sendable {
    /// `_bucket`, `_sum` and `_count` of a histogram; empty otherwise.
    package var suffix: String
    package var labels: [Label]
    package var value: Double

    package init(_ suffix: String = "", _ labels: [Label] = [], _ value: Double) {
      self.suffix = suffix
      self.labels = labels
      self.value = value
    }
  }

  /// Ends with the base unit, and with `_total` for a counter.
  package var name: String
  package var kind: Kind
  package var help: String
  package var samples: [Sample]

  package init(_ name: String, _ kind: Kind, _ help: String, _ samples: [Sample] = []) {
    self.name = name
    self.kind = kind
    self.help = help
    self.samples = samples
  }
}

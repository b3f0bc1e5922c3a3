package import CoreMetrics
internal import Synchronization

/// Keeps the values of what swift-metrics' counters, recorders, timers and meters are told, until they are scraped.
///
/// What there is to measure is described beforehand, with its help and its buckets; a name that was not described is
/// taken all the same, with the buckets that suit seconds. Handles are meant to be made once and kept: making one looks
/// it up under a lock that is common to all, using one does not.
///
/// Label values come from the program, but a mistake there must not fill the memory: a metric keeps `seriesLimit`
/// combinations of values, and every further one counts together as `other`.
package final class PrometheusRegistry: MetricsFactory, Sendable {
  package struct Description: Hashable, Sendable {
    package var name: String
    package var kind: MetricFamily.Kind
    package var help: String
    /// Upper bounds of a histogram, ascending, without the infinite one.
    package var buckets: [Double]

    package init(
      _ name: String, _ kind: MetricFamily.Kind, _ help: String, buckets: [Double] = PrometheusRegistry.seconds
    ) {
      self.name = name
      self.kind = kind
      self.help = help
      self.buckets = buckets
    }
  }

  /// From a millisecond to the half minute that nobody waits longer than.
  package static let seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

  /// Combinations of label values that one metric keeps apart.
  package static let seriesLimit = 500

  private struct Family {
    var description: Description
    var series: [[MetricFamily.Label]: any Series] = [:]
  }

  /// Guards which series there are; the values are in the series.
  private let families: Mutex<[String: Family]>

  package init(_ descriptions: [Description] = []) {
    families = Mutex(
      Dictionary(descriptions.map { ($0.name, Family(description: $0)) }, uniquingKeysWith: { first, _ in first }))
  }

  /// Everything that was ever counted, by name, and within a metric by its labels.
  package func collect() -> [MetricFamily] {
    let families = families.withLock { Array($0.values) }
    return families.map { family in
      MetricFamily(
        family.description.name, family.description.kind, family.description.help,
        family.series.sorted { $0.key.lexicographicallyPrecedes($1.key) { $0.value < $1.value } }
          .flatMap { $0.value.samples($0.key) })
    }
    .sorted { $0.name < $1.name }
  }

  // MARK: - MetricsFactory

  package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    series(label, .counter, dimensions) { _ in TotalSeries() } ?? NOOPMetricsHandler.instance
  }

  package func makeFloatingPointCounter(
    label: String, dimensions: [(String, String)]
  ) -> any FloatingPointCounterHandler {
    series(label, .counter, dimensions) { _ in TotalSeries() } ?? NOOPMetricsHandler.instance
  }

  package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    series(label, .gauge, dimensions) { _ in LevelSeries() } ?? NOOPMetricsHandler.instance
  }

  package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
    guard aggregate else {
      return series(label, .gauge, dimensions) { _ in LevelSeries() } ?? NOOPMetricsHandler.instance
    }
    return series(label, .histogram, dimensions) { HistogramSeries(bounds: $0.buckets) } ?? NOOPMetricsHandler.instance
  }

  package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    series(label, .histogram, dimensions) { HistogramSeries(bounds: $0.buckets) } ?? NOOPMetricsHandler.instance
  }

  package func destroyCounter(_ handler: any CounterHandler) { destroy(handler) }
  package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { destroy(handler) }
  package func destroyMeter(_ handler: any MeterHandler) { destroy(handler) }
  package func destroyRecorder(_ handler: any RecorderHandler) { destroy(handler) }
  package func destroyTimer(_ handler: any TimerHandler) { destroy(handler) }

  /// The series of these labels; `nil` where the name means another kind of metric, or the labels are unfit.
  private func series<Made: Series>(
    _ label: String, _ kind: MetricFamily.Kind, _ dimensions: [(String, String)],
    make: (Description) -> Made
  ) -> Made? {
    let name = MetricName.fit(label)
    let labels = dimensions.map { MetricFamily.Label(MetricName.fitLabel($0.0), $0.1) }
    // A name twice, or one that the format keeps for itself, would make the whole page unreadable.
    let names = Set(labels.map(\.name))
    guard names.count == labels.count, !names.contains("le") else { return nil }
    return families.withLock { families -> Made? in
      var family =
        families[name] ?? Family(description: Description(name, kind, "Not described"))
      guard family.description.kind == kind else { return nil }
      if let known = family.series[labels] { return known as? Made }
      let isFull = family.series.count >= Self.seriesLimit
      let key = isFull ? labels.map { MetricFamily.Label($0.name, "other") } : labels
      if let known = family.series[key] { return known as? Made }
      let made = make(family.description)
      family.series[key] = made
      families[name] = family
      return made
    }
  }

  private func destroy(_ handler: AnyObject) {
    families.withLock { families in
      families = families.mapValues { family in
        var family = family
        family.series = family.series.filter { $0.value !== handler }
        return family
      }
    }
  }
}

/// Names as the format allows them.
///
/// https://prometheus.io/docs/concepts/data_model/#metric-names-and-labels
enum MetricName {
  /// A metric's name: letters, digits, `_` and `:`, no digit first. Other characters become `_`.
  static func fit(_ name: String) -> String { fit(name, colon: true) }

  /// A label's name: as above without `:`.
  static func fitLabel(_ name: String) -> String { fit(name, colon: false) }

  private static func fit(_ name: String, colon: Bool) -> String {
    var result = ""
    for scalar in name.unicodeScalars {
      switch scalar {
      case "a"..."z", "A"..."Z", "_": result.unicodeScalars.append(scalar)
      case "0"..."9":
        if result.isEmpty { result += "_" }
        result.unicodeScalars.append(scalar)
      case ":" where colon: result += ":"
      default: result += "_"
      }
    }
    return result.isEmpty ? "_" : result
  }
}

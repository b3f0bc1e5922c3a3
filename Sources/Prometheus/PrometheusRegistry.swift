package import CoreMetrics
internal import Synchronization

/// A swift-metrics backend that keeps the values of counters, recorders, timers and meters for scraping.
///
/// Metrics are described beforehand, with help text and buckets. A name without a description is accepted as well, with
/// buckets for seconds. Make each handle once and keep it: making one takes a lock shared by all, using one does not.
///
/// Label values come from the program, but a bug there must not fill the memory: a metric keeps `seriesLimit`
/// combinations of values, and every further one counts together as `other`.
package final class PrometheusRegistry: MetricsFactory, Sendable {
  /// The help text and the type of a metric family.
  package struct Description: Hashable, Sendable {
    package var name: String
    package var kind: MetricFamily.Kind
    package var help: String
    /// Upper bounds of a histogram, ascending, without infinity.
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

  /// From a millisecond to half a minute, the longest wait of any caller.
  package static let seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

  /// The most combinations of label values per metric.
  package static let seriesLimit = 500

  private struct Family {
    var description: Description
    var series: [[MetricFamily.Label]: any Series] = [:]
  }

  /// Guards the set of series; the values are in the series.
  private let families: Mutex<[String: Family]>

  package init(_ descriptions: [Description] = []) {
    families = Mutex(
      Dictionary(descriptions.map { ($0.name, Family(description: $0)) }, uniquingKeysWith: { first, _ in first }))
  }

  /// All metrics, sorted by name, and their series by labels.
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

  /// The series of these labels; `nil` if the name is of another kind of metric, or the labels are invalid.
  private func series<Made: Series>(
    _ label: String, _ kind: MetricFamily.Kind, _ dimensions: [(String, String)],
    make: (Description) -> Made
  ) -> Made? {
    let name = MetricName.fit(label, colon: true)
    let labels = dimensions.map { MetricFamily.Label(MetricName.fit($0.0, colon: false), $0.1) }
    // A duplicate label, or one reserved by the format, would make the whole page unreadable.
    let names = Set(labels.map(\.name))
    guard names.count == labels.count, !names.contains("le") else { return nil }
    return families.withLock { families -> Made? in
      var family = families[name] ?? Family(description: Description(name, kind, "Not described"))
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

/// Names in the format's syntax.
///
/// https://prometheus.io/docs/concepts/data_model/#metric-names-and-labels
enum MetricName {
  /// Letters, digits and `_`, no digit first; `:` in a metric's name, and not in a label's. Other characters become `_`.
  static func fit(_ name: String, colon: Bool) -> String {
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

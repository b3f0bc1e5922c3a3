import Synchronization
package import CoreMetrics

/// Cached handles of one metric, by label values. After the first use of a handle no text is built.
final class Handles<Key: Hashable & Sendable, Handle: Sendable>: Sendable {
  /// Guards the handles.
  private let made = Mutex<[Key: Handle]>([:])
  private let make: @Sendable (Key) -> Handle

  init(_ make: @escaping @Sendable (Key) -> Handle) { self.make = make }

  subscript(key: Key) -> Handle {
    made.withLock { made in
      if let handle = made[key] { return handle }
      let handle = make(key)
      made[key] = handle
      return handle
    }
  }
}

/// A counter of a metric with labels.
///
/// A series that an alert goes by begins at 0: one that begins with the first event does not increase by it, and the alert
/// misses what happened first.
package struct LabelledCounter: Sendable {
  private let handles: Handles<[String], Counter>

  /// - Parameter zeros: the labels' values of each series that is there from the start.
  package init(_ metric: ServiceMetric, zeros: [[String]] = [], in factory: any MetricsFactory) {
    handles = Handles { values in Counter(metric, Array(zip(metric.entry.labels, values)), in: factory) }
    for values in zeros { _ = handles[values] }
  }

  /// - Parameter values: the labels' values, in the order of `ServiceMetric.entry`.
  package func increment(_ values: String...) { handles[values].increment() }
}

extension Timer {
  convenience init(_ metric: ServiceMetric, _ dimensions: [(String, String)] = [], in factory: any MetricsFactory) {
    self.init(label: metric.rawValue, dimensions: dimensions, factory: factory)
  }

  func record(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
  }
}

extension Counter {
  convenience init(_ metric: ServiceMetric, _ dimensions: [(String, String)] = [], in factory: any MetricsFactory) {
    self.init(label: metric.rawValue, dimensions: dimensions, factory: factory)
  }
}

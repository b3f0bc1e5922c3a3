internal import CoreMetrics
internal import Synchronization

/// The values of one combination of labels.
protocol Series: AnyObject, Sendable {
  func samples(_ labels: [MetricFamily.Label]) -> [MetricFamily.Sample]
}

/// A count that only grows.
///
/// Whole steps are counted in an integer, as a `Double` loses single steps from 2^53 on.
final class TotalSeries: Series, CounterHandler, FloatingPointCounterHandler {
  private let whole = Atomic<Int64>(0)
  /// Guards the sum of fractions.
  private let rest = Mutex<Double>(0)

  func increment(by amount: Int64) {
    // A decreasing counter would look like a restart.
    guard amount > 0 else { return }
    whole.wrappingAdd(amount, ordering: .relaxed)
  }

  func increment(by amount: Double) {
    guard amount > 0, amount.isFinite else { return }
    rest.withLock { $0 += amount }
  }

  func reset() {
    whole.store(0, ordering: .relaxed)
    rest.withLock { $0 = 0 }
  }

  func samples(_ labels: [MetricFamily.Label]) -> [MetricFamily.Sample] {
    [.init("", labels, Double(whole.load(ordering: .relaxed)) + rest.withLock { $0 })]
  }
}

/// A value that goes up and down.
final class LevelSeries: Series, MeterHandler, RecorderHandler {
  private let value = Mutex<Double>(0)

  func set(_ value: Int64) { set(Double(value)) }
  func set(_ value: Double) { self.value.withLock { $0 = value } }
  func increment(by amount: Double) { value.withLock { $0 += amount } }
  func decrement(by amount: Double) { value.withLock { $0 -= amount } }
  func record(_ value: Int64) { set(value) }
  func record(_ value: Double) { set(value) }

  func samples(_ labels: [MetricFamily.Label]) -> [MetricFamily.Sample] { [.init("", labels, value.withLock { $0 })] }
}

/// A histogram: the number of values up to each bound.
final class HistogramSeries: Series, RecorderHandler, TimerHandler {
  private struct State {
    /// One per bucket; the last one is above every bound.
    var counts: [UInt64]
    var sum = 0.0
  }

  private let bounds: [Double]
  /// Guards counts and sum, which have to be consistent.
  private let state: Mutex<State>

  init(bounds: [Double]) {
    self.bounds = bounds
    state = Mutex(State(counts: Array(repeating: 0, count: bounds.count + 1)))
  }

  func record(_ value: Int64) { record(Double(value)) }

  func record(_ value: Double) {
    guard !value.isNaN else { return }
    let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
    state.withLock { state in
      state.counts[bucket] += 1
      state.sum += value
    }
  }

  func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

  /// Cumulative, with the infinite bucket, which equals the count.
  func samples(_ labels: [MetricFamily.Label]) -> [MetricFamily.Sample] {
    let state = state.withLock { $0 }
    var total: UInt64 = 0
    var samples: [MetricFamily.Sample] = []
    for (bound, count) in zip(bounds + [.infinity], state.counts) {
      total += count
      samples.append(.init("_bucket", labels + [.init("le", ExpositionFormat.number(bound))], Double(total)))
    }
    return samples + [.init("_sum", labels, state.sum), .init("_count", labels, Double(total))]
  }
}

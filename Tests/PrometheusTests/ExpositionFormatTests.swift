import CoreMetrics
import Prometheus
import TestSupport
import Testing

/// The text that Prometheus is told, byte for byte, and that it can read it.
@Suite struct ExpositionFormatTests {
  private let registry = PrometheusRegistry()

  @Test func `a counter, a gauge and a histogram are written as the format has them`() throws {
    let registry = PrometheusRegistry([
      .init("requests_total", .counter, "Requests"), .init("level", .gauge, "A level"),
      .init("wait_seconds", .histogram, "Waiting", buckets: [0.1, 1]),
    ])
    Counter(label: "requests_total", dimensions: [("code", "200")], factory: registry).increment(by: 3)
    Meter(label: "level", factory: registry).set(-2.5)
    let wait = Timer(label: "wait_seconds", dimensions: [("route", "/a")], factory: registry)
    for milliseconds in [50, 100, 500, 2_000] { wait.recordMilliseconds(milliseconds) }
    let text = ExpositionFormat.text(of: registry.collect())
    #expect(
      text == """
        # HELP level A level
        # TYPE level gauge
        level -2.5
        # HELP requests_total Requests
        # TYPE requests_total counter
        requests_total{code="200"} 3
        # HELP wait_seconds Waiting
        # TYPE wait_seconds histogram
        wait_seconds_bucket{route="/a",le="0.1"} 2
        wait_seconds_bucket{route="/a",le="1"} 3
        wait_seconds_bucket{route="/a",le="+Inf"} 4
        wait_seconds_sum{route="/a"} 2.65
        wait_seconds_count{route="/a"} 4

        """)
    #expect(try Exposition(text)["wait_seconds_count", ["route": "/a"]] == 4)
  }

  @Test(arguments: ["plain", "a\"quote", "back\\slash", "two\nlines", "\\n", "\"", "\\", "ü\u{1F600}", ""])
  func `every label's value is read back as it was`(value: String) throws {
    let family = MetricFamily("a", .gauge, value + ".", [.init("", [.init("of", value)], 1)])
    let read = try Exposition(ExpositionFormat.text(of: [family]))
    #expect(read["a", ["of": value]] == 1)
    #expect(read.helps["a"] == value + ".")
  }

  @Test(
    arguments: [
      (0.0, "0"), (-1, "-1"), (0.25, "0.25"), (1e18, "1e+18"), (.infinity, "+Inf"), (-.infinity, "-Inf"), (.nan, "NaN"),
      (9_007_199_254_740_991, "9007199254740991"), (1_718_452_800.5, "1718452800.5"), (1e-9, "1e-09"),
      (-9_223_372_036_854_775_808, "-9.223372036854776e+18"),
    ] as [(Double, String)])
  func `numbers are written as Prometheus reads them`(value: Double, text: String) {
    #expect(ExpositionFormat.number(value) == text)
  }

  @Test func `a metric without values is left out`() {
    let registry = PrometheusRegistry([.init("requests_total", .counter, "Requests")])
    #expect(ExpositionFormat.text(of: registry.collect()) == "")
  }

  @Test func `names that the format does not know are made to fit`() throws {
    Counter(label: "9 lives.of-a cat_total", dimensions: [("who:is it", "a")], factory: registry).increment()
    let read = try Exposition(ExpositionFormat.text(of: registry.collect()))
    #expect(read["_9_lives_of_a_cat_total", ["who_is_it": "a"]] == 1)
  }

  @Test func `a name that means another kind of metric already is not counted`() throws {
    let registry = PrometheusRegistry([.init("a_total", .counter, "Counted")])
    Counter(label: "a_total", factory: registry).increment()
    Meter(label: "a_total", factory: registry).set(7)
    Timer(label: "a_total", factory: registry).recordSeconds(7)
    #expect(try Exposition(ExpositionFormat.text(of: registry.collect())).samples.map(\.value) == [1])
  }

  @Test func `labels that would spoil the page are not counted`() throws {
    Recorder(label: "a", dimensions: [("le", "1")], factory: registry).record(1)
    Counter(label: "b_total", dimensions: [("x", "1"), ("x", "2")], factory: registry).increment()
    #expect(registry.collect().isEmpty)
  }

  @Test func `the same labels are the same series, whoever asks for them`() throws {
    for _ in 0..<2 { Counter(label: "a_total", dimensions: [("x", "1")], factory: registry).increment() }
    #expect(try Exposition(ExpositionFormat.text(of: registry.collect()))["a_total", ["x": "1"]] == 2)
  }

  @Test func `more label values than a metric may have are counted together`() throws {
    let limit = PrometheusRegistry.seriesLimit
    for number in 0..<(limit + 100) {
      Counter(label: "a_total", dimensions: [("user", "\(number)")], factory: registry).increment()
    }
    let read = try Exposition(ExpositionFormat.text(of: registry.collect()))
    #expect(read.samples.count == limit + 1)
    #expect(read["a_total", ["user": "other"]] == 100)
    #expect(read.total("a_total") == Double(limit + 100))
  }

  @Test func `a counter does not go down, and a NaN is no value`() throws {
    let counter = FloatingPointCounter(label: "a_total", factory: registry)
    counter.increment(by: 1.5)
    counter.increment(by: -1.0)
    let recorder = Recorder(label: "b", factory: registry)
    recorder.record(Double.nan)
    recorder.record(2)
    let read = try Exposition(ExpositionFormat.text(of: registry.collect()))
    #expect(read["a_total"] == 1.5)
    #expect(read["b_count"] == 1)
  }

  @Test func `a thousand tasks lose no count`() async throws {
    let counter = Counter(label: "a_total", factory: registry)
    let timer = Timer(label: "b_seconds", factory: registry)
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<1_000 {
        group.addTask {
          counter.increment()
          timer.recordSeconds(1)
        }
      }
    }
    let read = try Exposition(ExpositionFormat.text(of: registry.collect()))
    #expect(read["a_total"] == 1_000)
    #expect(read["b_seconds_sum"] == 1_000)
  }

  @Test func `a series that was destroyed is gone`() {
    let counter = Counter(label: "a_total", factory: registry)
    counter.increment()
    counter.destroy()
    #expect(ExpositionFormat.text(of: registry.collect()) == "")
  }

  @Test(
    arguments: [
      "a 1\n", "# HELP a b\na 1\n", "# HELP a b\n# TYPE a gauge\na 1", "# HELP a b\n# TYPE a counter\na 1\n",
      "# HELP a b\n# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n", "# HELP a b\n# TYPE a gauge\na{x=\"\\q\"} 1\n",
      "# HELP a b\n# TYPE a gauge\na 1\na 1\n", "# HELP a b\n# TYPE a gauge\na one\n",
      "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
      "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
      "# HELP a b\n# TYPE a gauge\n",
    ])
  func `the reader that the tests believe refuses what is wrong`(text: String) {
    #expect(throws: Exposition.Malformed.self) { try Exposition(text) }
  }
}

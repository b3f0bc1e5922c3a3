import ArgumentParser
import Entitlements
import Foundation

extension Measurements {
  /// What `GET /v1/figures` and `GET /v1/experiments` take with the sums of a million subscribers, two years of them.
  func figures() throws {
    table.section("Pages of figures about a million subscribers, one caller")
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    let ledger = "\(bed.directory)/figures.sqlite"
    // Its first start makes the tables.
    try Service(bed, upstream, ledger: ledger).stop()
    _ = try Child.output(of: "scripts/seed-figures", [ledger])
    let service = try Service(bed, upstream, ledger: ledger)
    defer { service.stop() }
    for page in Self.pages {
      let load = Load(
        url: "\(service.origin)\(page.path)", connections: 1, seconds: seconds, authorization: service.authorization)
      _ = try load.run(in: bed.directory)
      let cpu = service.child.cpu
      let results = try (0..<rounds).map { _ in try load.run(in: bed.directory) }
      guard results.allSatisfy({ $0.failures == 0 }) else { throw ValidationError("\(page.path) failed") }
      let p50 = results.map(\.p50).median
      let each = (service.child.cpu - cpu).microseconds / 1000 / results.map(\.requests).reduce(0, +)
      table.add(
        Row(
          name: page.name, value: "\(p50.text(2)) ms at the median, \(each.text(2)) ms CPU",
          ratio: "p99 \(results.map(\.p99).median.text(2)) ms", target: "≤ 5 ms", holds: p50 <= 5))
    }
  }

  private static var pages: [(name: String, path: String)] {
    [
      ("30 days", "/v1/figures"),
      ("92 days", "/v1/figures?from=\(day(before: 91))"),
      ("two years by month", "/v1/figures?interval=month&from=\(day(before: 729))"),
      ("ten experiments", "/v1/experiments"),
    ]
  }

  /// A day before today, as 2026-01-31.
  private static func day(before days: Double) -> Substring { (Date.now - days * 86_400).rfc3339.prefix(10) }
}

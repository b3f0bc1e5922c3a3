import Foundation
import HTTPTransport
import Prometheus
import TestSupport
import Testing

@testable import Countersign
@testable import CountersignServer

/// Dashboard, alert rules and pages name the metrics that exist, with the labels they have, and forget none.
@Suite struct MonitoringSamplesTests {
  private static func sample(_ name: String) throws -> String { try SamplesTests.text("monitoring/\(name)") }

  /// The series that a query may ask for: the name, or that of a histogram's parts.
  private static let series: [String: ServiceMetric] = Dictionary(
    uniqueKeysWithValues: ServiceMetric.allCases.flatMap { metric in
      (metric.entry.kind == .histogram ? ["_bucket", "_sum", "_count"] : [""]).map { (metric.rawValue + $0, metric) }
    })

  /// Every metric in the texts of queries, with the labels that are asked for beside it.
  private static func uses(in text: String) -> [(name: String, labels: [String])] {
    text.matches(of: /\b((?:countersign|process)_[a-z_]+)(\{[^{}]*\})?/).map { match in
      let labels = (match.2 ?? "").matches(of: /([a-z_]+)=~?"/).map { String($0.1) }
      return (String(match.1), labels)
    }
  }

  private struct Dashboard: Decodable {
    struct Panel: Decodable {
      struct Target: Decodable { var expr: String }
      /// In units of a grid that is 24 wide.
      struct Place: Decodable { var x, y, w, h: Int }
      var title: String
      var type: String
      var gridPos: Place
      var targets: [Target]?

      func overlaps(_ other: Panel) -> Bool {
        let (one, two) = (gridPos, other.gridPos)
        return one.x < two.x + two.w && two.x < one.x + one.w && one.y < two.y + two.h && two.y < one.y + one.h
      }
    }
    var panels: [Panel]
  }

  private static func panels() throws -> [Dashboard.Panel] {
    try JSONDecoder().decode(Dashboard.self, from: Data(try sample("grafana-dashboard.json").utf8)).panels
  }

  private static func dashboardQueries() throws -> [String] {
    try panels().flatMap { ($0.targets ?? []).map(\.expr) }
  }

  /// Rules' lines without their texts for people.
  private static func alertQueries() throws -> String {
    try sample("alerts.yaml").split(separator: "\n").filter { !$0.contains("summary:") && !$0.contains("- name:") }
      .joined(separator: "\n")
  }

  @Test func `every query is about a metric that exists, by labels that it has`() throws {
    let uses = try Self.dashboardQueries().flatMap(Self.uses) + Self.uses(in: Self.alertQueries())
    #expect(uses.count > 40)
    for use in uses {
      let metric = try #require(Self.series[use.name], "there is no \(use.name)")
      for label in use.labels where !["job", "instance"].contains(label) {
        #expect(metric.entry.labels.contains(label), "\(use.name) has no \(label)")
      }
    }
  }

  @Test func `the dashboard groups by labels that exist`() throws {
    let known = Set(ServiceMetric.allCases.flatMap(\.entry.labels) + ["le", "instance"])
    for query in try Self.dashboardQueries() + [Self.alertQueries()] {
      for match in query.matches(of: /(?:by|on|group_left) \(([a-z_, ]+)\)/) {
        for label in match.1.split(separator: ",") {
          #expect(known.contains(label.trimmingCharacters(in: .whitespaces)), "\(query)")
        }
      }
    }
  }

  @Test func `the dashboard shows every metric`() throws {
    let shown = try Set(Self.dashboardQueries().flatMap(Self.uses).compactMap { Self.series[$0.name] })
    #expect(Set(ServiceMetric.allCases).subtracting(shown).isEmpty)
  }

  @Test(arguments: ServiceMetric.allCases)
  func `a metric is on its page with its labels, and named as Prometheus asks`(metric: ServiceMetric) throws {
    let (kind, labels, help) = metric.entry
    let written = labels.isEmpty ? "`\(metric.rawValue)`" : "`\(metric.rawValue){\(labels.joined(separator: ","))}`"
    #expect(try DocumentationTests.page("reference/metrics.md").contains(written))
    #expect((kind == .counter) == metric.rawValue.hasSuffix("_total"))
    #expect(!help.isEmpty && !help.hasSuffix("."))
  }

  @Test func `no two panels of the dashboard overlap, and each row has its line`() throws {
    let panels = try Self.panels()
    #expect(panels.count > 20)
    for (index, panel) in panels.enumerated() {
      let place = panel.gridPos
      #expect(place.x >= 0 && place.w > 0 && place.x + place.w <= 24 && place.h > 0, "\(panel.title)")
      if panel.type == "row" { #expect(place.x == 0 && place.w == 24 && place.h == 1, "\(panel.title)") }
      for other in panels[..<index] where panel.overlaps(other) {
        Issue.record("'\(panel.title)' lies on '\(other.title)'")
      }
    }
  }

  @Test func `every alert names its section, which has its severity and what to do`() throws {
    let sections = try DocumentationTests.page("operations/monitoring.md").components(separatedBy: "\n### ")
    let alerts = try Self.sample("alerts.yaml").components(separatedBy: "- alert: ").dropFirst()
    for alert in alerts {
      let name = String(alert.prefix { $0 != "\n" })
      #expect(alert.contains("runbook_url: \"docs/operations/monitoring.md#\(name.lowercased())\"\n"))
      let severity = try #require(alert.firstMatch(of: /severity: ([a-z]+)/)).1
      let section = try #require(sections.first { $0.hasPrefix("\(name)\n") }, "there is no section \(name)")
      #expect(section.hasPrefix("\(name)\n\n**\(severity).** "))
      #expect(section.contains("\n\n**Do:** "))
    }
  }

  /// Prometheus sees no increase in a series that begins with the first event.
  @Test func `the counters of alerts on an increase begin at zero with the service`() async throws {
    var settings = Settings()
    settings.revenueCat = ["authorization_file": ["header"]]
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      let page = try Exposition(try await service.send(.get, "/metrics", key: nil).text)
      let increases = try Self.sample("alerts.yaml").matches(of: /increase\((countersign_[a-z_]+)\{([^{}]*)\}/)
      #expect(increases.count == 10)
      for increase in increases {
        var found = page.samples.filter { $0.name == increase.1 }
        for label in increase.2.matches(of: /([a-z_]+)=~?"([^"]*)"/) {
          let values = try Regex("^(?:\(label.2))$")
          found = found.filter { $0.labels[String(label.1)]?.contains(values) == true }
          for value in label.2.split(separator: "|") where !value.contains(".") {
            #expect(found.contains { $0.labels[String(label.1)] == String(value) }, "\(increase.0)")
          }
        }
        #expect(!found.isEmpty && found.allSatisfy { $0.value == 0 }, "\(increase.0)")
      }
    }
  }

  @Test func `the page on monitoring has a section for every alert, and for no other`() throws {
    let page = try DocumentationTests.page("operations/monitoring.md")
    let rules = Set(try Self.sample("alerts.yaml").matches(of: /- alert: (Countersign[A-Za-z]+)/).map { String($0.1) })
    let sections = Set(page.matches(of: /\n### (Countersign[A-Za-z]+)/).map { String($0.1) })
    #expect(rules.count == 35)
    #expect(rules == sections)
  }
}

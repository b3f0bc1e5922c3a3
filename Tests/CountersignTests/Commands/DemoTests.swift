import Foundation
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `countersign demo`, as a process of its own.
@Suite struct DemoTests {
  private struct Line: Decodable {
    var access_until: String?
    var source: String?
    var stale: Bool?
    var code: String?
    var allowed: Bool?
    var tier: String?
    var remaining: Int?
    var state: String?
  }

  private func demo() async throws -> (code: Int32, lines: [Line]) {
    let run = try await ChildProcess.run(
      ServiceProcess.program("countersign"), ["demo", "--json"], environment: ServiceProcess.environment)
    #expect(run.output.hasSuffix("}\n") && !run.output.contains("\n\n"))
    let lines = run.output.split(separator: "\n")
    return (run.code, try lines.map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) })
  }

  @Test func `the demo shows every scenario, and a subscriber who is asked about again a month later`() async throws {
    let (code, lines) = try await demo()
    #expect(code == 0)
    try #require(lines.count == Scenario.allCases.count + 2 + 7)
    let story = lines.dropLast(7).suffix(2)
    // Apple was asked again: the subscription has been renewed since.
    let first = try #require(story.first?.access_until)
    let second = try #require(story.last?.access_until)
    #expect(second > first)
    #expect(story.map(\.source) == ["verify_receipt", "verify_receipt"])
    #expect(story.map(\.stale) == [false, false])
    // A limit is reached, a trial lifts it, and the device gets no second one.
    let limits = Array(lines.suffix(7))
    #expect(limits.prefix(3).map(\.remaining) == [1, 0, 0])
    #expect(limits.prefix(3).map(\.code) == [nil, nil, "limit_reached"])
    #expect(limits[3].tier == "pro" && limits[3].state == "running")
    #expect(limits[4].allowed == true && limits[4].tier == "pro" && limits[4].remaining == nil)
    #expect(limits[5].state == "running" && limits[6].code == "trial_used")
  }
}

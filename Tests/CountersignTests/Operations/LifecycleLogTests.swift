import Testing

@testable import Countersign
@testable import Validation

@Suite struct LifecycleLogTests {
  /// What a service consists of would be told to the last field: rules, keys' names, who tests in production.
  @Test func `the log names what is started and does not tell what it consists of`() async throws {
    try await RunningService.run(
      apple: .unreachable,
      settings: Settings(policy: ["sandbox": "testers", "testers": #"["a tester"]"#]), jobPause: .seconds(3600)
    ) { service in
      try await eventually { service.log.text.contains("Server started") }
      let lines = service.log.lines.filter { $0.contains("Starting service") }
      #expect(lines.contains { $0.contains(#""sl-service":"Countersign""#) })
      #expect(lines.contains { $0.contains(#""sl-service":"RecheckScheduler""#) })
      for line in lines { #expect(line.utf8.count < 1024) }
      #expect(!service.log.text.contains("a tester"))
      // The ledger is new.
      #expect(!service.log.text.contains("being upgraded"))
    }
  }
}

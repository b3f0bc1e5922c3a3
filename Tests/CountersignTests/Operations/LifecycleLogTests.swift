import Foundation
import Ledger
import TestSupport
import Testing

@testable import Countersign
@testable import Validation

@Suite struct LifecycleLogTests {
  /// A service's parts would be told to the last field: rules, keys' names, who tests in production.
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

  @Test func `a start that makes a new ledger says so, with its place`() async throws {
    let directory = try TemporaryDirectory()
    for isNew in [true, false] {
      try await RunningService.run(apple: .unreachable, directory: directory.url) { service in
        let lines = service.log.lines.filter { $0.contains("a new, empty ledger was made") }
        #expect(lines.count == (isNew ? 1 : 0))
        let place = TestEngine.isPostgreSQL ? " at " : "\(directory.path)/ledger.sqlite"
        #expect(lines.allSatisfy { $0.contains(#""level":"notice""#) && $0.contains(place) }, "\(lines)")
      }
    }
  }

  @Test func `a ledger's place is a whole path, or a database without its password`() {
    let directory = FileManager.default.currentDirectoryPath
    #expect(LedgerPlace.file("no-such.sqlite").name == directory + "/no-such.sqlite")
    #expect(LedgerPlace.file("no/such/ledger.sqlite").name == directory + "/no/such/ledger.sqlite")
    let url = "postgresql://countersign:word@db.example.com/ledger"
    #expect(LedgerPlace.database(url: url, connections: 1).name == "ledger at db.example.com")
  }
}

import Ledger
import Testing

@testable import Countersign

/// Where the ledger is: a file, or a database.
@Suite struct LedgerConfigurationTests {
  private static let url = "postgresql://countersign:word@db.example.com/ledger"

  @Test func `a ledger is a file unless a database is named`() throws {
    let file = try SampleConfiguration().setting("ledger.path", "/var/lib/ledger.sqlite").load()
    #expect(file.ledger.place == .file("/var/lib/ledger.sqlite"))
    let database = try SampleConfiguration().setting("ledger.path", nil).setting("ledger.url", Self.url)
      .setting("ledger.pool", "4").load()
    #expect(database.ledger.place == .database(url: Self.url, connections: 4))
  }

  @Test func `a database takes the place of the file that the image names`() throws {
    let configuration = try SampleConfiguration().setting("ledger.path", "x.sqlite").setting("ledger.url", Self.url)
      .load()
    #expect(configuration.ledger.place == .database(url: Self.url, connections: 16))
  }

  @Test(arguments: [
    ("postgresql://u@db.example.com/d?sslmode=disable", true), ("postgresql://u@db.example.com/d?sslmode=prefer", true),
    ("postgresql:///d?hostaddr=10.0.0.5&sslmode=allow", true), ("postgresql://u@db.example.com/d", false),
    ("postgresql://u@db.example.com/d?sslmode=require", false), ("postgresql://u@localhost/d?sslmode=disable", false),
    ("postgresql:///d?host=/run/postgresql&sslmode=disable", false),
  ])
  func `a connection to another machine that may be in clear is warned of`(url: String, isWarnedOf: Bool) throws {
    let warnings = try SampleConfiguration().setting("ledger.path", nil).setting("ledger.url", "\"\(url)\"").load()
      .warnings.filter { $0.sentence.contains("in clear") }
    #expect(warnings.count == (isWarnedOf ? 1 : 0))
    #expect(warnings.allSatisfy { $0.origin.contains("ledger.url") && !$0.description.contains(url) })
  }

  @Test(arguments: [url, "postgres://u:word@db/ledger", "PostgreSQL://u:word@db/ledger"])
  func `a URL in the place of the file is a problem, and its password is not shown`(url: String) {
    let variable = "COUNTERSIGN_LEDGER_PATH"
    let problems = SampleConfiguration().problems(environment: [variable: url])
    #expect(problems == ["\(variable): is a URL: set ledger.url or ledger.url_file"])
  }

  @Test(arguments: ["mysql://host/ledger", "host=db", "postgresql://host/ledger?no_such_option=1"])
  func `a text that is no connection string is a problem, and is not shown`(url: String) {
    let problems = SampleConfiguration().setting("ledger.path", nil).setting("ledger.url", url).problems()
    #expect(
      problems.count == 1 && problems.allSatisfy { $0.contains("ledger.url") && !$0.contains(url) }, "\(problems)")
  }
}

import Foundation
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `countersign catalog check`
@Suite struct CatalogCheckTests {
  /// 2026-01-15T12:00:00Z
  private static let start = Date(timeIntervalSince1970: 1_768_478_400)

  private static func findings(_ products: String, more: String = "", ledger: String) async throws -> [Finding] {
    let directory = try TemporaryDirectory()
    let yaml = """
      catalog:
        tiers: [free, { pro: { formerly: gold } }, premium]
        products: \(products)
        features: { filters: { pro: true } }
      \(more)
      ledger: { path: \(ledger) }
      """
    let file = try directory.write("catalog.yaml", yaml)
    return await (try ServiceConfiguration.loadCatalog(file: file, environment: [:])).findings()
  }

  @Test func `without a ledger the catalog alone is checked, and no secret is needed`() async throws {
    let directory = try TemporaryDirectory()
    let findings = try await Self.findings("{ a: { tier: pro } }", ledger: directory.path + "/none.sqlite")
    #expect(findings.map(\.verdict) == [.ok, .warning])
    #expect(findings.last?.sentence.contains("there is none at \(directory.path)/none.sqlite to compare") == true)
    #expect(findings.first?.sentence == "is well-formed: 3 tiers, 1 product and 1 feature")
    let empty = try await Self.findings("{}", ledger: directory.path + "/none.sqlite")
    #expect(empty.map(\.verdict) == [.ok, .warning, .warning])
    // A path that is not absolute is shown whole.
    let elsewhere = try await Self.findings("{ a: { tier: pro } }", ledger: "no-such.sqlite")
    #expect(elsewhere.last?.sentence.contains(" /") == true)
  }

  @Test func `a file that is no ledger is reported, and nothing is said of losses`() async throws {
    let directory = try TemporaryDirectory()
    let file = try directory.write("diary.sqlite", "Dear diary, this is no ledger at all.")
    let findings = try await Self.findings("{ a: { tier: pro } }", ledger: file)
    #expect(findings.map(\.verdict) == [.ok, .fail])
    #expect(findings.last?.sentence.hasPrefix("cannot be read") == true)
  }

  @Test func `mistakes are all told, each with its line`() throws {
    let directory = try TemporaryDirectory()
    let file = try directory.write(
      "catalog.yaml",
      "catalog:\n  tiers: [free, pro]\n  products:\n    a: { tier: prro }\n  offerings:\n    o: { packages: { m: b } }\n"
    )
    let error = try #require(throws: ConfigurationError.self) {
      try ServiceConfiguration.loadCatalog(file: file, environment: [:])
    }
    #expect(
      error.problems.map(\.origin) == [
        "catalog.products in \(file) line 4", "catalog.offerings in \(file) line 6",
      ])
    #expect(CheckupReport(error).status == .configuration)
  }

  @Test(.ofTheFile)
  func `losses are found beside a running service: each is 1, those that are meant are not`() async throws {
    let directory = try TemporaryDirectory()
    try await RunningService.besideStore(at: Self.start, directory: directory.url) { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await service.validate(receipt).status == 200)
      let forever = try store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      #expect(try await service.validate(forever, user: "user-2").status == 200)
      let ledger = try #require(
        FileManager.default.contentsOfDirectory(atPath: directory.path).first { $0.hasSuffix(".sqlite") })
      let path = directory.path + "/" + ledger
      let (monthly, life) = ("com.example.app.pro.monthly", "com.example.app.forever")

      func verdicts(_ products: String, more: String = "") async throws -> [Finding.Verdict] {
        let findings = try await Self.findings(products, more: more, ledger: path)
        return Array(findings.dropFirst().map(\.verdict))
      }
      let good = "\(monthly): { tier: pro }, \(life): { tier: premium, kind: lifetime }"
      #expect(try await verdicts("{ \(good) }") == [.ok])
      // A letter, a lower tier, a subscription for life.
      let cases: [(bad: String, verdicts: [Finding.Verdict])] = [
        ("\(monthly)y: { tier: pro }, \(life): { tier: premium, kind: lifetime }", [.fail]),
        ("\(monthly): { tier: free }, \(life): { tier: premium, kind: lifetime }", [.warning, .fail]),
        ("\(monthly): { tier: pro }, \(life): { tier: premium }", [.fail]),
      ]
      for (bad, expected) in cases {
        #expect(try await verdicts("{ \(bad) }") == expected, "\(bad)")
        // Few enough for a start, and a loss nevertheless.
        #expect(
          try await verdicts("{ \(bad) }", more: "revalidation: { max_downgrades: 90 }") == expected, "\(bad)")
      }
      let accepted = try await verdicts(
        "{ \(life): { tier: premium, kind: lifetime } }\n  accept_loss: [\(monthly)]")
      #expect(accepted == [.warning])
    }
  }
}

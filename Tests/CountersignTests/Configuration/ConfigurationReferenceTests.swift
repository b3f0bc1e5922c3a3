import ArgumentParser
import CountersignServer
import Entitlements
import FoundationEssentials
import Testing

@testable import Countersign

@Suite("The reference of the configuration")
struct ConfigurationReferenceTests {
  @Test func `the table covers exactly what is read`() throws {
    var findings = ConfigurationFindings()
    let file = ConfigurationFile(bytes: Array(SampleConfiguration().yaml.utf8), name: "x", findings: &findings)
    var reader = ConfigurationReader(file: file, environment: [:], findings: findings)
    _ = try ServiceConfiguration(&reader, requiresCredential: true)
    #expect(reader.keys.map(\.name) == allKeys)
    #expect(Set(allKeys).count == allKeys.count)

    let rows = ConfigurationReference.markdownTable().split(separator: "\n").dropFirst(2)
    #expect(rows.count == allKeys.count)
    for (row, key) in zip(rows, allKeys) {
      #expect(row.hasPrefix("| `\(key)`"))
      #expect(row.count { $0 == "|" } == 6, "\(row)")
      #expect(ConfigurationReference.plainText().contains("  \(key) ("))
    }
  }

  @Test func `the help breaks its lines itself, and keeps their indentation`() {
    let help = Countersign.helpMessage(for: Serve.self, columns: 80)
    let lines = ConfigurationReference.plainText().split(separator: "\n")
    for line in lines { #expect(line.hasPrefix("  ") && help.contains("\n\(line)\n"), "\(line)") }
    #expect(lines.contains { $0.count > 70 })
    #expect(lines.joined(separator: " ").contains("`") == false)
  }

  @Test(
    arguments: [
      "| `server.port` | 0 to 65535 | `8080` | `COUNTERSIGN_SERVER_PORT` | Port to listen on; 0 takes a free one |",
      "| `app_store.shared_secret` or `app_store.shared_secret_file` | secret | none | "
        + "`COUNTERSIGN_APP_STORE_SHARED_SECRET` or `COUNTERSIGN_APP_STORE_SHARED_SECRET_FILE` | "
        + "App-specific shared secret from App Store Connect; required unless `app_store.server_api` is set, and needed "
        + "for iOS 6-style receipts |",
      "| `app_store.server_api.key` or `app_store.server_api.key_file` | private key (PEM) | none | "
        + "`COUNTERSIGN_APP_STORE_SERVER_API_KEY` or `COUNTERSIGN_APP_STORE_SERVER_API_KEY_FILE` | ",
      "| `policy.outage_hold` | duration, 0 to 365d | `7d` | `COUNTERSIGN_POLICY_OUTAGE_HOLD` | "
        + "How long an entitlement is kept past its end while Apple cannot be asked |",
      "| `auth.api_keys` | list of mappings | none | file only | "
        + "Servers and staff that may call: `{name, role: service|support, sha256}`; `roles: [service, support]` in place of "
        + "`role` for both |",
    ])
  func `a row says what to write, what is usual, and what it does`(row: String) {
    #expect(
      ConfigurationReference.markdownTable().contains(row.replacing("service|support", with: "service or support")))
  }

  // MARK: - The sample

  static let sample = packageFolder.appending(path: "samples/countersign.yaml").path

  static let environment = ["COUNTERSIGN_APP_STORE_SHARED_SECRET": SampleConfiguration.sharedSecret]

  @Test func `the sample shows the defaults`() throws {
    let shown = try ServiceConfiguration.load(
      file: Self.sample, environment: Self.environment, requiresCredential: false)
    let plain = try SampleConfiguration().load()
    let examples = ["catalog.tiers", "catalog.products", "auth.api_keys"]
    for key in allKeys where !examples.contains(key) {
      #expect(shown.rendered(key) == plain.rendered(key))
    }
    #expect(shown.warnings.isEmpty)
    #expect(shown.catalog.products.count == 3)
    #expect(shown.catalog.products["com.example.app.forever"]?.kind == .lifetime)
  }

  @Test func `the sample shows every key, with a comment before it`() throws {
    let lines = try String(contentsOf: URL(filePath: Self.sample), encoding: .utf8).split(
      separator: "\n", omittingEmptySubsequences: false)
    for key in allKeys {
      let member = try #require(key.split(separator: ".").last)
      let indent = String(repeating: "  ", count: key.count { $0 == "." })
      let section = try #require(lines.firstIndex { $0.hasPrefix("\(key.prefix { $0 != "." }):") }, "\(key)")
      let index = try #require(lines[section...].firstIndex { $0.hasPrefix("\(indent)\(member):") }, "\(key)")
      let before = lines[..<index].last { !$0.contains("_url:") }
      #expect(before?.hasPrefix("\(indent)#") == true, "\(key)")
    }
  }

  @Test func `the sample serves nobody until it has a secret and a caller`() throws {
    let problems = problemsLoading(Self.sample)
    #expect(problems.map { String($0.prefix { $0 != ":" }) } == ["app_store.shared_secret", "auth.api_keys"])

    let directory = try TemporaryDirectory()
    let text = try String(contentsOf: URL(filePath: Self.sample), encoding: .utf8)
      .replacing("api_keys: []\n  #  -", with: "api_keys:\n    -")
      .replacing("<64 lower-case hexadecimal digits>", with: SampleConfiguration.otherHash)
    let path = try directory.write("countersign.yaml", text)
    let configuration = try ServiceConfiguration.load(file: path, environment: Self.environment)
    #expect(configuration.auth.apiKeys.map(\.name) == ["backend"])
  }
}

extension ConfigurationReference {
  /// The rows of `docs/reference/configuration.md`: one for each key.
  static func markdownTable() -> String {
    func quoted(_ names: [String]) -> String { names.map { "`\($0)`" }.joined(separator: " or ") }
    let head = "| key | value | default | environment | what |\n|---|---|---|---|---|\n"
    return ConfigurationKey.all.reduce(into: head) { table, key in
      let variables = key.variables.isEmpty ? "file only" : quoted(key.variables)
      table += "| \(quoted(key.fileNames)) | \(key.form) | \(key.standard) | \(variables) | \(key.summary) |\n"
    }
  }
}

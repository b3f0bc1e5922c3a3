import HTTPTransport
import Profiles
import Resilience
import Synchronization
import Testing

@testable import Countersign

@Suite("The configuration of the profile store")
struct ProfileStoreConfigurationTests {
  static let url = "https://project.test/rest/v1"
  static let key = "sb_secret_canary5c1f"

  /// The sample with these lines under `profile_store`.
  private func yaml(_ lines: String...) -> String {
    SampleConfiguration().yaml + "profile_store:\n" + lines.map { "  \($0)\n" }.joined()
  }

  /// With URL and key before the lines.
  private func complete(_ lines: String...) -> String {
    SampleConfiguration().yaml + "profile_store:\n  url: \(Self.url)\n  key: \(Self.key)\n"
      + lines.map { "  \($0)\n" }.joined()
  }

  @Test func `without the section no profiles are written`() throws {
    #expect(try SampleConfiguration().load().profileStore == nil)
    #expect(try loadYAML(yaml("url: null", "key: ~", "table: profiles", "columns: {id: id}")).profileStore == nil)
  }

  @Test func `URL and key are enough, and the rest is the adapter's own`() throws {
    let configuration = try loadYAML(complete())
    let store = try #require(configuration.profileStore)
    #expect(store.postgREST == PostgRESTProfileStore.Configuration(url: Self.url, key: Secret(Self.key)))
    #expect(store.deadline == .seconds(2))
    #expect(store.caFile == nil)
    #expect(!store.isPlain)
    #expect(configuration.warnings.isEmpty)
  }

  /// Key, the line of the file, its value.
  static let settings: [(String, String, String)] = [
    ("profile_store.url", "url: http://127.0.0.1:3000/", "http://127.0.0.1:3000/"),
    ("profile_store.key", "key: a.b.c", "a.b.c"),
    ("profile_store.schema", "schema: billing", "billing"),
    ("profile_store.table", "table: Users_2", "Users_2"),
    ("profile_store.columns.id", "columns: {id: user_id}", "user_id"),
    ("profile_store.columns.tier", "columns: {tier: plan}", "plan"),
    ("profile_store.columns.status", "columns: {status: state}", "state"),
    ("profile_store.columns.expires_at", "columns: {expires_at: until}", "until"),
    ("profile_store.columns.original_transaction_id", "columns: {original_transaction_id: otx}", "otx"),
    ("profile_store.columns.version", "columns: {version: subscription_version}", "subscription_version"),
    ("profile_store.deadline", "deadline: 250ms", "0.25 seconds"),
  ]

  @Test func `the settings cover every key but the one that needs a file`() {
    let keys = allKeys.filter { $0.hasPrefix("profile_store.") && $0 != "profile_store.ca_file" }
    #expect(Set(Self.settings.map(\.0)) == Set(keys))
  }

  @Test func `replicas without a version in the rows deserve a warning`() throws {
    let store = SampleConfiguration().setting("profile_store.url", "https://store.example.com/rest/v1")
      .setting("profile_store.key", "sb_secret_0123456789")
    let replicas = store.setting("ledger.url", "postgresql://localhost/countersign")
    func warns(_ sample: SampleConfiguration) throws -> Bool {
      try loadYAML(sample.yaml, environment: [:]).warnings.contains {
        $0.sentence.contains("an older update may overwrite")
      }
    }
    #expect(try warns(replicas))
    #expect(try !warns(replicas.setting("profile_store.columns", "{ version: version }")))
    #expect(try !warns(store))
  }

  @Test(arguments: settings)
  func `the file sets a key, and no other`(key: String, line: String, value: String) throws {
    let plain = try loadYAML(complete())
    var lines = ["url: \(Self.url)", "key: \(Self.key)"].filter { $0.prefix { $0 != ":" } != line.prefix { $0 != ":" } }
    lines.append(line)
    let changed = try loadYAML(
      SampleConfiguration().yaml + "profile_store:\n" + lines.map { "  \($0)\n" }.joined())
    #expect(changed.rendered(key) == value)
    for other in allKeys where other != key {
      #expect(changed.rendered(other) == plain.rendered(other))
    }
  }

  @Test(arguments: settings)
  func `the environment sets it too, and wins`(key: String, line: String, value: String) throws {
    let name = ConfigurationKey.variable(of: key)
    let text = key == "profile_store.deadline" ? "250ms" : value
    let file = complete("columns: {tier: t, version: v}", "schema: s", "deadline: 4s")
    #expect(try loadYAML(file, environment: [name: text]).rendered(key) == value)
    // All of it, without a line in the file.
    let alone = [
      "COUNTERSIGN_PROFILE_STORE_URL": Self.url, "COUNTERSIGN_PROFILE_STORE_KEY": Self.key,
    ].merging([name: text]) { $1 }
    #expect(try SampleConfiguration().load(environment: alone).rendered(key) == value)
  }

  @Test func `a column's variable has the name of its nesting`() {
    #expect(
      ConfigurationKey.all.first { $0.name == "profile_store.columns.original_transaction_id" }?.variables
        == ["COUNTERSIGN_PROFILE_STORE_COLUMNS_ORIGINAL_TRANSACTION_ID"])
  }

  @Test func `the key can come from a file`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("key", "\(Self.key)\n")
    let fromFile = try loadYAML(yaml("url: \(Self.url)", "key_file: \(path)"))
    #expect(fromFile.profileStore?.postgREST.key.exposed == Self.key)
    let fromVariable = try loadYAML(
      yaml("url: \(Self.url)"), environment: ["COUNTERSIGN_PROFILE_STORE_KEY_FILE": path])
    #expect(fromVariable.profileStore?.postgREST.key.exposed == Self.key)
  }

  @Test(arguments: ["table: users", "columns: {version: v}", "schema: s", "key: \(key)"])
  func `a section without URL is not taken for none`(line: String) {
    let problems = problemsOf(yaml(line))
    #expect(
      problems.contains {
        $0.hasPrefix(
          "profile_store.url: is missing; set profile_store.url in the file or COUNTERSIGN_PROFILE_STORE_URL")
      }, "\(problems)")
    #expect(!problems.joined().contains(Self.key))
  }

  @Test func `a URL without a key is not taken for none`() {
    let problems = problemsOf(yaml("url: \(Self.url)"))
    #expect(problems.count == 1)
    #expect(problems.first?.hasPrefix("profile_store.key: is missing; set profile_store.key in the file") == true)
    #expect(problems.first?.hasSuffix("or leave the rest of profile_store out") == true)
  }

  static let bad: [(String, String)] = [
    ("url: ftp://a", "profile_store.url in countersign.yaml line"),
    ("url: \"https://u:p@a.test/\"", "must not contain a user name or password"),
    ("url: \"https://a.test/?apikey=x\"", "must not contain a query"),
    ("url: \"http://a.test/#x\"", "must not contain a fragment"),
    ("url: \"http://\"", "is not a well-formed URL"),
    ("key: \"two words\"", "must be one word of printable ASCII"),
    ("table: order", "must be a plain name"),
    ("table: \"a b\"", "must be a plain name"),
    ("schema: a.b", "must be a plain name"),
    ("columns: {id: select}", "profile_store.columns.id in countersign.yaml line"),
    ("columns: {id: 1a}", "must be a plain name"),
    ("columns: {id: \"\"}", "must not be empty"),
    ("columns: {tier: subscription_status}", "profile_store.columns: names one column twice"),
    ("columns: {version: id}", "profile_store.columns: names one column twice"),
    ("columns: [id]", "must be a mapping of keys to values"),
    ("columns: {id: [a]}", "must be a single value"),
    ("columns: {teir: a}", "unknown key \"profile_store.columns.teir\"; did you mean profile_store.columns.tier?"),
    ("columns.id: a", "write profile_store.columns.id as the key id under profile_store.columns:"),
    ("colums: {id: a}", "unknown key \"profile_store.colums\""),
    ("deadline: 2", "must be a duration"),
    ("deadline: 61s", "must be from 100ms to 1m"),
    ("deadline: 15s", "must be shorter than server.request_deadline"),
    ("deadline: 5s", "less app_store.deadline: a request may need both"),
    ("ca_file: /nowhere", "cannot be opened"),
  ]

  @Test(arguments: bad)
  func `a bad value is one problem that says which`(line: String, says: String) {
    let name = line.prefix { $0 != ":" }
    let rest = ["url: \(Self.url)", "key: \(Self.key)"].filter { $0.prefix { $0 != ":" } != name }
    let text = SampleConfiguration().yaml + "profile_store:\n" + (rest + [line]).map { "  \($0)\n" }.joined()
    let problems = problemsOf(text)
    #expect(problems.count == 1, "\(problems)")
    #expect(problems.first?.contains(says) == true, "\(problems)")
    #expect(!problems.joined().contains(Self.key))
  }

  @Test func `a probe of the store is heard for as long as a write may take`() throws {
    let start = ContinuousClock.now
    let passed = Mutex(Duration.zero)
    let breaker = CircuitBreaker(
      configuration: .init(deadline: .seconds(60)), now: { start + passed.withLock { $0 } }, jitter: { $0 })
    func permit() -> CircuitBreaker.Permit? { if case .admitted(let permit) = breaker.admit() { permit } else { nil } }
    for _ in 0..<5 { try #require(permit()).report(.failure()) }
    passed.withLock { $0 += .seconds(1) }
    let probe = try #require(permit())
    passed.withLock { $0 += .seconds(60) }
    #expect(permit() == nil)
    probe.report(.success)
    #expect(breaker.state == .closed)
    #expect(CircuitBreaker.Configuration(deadline: .seconds(2)).probeTimeout == .seconds(15))
  }

  @Test(
    arguments: [
      ("http://db.internal:3000", true), ("http://127.0.0.1.evil.test", true), ("HTTP://10.0.0.1/", true),
      ("http://localhost:3000/x", false), ("http://127.0.0.1:3000", false), ("http://[::1]:3000", false),
      ("https://db.internal", false),
    ])
  func `a store without TLS beyond this machine is a warning`(url: String, warns: Bool) throws {
    let configuration = try loadYAML(yaml("url: \"\(url)\"", "key: \(Self.key)"))
    #expect(configuration.warnings.contains { $0.sentence.contains("is not encrypted") } == warns)
    #expect(configuration.profileStore?.isPlain == url.lowercased().hasPrefix("http:"))
  }
}

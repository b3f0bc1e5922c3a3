import Entitlements
import HTTPTransport
import Testing

@testable import Countersign
@testable import CountersignServer

@Suite("Each key of the configuration")
struct ConfigurationKeyTests {
  /// A key: what it is without being set, what a file says and what that means, and the same for the environment.
  struct Row: Sendable, CustomTestStringConvertible {
    let key: String
    let standard: String
    let file: (text: String, value: String)
    let environment: (text: String, value: String)

    init(
      _ key: String, _ standard: String, file: (String, String), environment: (String, String)
    ) {
      self.key = key
      self.standard = standard
      self.file = file
      self.environment = environment
    }

    var testDescription: String { key }
  }

  static let rows: [Row] = [
    Row("server.host", "127.0.0.1", file: ("\"::1\"", "::1"), environment: ("localhost", "localhost")),
    Row("server.port", "8080", file: ("0", "0"), environment: ("65535", "65535")),
    Row("server.max_body", "4194304", file: ("512KiB", "524288"), environment: ("2097152", "2097152")),
    Row("server.max_connections", "10000", file: ("1", "1"), environment: ("100000", "100000")),
    Row("server.max_connections_per_address", "200", file: ("0", "0"), environment: ("100000", "100000")),
    Row("server.max_bytes_in_flight", "67108864", file: ("1GiB", "1073741824"), environment: ("8MiB", "8388608")),
    Row(
      "server.request_deadline", "15.0 seconds", file: ("1m", "60.0 seconds"),
      environment: ("10001ms", "10.001 seconds")),
    Row("server.idle_timeout", "10.0 seconds", file: ("250ms", "0.25 seconds"), environment: ("9s", "9.0 seconds")),
    Row("server.shutdown_grace", "20.0 seconds", file: ("0", "0.0 seconds"), environment: ("10m", "600.0 seconds")),
    Row("server.rate_limit", "0", file: ("50", "50"), environment: ("1000000", "1000000")),
    Row("server.user_rate_limit", "10", file: ("0", "0"), environment: ("1000000", "1000000")),
    Row("server.new_customers_per_address", "600", file: ("0", "0"), environment: ("1000000", "1000000")),
    Row("server.address_rate_limit", "300", file: ("0", "0"), environment: ("1000000", "1000000")),
    Row("server.trusted_proxies", "0", file: ("[10.0.0.0/8, \"::1\"]", "2"), environment: ("127.0.0.1", "1")),
    Row(
      "server.page_origins", "",
      file: ("[\"https://b.example\", \"http://localhost:3000\"]", "http://localhost:3000 https://b.example"),
      environment: ("https://a.example", "https://a.example")),
    Row(
      "app_store.bundle_ids", "com.example.app", file: ("[b.c, a.b-2]", "a.b-2 b.c"),
      environment: ("x.y, z.w", "x.y z.w")),
    Row("app_store.shared_secret", "canary-5c1f0e", file: ("00001e5", "00001e5"), environment: ("abc", "abc")),
    Row(
      "app_store.production_url", "https://buy.itunes.apple.com/verifyReceipt",
      file: ("https://localhost:8443/a?b=c", "https://localhost:8443/a?b=c"),
      environment: ("HTTPS://[::1]:1/", "HTTPS://[::1]:1/")),
    Row(
      "app_store.sandbox_url", "https://sandbox.itunes.apple.com/verifyReceipt",
      file: ("https://sandbox.test", "https://sandbox.test"), environment: ("https://10.0.0.1", "https://10.0.0.1")),
    Row("app_store.concurrency", "64", file: ("1", "1"), environment: ("1000", "1000")),
    Row("app_store.deadline", "10.0 seconds", file: ("100ms", "0.1 seconds"), environment: ("14s", "14.0 seconds")),
    Row(
      "app_store.refund_sweep", "604800.0 seconds", file: ("0", "0.0 seconds"),
      environment: ("366d", "31622400.0 seconds")),
    Row("app_store.app_apple_ids", "", file: ("[1234567890]", "1234567890"), environment: ("7,1", "1 7")),
    Row("catalog.tiers", "free pro", file: ("[a, pro, c]", "a pro c"), environment: ("z,pro", "z pro")),
    Row("catalog.entitlements", "cumulative", file: ("exact", "exact"), environment: ("exact", "exact")),
    Row(
      "catalog.time_zone", "UTC", file: ("Europe/Berlin", "Europe/Berlin"), environment: ("Asia/Tokyo", "Asia/Tokyo")),
    Row("catalog.accept_loss", "", file: ("[b.c, a.b]", "a.b b.c"), environment: ("x.y", "x.y")),
    Row(
      "policy.billing_retry_access", "5184000.0 seconds", file: ("0", "0.0 seconds"),
      environment: ("24h", "86400.0 seconds")),
    Row("policy.sandbox", "accept", file: ("reject", "reject"), environment: ("testers", "testers")),
    Row("policy.testers", "", file: ("[u1, \"2\", 3]", "2 3 u1"), environment: ("u9", "u9")),
    Row(
      "policy.ownership", "keep", file: ("transfer", "transfer"),
      environment: ("transfer_if_inactive", "transfer_if_inactive")),
    Row("policy.app_account_token", "hint", file: ("user_id", "user_id"), environment: ("user_id", "user_id")),
    Row(
      "policy.outage_hold", "604800.0 seconds", file: ("0s", "0.0 seconds"), environment: ("365d", "31536000.0 seconds")
    ),
    Row(
      "policy.late_renewal", "86400.0 seconds", file: ("0s", "0.0 seconds"), environment: ("30d", "2592000.0 seconds")
    ),
    Row("policy.reuse", "30.0 seconds", file: ("0", "0.0 seconds"), environment: ("1h", "3600.0 seconds")),
    Row(
      "policy.provisional", "86400.0 seconds", file: ("0", "0.0 seconds"), environment: ("30d", "2592000.0 seconds")),
    Row("revalidation.rate", "10", file: ("1", "1"), environment: ("1000", "1000")),
    Row("revalidation.max_downgrades", "20", file: ("100", "100"), environment: ("1", "1")),
    Row("policy.local_verification", "advise", file: ("require", "require"), environment: ("require", "require")),
    Row("policy.xcode", "reject", file: ("accept", "accept"), environment: ("accept", "accept")),
    Row("ledger.path", "countersign.sqlite", file: ("/var/lib/a b.db", "/var/lib/a b.db"), environment: ("./x", "./x")),
    Row("ledger.reserve", "10", file: ("0", "0"), environment: ("100", "100")),
    Row("ledger.pool", "16", file: ("1", "1"), environment: ("200", "200")),
    Row(
      "events.keep", "34560000.0 seconds", file: ("1d", "86400.0 seconds"),
      environment: ("3660d", "316224000.0 seconds")),
    Row(
      "retention.history", "none", file: ("3660d", "316224000.0 seconds"),
      environment: ("36500d", "3153600000.0 seconds")),
    Row("figures.currency", "USD", file: ("GBP", "GBP"), environment: ("EUR", "EUR")),
    Row("log.level", "info", file: ("trace", "trace"), environment: ("critical", "critical")),
    Row("log.format", "json", file: ("text", "text"), environment: ("text", "text")),
  ]

  @Test func `the rows cover every key but those that need files, hold trees or go together`() {
    let apart: Set<String> = [
      "app_store.ca_file", "app_store.roots", "auth.api_keys",
      // Tested in `LedgerConfigurationTests`.
      "ledger.url",
      // Tested in `FiguresConfigurationTests`.
      "figures.rates_file",
      // Tested in `WebhookConfigurationTests`.
      "webhooks", "notifications.forward",
      // These are tested in `DialectConfigurationTests`.
      "auth.public_keys", "dialects",
      // These are tested in `ConfigurationTreeTests` and `CatalogConfigurationTests`.
      "catalog.products", "catalog.features", "catalog.offerings", "catalog.experiments",
      "catalog.original_purchase",
      // Tested in `TrialsConfigurationTests`, as are the keys of device_check.
      "trials",
      // These are tested in `ServerConfigurationTests`.
      "server.tls.certificate_file", "server.tls.key_file", "server.admin.host", "server.admin.port",
      // It needs others: see `ServerAPIConfigurationTests`.
      "app_store.clock",
    ]
    // These are tested in `ProfileStoreConfigurationTests`, `JWTConfigurationTests`, `ServerAPIConfigurationTests`,
    // `RevenueCatConfigurationTests` and `AccessTokenTests`.
    let together = allKeys.filter {
      $0.hasPrefix("profile_store.") || $0.hasPrefix("auth.jwt.") || $0.hasPrefix("auth.signing_")
        || $0.hasPrefix("app_store.server_api.") || $0.hasPrefix("app_store.offers.")
        || $0.hasPrefix("app_store.consumption.") || $0.hasPrefix("device_check.")
        || $0.hasPrefix("revenuecat.")
    }
    #expect(Set(Self.rows.map(\.key)) == Set(allKeys).subtracting(apart).subtracting(together))
  }

  @Test(arguments: rows)
  func `a key that is not set has its default`(row: Row) throws {
    #expect(try SampleConfiguration().load().rendered(row.key) == row.standard)
  }

  @Test(arguments: rows)
  func `a file sets a key, and no other`(row: Row) throws {
    let plain = try SampleConfiguration().load()
    let changed = try SampleConfiguration().setting(row.key, row.file.text).load()
    #expect(changed.rendered(row.key) == row.file.value)
    for other in allKeys where other != row.key {
      #expect(changed.rendered(other) == plain.rendered(other))
    }
  }

  @Test(arguments: rows)
  func `the environment wins over the file`(row: Row) throws {
    let name = ConfigurationKey.variable(of: row.key)
    let sample = SampleConfiguration().setting(row.key, row.file.text)
    #expect(try sample.load(environment: [name: row.environment.text]).rendered(row.key) == row.environment.value)
  }

  @Test(arguments: rows)
  func `a null in the file is the same as nothing`(row: Row) throws {
    // Without a value for these the service does not start.
    if ConfigurationKey.all.contains(where: { $0.name == row.key && $0.standard == "required" }) { return }
    if row.key == "app_store.shared_secret" { return }
    for null in ["null", "~", ""] {
      #expect(try SampleConfiguration().setting(row.key, null).load().rendered(row.key) == row.standard)
    }
  }

  @Test(
    arguments: [
      ("server.port", "COUNTERSIGN_SERVER_PORT"), ("server.max_body", "COUNTERSIGN_SERVER_MAX_BODY"),
      ("app_store.shared_secret", "COUNTERSIGN_APP_STORE_SHARED_SECRET"),
      ("policy.sandbox", "COUNTERSIGN_POLICY_SANDBOX"),
    ])
  func `a variable is the key in capitals`(key: String, name: String) {
    #expect(ConfigurationKey.all.first { $0.name == key }?.variables.first == name)
  }

  @Test func `everything can come from the environment when nobody has to call`() throws {
    let configuration = try ServiceConfiguration.load(
      file: nil,
      environment: [
        "COUNTERSIGN_APP_STORE_BUNDLE_IDS": "com.example.app", "COUNTERSIGN_APP_STORE_SHARED_SECRET": "s",
        "COUNTERSIGN_CATALOG_TIERS": "free", "PATH": "/bin", "COUNTER": "1",
      ], requiresCredential: false)
    #expect(configuration.server.port == 8080)
    #expect(configuration.auth.apiKeys.isEmpty)
  }

  @Test func `an empty list variable is an empty list`() throws {
    let sample = SampleConfiguration().setting("policy.testers", "[u1]")
    #expect(try sample.load(environment: ["COUNTERSIGN_POLICY_TESTERS": ""]).policy.testers.isEmpty)
  }

  // MARK: - Bad values

  /// A key, what is written in the file, and what the sentence about it says.
  static let bad: [(String, String, String)] = [
    ("server.host", "\"\"", "must not be empty"),
    ("server.host", "\"a b\"", "must be an address or a host name, not \"a b\""),
    ("server.host", "http://a", "must be an address or a host name, not \"http://a\""),
    ("server.host", "[a]", "must be a single value"),
    ("server.port", "eighty", "must be a whole number, not \"eighty\""),
    ("server.port", "65536", "must be from 0 to 65535, not \"65536\""),
    ("server.port", "-1", "must be a whole number, not \"-1\""),
    ("server.port", "+1", "must be a whole number"),
    ("server.port", "0x50", "must be a whole number"),
    ("server.port", "8080.0", "must be a whole number"),
    ("server.port", "99999999999999999999", "must be a whole number"),
    ("server.port", "{a: 1}", "must be a single value"),
    ("server.max_body", "4MB", "must be a size such as 4MiB, 512KiB or 65536 (bytes), not \"4MB\""),
    ("server.max_body", "0", "must be from 1KiB to 64MiB, not \"0\""),
    ("server.max_body", "1GiB", "must be from 1KiB to 64MiB, not \"1GiB\""),
    ("server.max_body", "9223372036854775807GiB", "must be from 1KiB to 64MiB"),
    ("server.max_body", "-4MiB", "must be a size"),
    ("server.max_body", "4 MiB", "must be a size"),
    ("server.max_body", "٤MiB", "must be a size such as 4MiB, 512KiB or 65536 (bytes), not \"\\u{0664}MiB\""),
    ("server.max_connections", "0", "must be from 1 to 100000, not \"0\""),
    ("server.max_bytes_in_flight", "5GiB", "must be from 1MiB to 4GiB"),
    ("server.request_deadline", "15", "must be a duration such as 250ms, 10s, 5m, 24h, 60d, 3y or 0, not \"15\""),
    ("server.request_deadline", "0", "must be from 100ms to 10m, not \"0\""),
    ("server.request_deadline", "11m", "must be from 100ms to 10m, not \"11m\""),
    ("server.request_deadline", "1.5s", "must be a duration"),
    ("server.idle_timeout", "10 s", "must be a duration"),
    ("server.idle_timeout", "10S", "must be a duration"),
    ("server.shutdown_grace", "-1s", "must be a duration"),
    ("server.rate_limit", "-1", "must be a whole number"),
    ("app_store.bundle_ids", "[]", "must list at least one bundle ID"),
    ("app_store.bundle_ids", "com.example.app", "must be a list"),
    ("app_store.bundle_ids", "[com.example.*]", "\"com.example.*\" is not a bundle ID"),
    ("app_store.bundle_ids", "[a.b, a.b]", "lists \"a.b\" twice"),
    ("app_store.bundle_ids", "[a.b, null]", "must not have empty items"),
    ("app_store.bundle_ids", "[a.b, [c]]", "must be a list of single values"),
    ("app_store.shared_secret", "\"\"", "must not be empty"),
    ("app_store.shared_secret", "\"two words\"", "must be one word of printable ASCII: no spaces, no second line"),
    ("app_store.shared_secret", "\"a\\nb\"", "must be one word of printable ASCII"),
    ("app_store.production_url", "http://buy.itunes.apple.com/", "must be an https:// URL"),
    ("app_store.production_url", "file:///etc/passwd", "must be an https:// URL"),
    ("app_store.production_url", "https://u:p@a.test/", "must not contain a user name or password"),
    ("app_store.production_url", "\"https://a.test/#x\"", "must not contain a fragment"),
    ("app_store.production_url", "https://", "is not a well-formed URL"),
    ("app_store.production_url", "\"https://a b/\"", "is not a well-formed URL"),
    ("app_store.production_url", "https://a.test:0/", "is not a well-formed URL"),
    ("app_store.production_url", "https://a.test:65536/", "is not a well-formed URL"),
    ("app_store.production_url", "https://a.test:/", "is not a well-formed URL"),
    ("app_store.production_url", #"https://a.test\@b.test/"#, "must not contain a user name or password"),
    ("app_store.production_url", #"https://a.test\b"#, "is not a well-formed URL"),
    ("app_store.sandbox_url", "https://bücher.test/", "is not a well-formed URL"),
    ("app_store.concurrency", "0", "must be from 1 to 4096"),
    ("app_store.deadline", "6m", "must be from 100ms to 5m"),
    ("app_store.deadline", "15s", "must be shorter than server.request_deadline"),
    (
      "app_store.ca_file", "/nowhere/ca.pem", "the file \"/nowhere/ca.pem\" cannot be opened: No such file or directory"
    ),
    ("app_store.ca_file", "/", "the file \"/\" is not a regular file"),
    ("app_store.roots", "[/dev/zero]", "the file \"/dev/zero\" is not a regular file"),
    ("app_store.roots", "/a", "must be a list"),
    ("catalog.tiers", "[]", "must list at least one tier"),
    ("catalog.tiers", "[pro, pro]", "lists \"pro\" twice"),
    ("catalog.tiers", "[free, pro, null]", "must not have empty items"),
    ("catalog.tiers", "pro", "must be a list"),
    ("catalog.tiers", "[free, [pro]]", "must be a list of words, or of one word each with its mapping"),
    ("catalog.tiers", "[free, {pro: {}, max: {}}]", "must be a list of words, or of one word each with its mapping"),
    ("catalog.entitlements", "all", "must be cumulative or exact, not \"all\""),
    (
      "catalog.time_zone", "Europe/Berlni",
      "must be an IANA name such as Europe/Berlin, or UTC, not \"Europe/Berlni\"; did you mean Europe/Berlin?"
    ),
    ("catalog.time_zone", "CET", "must be an IANA name"),
    ("policy.billing_retry_access", "366d", "must be from 0 to 365d, not \"366d\""),
    ("policy.billing_retry_access", "99999999999999999d", "must be from 0 to 365d"),
    ("policy.billing_retry_access", "9223372036854775807ms", "must be from 0 to 365d"),
    ("policy.billing_retry_access", "99999999999999999999d", "must be a duration"),
    ("policy.sandbox", "tester", "must be accept, testers or reject, not \"tester\"; did you mean testers?"),
    ("policy.sandbox", "true", "must be accept, testers or reject, not \"true\""),
    ("policy.ownership", "steal", "must be keep, transfer or transfer_if_inactive, not \"steal\""),
    ("policy.outage_hold", "a week", "must be a duration"),
    ("policy.local_verification", "ignore", "must be advise or require, not \"ignore\""),
    ("policy.testers", "u1", "must be a list"),
    ("ledger.path", "\":memory:\"", "must be the path of a file: what is recorded has to last"),
    ("ledger.path", "\"file:x?mode=memory\"", "must be the path of a file"),
    ("ledger.path", "\"a\\0b\"", "must not contain control characters"),
    ("log.level", "INFO", "not \"INFO\""),
    ("log.format", "xml", "must be json or text, not \"xml\""),
    ("catalog.products", "[a]", "must be a mapping from product ID to {tier: …}"),
    ("auth.api_keys", "{a: b}", "must be a list of {name, role, sha256}"),
    ("auth.api_keys", "[]", "nobody could call"),
  ]

  @Test(arguments: bad)
  func `a bad value in the file is one problem that names its key`(key: String, text: String, says: String) throws {
    let problem = try SampleConfiguration().setting(key, text).problem()
    #expect(problem.contains(says), "\(problem)")
    if text == "[]", key == "auth.api_keys" {
      #expect(problem.hasPrefix("auth.api_keys: "))
    } else {
      #expect(
        problem.wholeMatch(of: /([a-z_.]+) in countersign\.yaml line [0-9]+: [^\n]+/)?.1 ?? "" == key, "\(problem)")
    }
  }

  @Test(
    arguments: [
      ("COUNTERSIGN_SERVER_PORT", "http", "must be a whole number, not \"http\""),
      ("COUNTERSIGN_SERVER_PORT", "", "must not be empty"),
      ("COUNTERSIGN_SERVER_PORT", " 80", "must be a whole number"),
      ("COUNTERSIGN_SERVER_MAX_BODY", "big", "must be a size"),
      ("COUNTERSIGN_APP_STORE_BUNDLE_IDS", "", "must list at least one bundle ID"),
      ("COUNTERSIGN_APP_STORE_BUNDLE_IDS", "a.b,,c.d", "must not have empty items"),
      ("COUNTERSIGN_APP_STORE_SHARED_SECRET", "", "must not be empty"),
      ("COUNTERSIGN_APP_STORE_SANDBOX_URL", "http://a", "must be an https:// URL"),
      ("COUNTERSIGN_APP_STORE_CA_FILE", "/nowhere", "cannot be opened"),
      ("COUNTERSIGN_APP_STORE_DEADLINE", "10m", "must be from 100ms to 5m"),
      ("COUNTERSIGN_POLICY_SANDBOX", "yes", "must be accept, testers or reject"),
      ("COUNTERSIGN_LEDGER_PATH", "a\u{1b}[31mb", "must not contain control characters"),
      ("COUNTERSIGN_LOG_LEVEL", "loud", "must be trace, debug"),
    ])
  func `a bad variable is one problem that names the variable`(name: String, text: String, says: String) throws {
    let problem = try SampleConfiguration().problem(environment: [name: text])
    #expect(problem.hasPrefix("\(name): "), "\(problem)")
    #expect(problem.contains(says), "\(problem)")
  }

  @Test func `a body that could never be read is refused`() throws {
    let problems = SampleConfiguration().setting("server.max_body", "2MiB")
      .setting("server.max_bytes_in_flight", "1MiB").problems()
    #expect(
      problems == [
        "server.max_body in countersign.yaml line 10: must not be more than server.max_bytes_in_flight: no such body could "
          + "be read"
      ])
  }

  @Test(arguments: [(nil, false), ("256", false), ("257", true), ("4096", true)] as [(String?, Bool)])
  func `many calls at once share connections by HTTP/2`(concurrency: String?, http2: Bool) throws {
    let configuration = try SampleConfiguration().setting("app_store.concurrency", concurrency).load()
    #expect(configuration.appStore.transportConfiguration.http2 == http2)
    #expect(configuration.appStore.transportConfiguration.maxInFlight == configuration.appStore.concurrency)
  }

  @Test(arguments: ["app_store.bundle_ids", "app_store.shared_secret", "catalog.tiers", "auth.api_keys"])
  func `keys without a default are asked for by name`(key: String) throws {
    let problem = try SampleConfiguration().setting(key, nil).problem()
    #expect(problem.hasPrefix("\(key): "), "\(problem)")
    if key == "app_store.shared_secret" {
      #expect(
        problem
          == "app_store.shared_secret: is missing; set app_store.shared_secret in the file, "
          + "COUNTERSIGN_APP_STORE_SHARED_SECRET, app_store.shared_secret_file (a path) or "
          + "COUNTERSIGN_APP_STORE_SHARED_SECRET_FILE (a path), or set app_store.server_api where the app is a StoreKit 2 "
          + "app only. App Store Connect has the secret (the app › App Information › App-Specific Shared Secret) and the key "
          + "(Users and Access › Integrations › In-App Purchase)")
    }
  }
}

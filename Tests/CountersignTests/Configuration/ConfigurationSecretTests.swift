import FoundationEssentials
import HTTPTransport
import Testing

@testable import Countersign

@Suite("Secrets and trust")
struct ConfigurationSecretTests {
  static let variable = "COUNTERSIGN_APP_STORE_SHARED_SECRET"
  let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  var withoutSecret: SampleConfiguration { SampleConfiguration().setting("app_store.shared_secret", nil) }

  @Test(arguments: ["canary", "canary\n", "canary\r\n"])
  func `a secret is read from a file, one line end trimmed`(text: String) throws {
    let path = try directory.write("secret", text)
    let byFile = try withoutSecret.setting("app_store.shared_secret_file", path).load()
    let byVariable = try withoutSecret.load(environment: [Self.variable + "_FILE": path])
    #expect(byFile.appStore.sharedSecret?.exposed == "canary")
    #expect(byVariable.appStore.sharedSecret?.exposed == "canary")
    #expect(byFile.warnings.isEmpty)
  }

  @Test(
    arguments: [
      ("", "must not be empty"), ("\n", "must not be empty"), ("canary\n\n", "must be one word"),
      ("canary two", "must be one word"), (" canary", "must be one word"), ("canary\0", "must be one word"),
      (String(repeating: "canary", count: 200), "must not be longer than 1024 characters"),
      (String(repeating: "canary", count: 20_000), "is larger than 64 KiB"),
    ])
  func `a file that holds no secret is refused without being quoted`(text: String, says: String) throws {
    let path = try directory.write("secret", text)
    let problem = try withoutSecret.setting("app_store.shared_secret_file", path).problem()
    #expect(problem.hasPrefix("app_store.shared_secret_file in countersign.yaml line 3: "), "\(problem)")
    #expect(problem.contains(says), "\(problem)")
    #expect(!problem.contains("canary"))
  }

  @Test(arguments: [
    ("/nowhere", "cannot be opened"), ("/", "is not a regular file"), ("/dev/zero", "is not a regular file"),
  ])
  func `a path to no file is refused`(path: String, says: String) throws {
    let problems = withoutSecret.problems(environment: [Self.variable + "_FILE": path])
    #expect(problems.first?.hasPrefix("\(Self.variable)_FILE: the file that it names \(says)") == true, "\(problems)")
    #expect(problems.count == 1)
  }

  @Test func `a value and a file in one place are refused`() throws {
    let path = try directory.write("secret", "canary")
    #expect(
      SampleConfiguration().setting("app_store.shared_secret_file", path).problems() == [
        "app_store.shared_secret in countersign.yaml line 3: is given as a value and as a file "
          + "(app_store.shared_secret_file in countersign.yaml line 4); give one of them"
      ])
    #expect(
      withoutSecret.problems(environment: [Self.variable: "canary", Self.variable + "_FILE": path]) == [
        "\(Self.variable): is given as a value and as a file (\(Self.variable)_FILE); give one of them"
      ])
  }

  @Test func `the environment's secret wins over the file's, in either form`() throws {
    let path = try directory.write("secret", "from-file")
    #expect(
      try SampleConfiguration().load(environment: [Self.variable + "_FILE": path]).appStore.sharedSecret?.exposed
        == "from-file")
    #expect(
      try withoutSecret.setting("app_store.shared_secret_file", path).load(environment: [Self.variable: "from-env"])
        .appStore.sharedSecret?.exposed == "from-env")
  }

  @Test func `no way of printing a configuration shows a secret`() throws {
    let pem = ServerAPIConfigurationTests.pem
    let configuration = try SampleConfiguration()
      .setting(
        "app_store.server_api",
        "{key: \"\(pem.replacing("\n", with: "\\n"))\", key_id: 2X9R4HXF34, issuer_id: \(ServerAPIConfigurationTests.issuer)}"
      )
      .setting("auth.jwt", "{secret: \(JWTConfigurationTests.secret)}")
      .setting("profile_store.url", ProfileStoreConfigurationTests.url)
      .setting("profile_store.key", ProfileStoreConfigurationTests.key)
      .load(environment: [Self.variable: "canary-env"])
    var dumped = ""
    dump(configuration, to: &dumped)
    #expect(dumped.contains("project.test"))
    let key = try #require(pem.split(separator: "\n").dropFirst().first)
    let texts = [
      "\(configuration)", String(reflecting: configuration), dumped, "\(configuration.appStore)",
      String(reflecting: configuration.auth), String(describing: configuration.auth.jwt),
      "\(Mirror(reflecting: configuration).children.map { $0 })",
    ]
    for text in texts {
      #expect(!text.contains("canary") && !text.contains(key))
      // The digest of a caller's key: neither as hexadecimal digits nor as a list of bytes.
      #expect(!text.contains(SampleConfiguration.hash))
      #expect(!text.contains("1, 35, 69, 103"))
    }
  }

  @Test(
    arguments: [
      // A secret with a space, one in a list's place, one in a section's, one in a broken line, one twice.
      "app_store:\n  shared_secret: canary secret",
      "app_store:\n  shared_secret: [canary]",
      "app_store: canary",
      "app_store: {shared_secret:canary, deadline: 1s}",
      "app_store: {shared_secret:canary, shared_secret:canary}",
      "app_store:\n  shared_secret_file: canary",
      "app_store:\n  \"shared_secret=canary\": 1",
      "app_store:\n  shared_secret: \"canary",
      "app_store:\n  shared_secret: canary: x",
      "app_store:\n  shared_secret: @canary",
      "app_store:\n  shared_secret: canary\n  shared_secret: canary2",
      "app_store:\n  shared_secrets: canary",
      "app_store:\n  shared_secret_file: {a: canary}",
      "app_store:\n  production_url: https://user:canary@a.test/",
      "auth:\n  api_keys: [{name: a, role: service, sha256: canary}]",
      "auth:\n  api_keys: [{name: a, role: service, key: canary}]",
      "auth:\n  api_keys: [canary]",
      "auth:\n  api_keys: [{canary}]",
      "auth:\n  api_keys: [{name: canary two, role: service, sha256: a}]",
    ])
  func `no sentence about a bad file repeats a secret`(text: String) throws {
    let problems = problemsOf(text)
    #expect(!problems.isEmpty)
    for problem in problems { #expect(!problem.contains("canary"), "\(problem)") }
  }

  // MARK: - Warnings

  @Test func `nothing is warned of in a plain configuration`() throws {
    #expect(try SampleConfiguration().load().warnings.isEmpty)
  }

  @Test(arguments: [("15s", 0), ("14s", 1)])
  func `a shutdown that may cut off requests in progress is warned of`(grace: String, count: Int) throws {
    let warnings = try SampleConfiguration().setting("server.shutdown_grace", grace)
      .setting("server.request_deadline", "15s").load().warnings
    #expect(warnings.count == count)
    #expect(warnings.allSatisfy { $0.sentence.contains("requests in progress may be cut off") })
  }

  @Test func `a secret that all may read, foreign roots and foreign authorities are warned of`() throws {
    let secret = try directory.write("secret", "canary", mode: 0o644)
    let certificate = try directory.write("ca.pem", "x")
    let configuration =
      try withoutSecret
      .setting("app_store.shared_secret_file", secret).setting("app_store.roots", "[\(certificate)]")
      .setting("app_store.ca_file", certificate).setting("app_store.sandbox_url", "https://localhost:1/").load()
    #expect(configuration.appStore.roots == [certificate])
    #expect(configuration.appStore.caFile == certificate)
    let warnings = configuration.warnings.map(\.description)
    for part in [
      "app_store.shared_secret_file in countersign.yaml line 6: every user of this machine may read the file",
      "app_store.roots in countersign.yaml line 4: everything that these roots have signed is trusted",
      "app_store.ca_file in countersign.yaml line 3: whoever holds a key",
      "app_store.sandbox_url in countersign.yaml line 5: is not Apple's",
    ] { #expect(warnings.count { $0.hasPrefix(part) } == 1, "\(part): \(warnings)") }
    #expect(warnings.count == 4)
  }

  @Test(arguments: [(0o644, 1), (0o640, 0), (0o600, 0)])
  func `secrets in a configuration file that all may read are warned of, once`(mode: Int, count: Int) throws {
    let secret = "a-secret-of-thirty-two-characters"
    let yaml = SampleConfiguration().setting("auth.jwt", "{secret: \(secret)}").yaml
    let file = try directory.write("countersign.yaml", yaml, mode: mode)
    let warnings = try ServiceConfiguration.load(file: file, environment: [:]).warnings.map(\.description)
      .filter { $0.contains("chmod 600") }
    #expect(warnings.count == count)
    for warning in warnings {
      #expect(warning.hasPrefix("\(file): every user of this machine may read it"))
      #expect(warning.contains("app_store.shared_secret and auth.jwt.secret"), "\(warning)")
      #expect(!warning.contains(secret) && !warning.contains(SampleConfiguration.sharedSecret))
    }
  }

  @Test func `a configuration file without a secret may be read by all`() throws {
    let secret = try directory.write("secret", "canary", mode: 0o600)
    let yaml = withoutSecret.setting("app_store.shared_secret_file", secret).yaml
    let file = try directory.write("countersign.yaml", yaml, mode: 0o644)
    #expect(try ServiceConfiguration.load(file: file, environment: [:]).warnings.isEmpty)
  }

  @Test(
    arguments: [
      ("COUNTERSIGN_SERVER_HOST", "0.0.0.0", "others than this machine can connect"),
      ("COUNTERSIGN_POLICY_SANDBOX", "testers", "policy.testers is empty"),
      ("COUNTERSIGN_POLICY_TESTERS", "u1", "has no effect unless policy.sandbox is testers"),
    ])
  func `allowed but doubtful settings are warned of`(name: String, text: String, says: String) throws {
    let warnings = try SampleConfiguration().load(environment: [name: text]).warnings.map(\.description)
    #expect(warnings.count == 1)
    #expect(warnings.first?.hasPrefix("\(name): ") == true)
    #expect(warnings.first?.contains(says) == true)
  }

  @Test func `every root that is missing is named`() throws {
    let empty = try directory.write("empty.pem", "")
    let problems = SampleConfiguration().setting("app_store.roots", "[/nowhere/1, /nowhere/2, \(empty)]").problems()
    #expect(problems.count == 3)
    #expect(problems.last?.hasSuffix("\"\(empty)\" is empty") == true, "\(problems)")
  }
}

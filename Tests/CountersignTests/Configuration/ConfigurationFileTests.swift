import FoundationEssentials
import HTTPTransport
import Testing

@testable import Countersign
@testable import CountersignServer

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

@Suite("The configuration file")
struct ConfigurationFileTests {
  // MARK: - Keys

  @Test(
    arguments: [
      ("sever: {port: 1}", "countersign.yaml line 1: unknown key \"sever\"; did you mean server?"),
      ("server:\n  prot: 1", "countersign.yaml line 2: unknown key \"server.prot\"; did you mean server.port?"),
      (
        "server:\n  host: a\n  maxbody: 1",
        "countersign.yaml line 3: unknown key \"server.maxbody\"; did you mean server.max_body?"
      ),
      (
        "app_store: {shared_secert_file: x}",
        "countersign.yaml line 1: unknown key \"app_store.shared_secert_file\"; did you mean app_store.shared_secret_file?"
      ),
      ("quite_something_else: 1", "countersign.yaml line 1: unknown key \"quite_something_else\""),
      ("server.port: 80", "countersign.yaml line 1: write server.port as the key port under server:"),
      ("<<: {server: {port: 1}}", "countersign.yaml line 1: a key must be a plain word"),
      ("server: {port:80}", "countersign.yaml line 1: unknown key \"server.port\" (…); did you mean server.port?"),
      ("server: 8080", "server in countersign.yaml line 1: must be a mapping of keys to values"),
      ("? [a, b]\n: c", "countersign.yaml line 1: a key must be a plain word"),
      ("server: {? {a: b} : c}", "countersign.yaml line 1: a key must be a plain word"),
      ("\"\\e[31m\": 1", "countersign.yaml line 1: a key must be a plain word"),
    ])
  func `a key that is not known is named with its line`(text: String, problem: String) throws {
    #expect(problemsOf(text).contains(problem), "\(problemsOf(text))")
  }

  @Test(
    arguments: [
      ("COUNTERSIGN_SERVER_PROT", "unknown variable; did you mean COUNTERSIGN_SERVER_PORT?"),
      ("COUNTERSIGN_APP_STORE_SHARED_SECRT", "unknown variable; did you mean COUNTERSIGN_APP_STORE_SHARED_SECRET?"),
      ("COUNTERSIGN_ENTIRELY_DIFFERENT_WORDS", "unknown variable"),
      ("COUNTERSIGN_SERVER_PORT_FILE", "unknown variable; did you mean COUNTERSIGN_SERVER_PORT?"),
      ("COUNTERSIGN_", "unknown variable"),
      ("COUNTERSIGN_PORT", "unknown variable"),
      ("COUNTERSIGN_AUTH_API_KEYS", "auth.api_keys can only be given in the configuration file"),
      ("COUNTERSIGN_CATALOG_PRODUCTS", "catalog.products can only be given in the configuration file"),
    ])
  func `a variable that is not known is named, and its value is not`(name: String, says: String) throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("countersign.yaml", SampleConfiguration().yaml)
    let problems = problemsLoading(path, environment: [name: "canary-variable"])
    let problem = try #require(problems.first)
    #expect(problems.count == 1)
    #expect(problem.hasPrefix("\(name): \(says)"), "\(problem)")
    #expect(!problem.contains("canary-variable"))
  }

  @Test func `variables that Kubernetes adds for a service of our name are not the operator's`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("countersign.yaml", SampleConfiguration().yaml)
    let environment = [
      "COUNTERSIGN_SERVICE_HOST": "10.0.0.1", "COUNTERSIGN_SERVICE_PORT": "80", "COUNTERSIGN_SERVICE_PORT_HTTP": "80",
      "COUNTERSIGN_PORT": "tcp://10.0.0.1:80", "COUNTERSIGN_PORT_80_TCP": "tcp://10.0.0.1:80",
      "COUNTERSIGN_PORT_80_TCP_PROTO": "tcp", "COUNTERSIGN_PORT_80_TCP_PORT": "80",
      "COUNTERSIGN_PORT_80_TCP_ADDR": "10.0.0.1", "COUNTERSIGN_METRICS_SERVICE_HOST": "10.0.0.2",
      "COUNTERSIGN_METRICS_PORT": "tcp://10.0.0.2:80",
    ]
    let inKubernetes = environment.merging(["KUBERNETES_SERVICE_HOST": "10.0.0.3"]) { $1 }
    #expect(problemsLoading(path, environment: inKubernetes) == [])
    #expect(problemsLoading(path, environment: environment).count == environment.count)
    let problems = problemsLoading(path, environment: inKubernetes.merging(["COUNTERSIGN_PORT": "80"]) { $1 })
    #expect(problems == ["COUNTERSIGN_PORT: unknown variable"])
  }

  @Test func `every problem is reported at once`() throws {
    let sample = SampleConfiguration()
      .setting("server.port", "x").setting("server.hots", "a").setting("policy.sandbox", "no")
      .setting("app_store.shared_secret", nil).setting("auth.api_keys", "[{name: a, role: boss, sha256: short}]")
    let problems = sample.problems(environment: ["COUNTERSIGN_LOG_LEVEL": "loud"])
    for part in [
      "server.hots", "server.port in", "policy.sandbox in", "app_store.shared_secret: is missing", "role must be",
      "sha256 must be", "COUNTERSIGN_LOG_LEVEL: ",
    ] {
      #expect(problems.count { $0.contains(part) } == 1, "\(part): \(problems)")
    }
    #expect(problems.count == 7)
  }

  @Test func `a file full of nonsense is cut short`() throws {
    let problems = problemsOf((0..<20_000).map { "k\($0): 1\n" }.joined())
    #expect(problems.count == ConfigurationFindings.limit + 1)
    #expect(problems.last == "configuration: there are more problems than these")
  }

  // MARK: - YAML

  @Test(
    arguments: [
      ("", "countersign.yaml: the configuration file is empty"),
      ("# only a comment\n", "countersign.yaml: the configuration file is empty"),
      ("~", "countersign.yaml: the configuration file is empty"),
      ("just text", "countersign.yaml: the configuration file must be a mapping"),
      ("- a\n- b", "countersign.yaml: the configuration file must be a mapping"),
      ("server:\n\tport: 1", "found character that cannot start any token; is it a tab? YAML is indented by spaces"),
      ("server: {port: 1", "countersign.yaml: line 2, column 1 is not YAML: did not find expected ',' or '}'"),
      ("a: b: c", "countersign.yaml: line 1, column 5 is not YAML: mapping values are not allowed"),
      ("server:\n  port: 1\n  host: a\n  port: 2", "countersign.yaml: line 2: given twice in one mapping: \"port\""),
      ("log: {}\nlog: {}", "countersign.yaml: line 1: given twice in one mapping: \"log\""),
      ("server: {}\n---\nserver: {}", "is not YAML: expected a single document in the stream"),
      ("server: *nothing", "countersign.yaml: line 1, column 9 is not YAML: found undefined alias"),
      ("server: \u{1}", "countersign.yaml: the configuration file is not YAML: control characters are not allowed"),
      ("\0", "countersign.yaml: the configuration file is not YAML"),
      (String(repeating: "[", count: 100_000), "is not YAML"),
      (String(repeating: "- ", count: 100_000), "is not YAML"),
      (String(repeating: "{a: ", count: 50_000), "is not YAML"),
      (String(repeating: "? ", count: 100_000), "is not YAML"),
    ])
  func `a text that is not one YAML mapping is refused with its place`(text: String, problem: String) throws {
    #expect(problemsOf(text).first?.contains(problem) == true, "\(problemsOf(text))")
  }

  @Test func `aliases that multiply are refused before they do`() throws {
    var text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    for level in 1...30 {
      let items = Array(repeating: "*a\(level - 1)", count: 9).joined(separator: ", ")
      text += "a\(level): &a\(level) [\(items)]\n"
    }
    text += "? *a30\n: 1\n? *a30\n: 2\n"
    let problems = problemsOf(text)
    #expect(
      problems.first
        == "countersign.yaml: the configuration file has more than 8 asterisks outside of comment lines, where each may be an alias"
    )
  }

  @Test func `a few aliases are fine`() throws {
    let products = "{a: &pro {tier: pro}, b: *pro, c: *pro}"
    let configuration = try SampleConfiguration().setting("catalog.products", products).load()
    #expect(configuration.rendered("catalog.products") == "a=pro,subscription b=pro,subscription c=pro,subscription")
  }

  @Test func `CRLF, a byte order mark and quotes make no difference`() throws {
    let text = SampleConfiguration().setting("server.port", "'9090'").yaml
    let configuration = try loadYAML("\u{feff}" + text.replacing("\n", with: "\r\n"))
    #expect(configuration.server.port == 9090)
    #expect(configuration.appStore.sharedSecret?.exposed == SampleConfiguration.sharedSecret)
  }

  @Test func `a section with nothing in it keeps its defaults`() throws {
    #expect(try loadYAML(SampleConfiguration().yaml + "server:\nlog: ~\n").server.port == 8080)
  }

  // MARK: - Files

  enum Trap: String, CaseIterable, Sendable {
    case missing, directory, pipe, device, huge, binary, empty, endless, unnamed
  }

  @Test(.timeLimit(.minutes(10)), arguments: Trap.allCases)
  func `a path that is no small text file is refused, and nothing hangs`(trap: Trap) throws {
    let directory = try TemporaryDirectory()
    let (path, reason): (String, String)
    switch trap {
    case .missing: (path, reason) = (directory.path + "/no", "cannot be opened: No such file or directory")
    case .directory: (path, reason) = (directory.path, "is not a regular file")
    case .pipe:
      (path, reason) = (directory.path + "/pipe", "is not a regular file")
      #expect(mkfifo(path, 0o600) == 0)
    case .device: (path, reason) = ("/dev/null", "is not a regular file")
    case .endless: (path, reason) = ("/dev/zero", "is not a regular file")
    case .huge:
      path = try directory.write("huge", Array(repeating: UInt8(ascii: "#"), count: 256 << 10 + 1))
      reason = "is larger than 256 KiB"
    case .binary:
      (path, reason) = (try directory.write("binary", [0xff, 0xfe, 0x00, 0x80]), "is not text in UTF-8")
    case .empty: (path, reason) = (try directory.write("empty", ""), "is empty")
    case .unnamed: (path, reason) = ("", "is not a path")
    }
    #expect(problemsLoading(path).count == 1)
    let name = path.isEmpty ? "COUNTERSIGN_CONFIG" : path
    #expect(problemsLoading(path).first == "\(name): the configuration file \(reason)")
    #expect(
      problemsLoading(nil, environment: ["COUNTERSIGN_CONFIG": path]).first
        == "\(name): the configuration file \(reason)")
  }

  @Test func `a file of exactly the limit is read`() throws {
    let directory = try TemporaryDirectory()
    let text = SampleConfiguration().yaml
    let padding = String(repeating: "#", count: ConfigurationFile.sizeLimit - text.utf8.count)
    #expect(problemsLoading(try directory.write("full", text + padding)) == [])
  }

  @Test func `the argument wins over the variable, and links are followed`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("a.yaml", SampleConfiguration().setting("server.port", "1").yaml)
    let other = try directory.write("b.yaml", SampleConfiguration().setting("server.port", "2").yaml)
    let link = directory.path + "/..data"
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
    let environment = ["COUNTERSIGN_CONFIG": other]
    #expect(try ServiceConfiguration.load(file: link, environment: environment).server.port == 1)
    #expect(try ServiceConfiguration.load(file: nil, environment: environment).server.port == 2)
  }
}

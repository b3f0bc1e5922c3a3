import ArgumentParser
import Entitlements
import Foundation
import HTTPTransport
import Profiles
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// `countersign init`: from a bundle ID to a service that answers.
@Suite struct InitTests {
  private static let key = String(repeating: "ab", count: 32)
  private static let acme = ["--bundle-id", "com.acme.bikes", "--product", "com.acme.bikes.pro=pro"]

  /// - Parameter typed: the answers on the terminal; `nil`: there is none.
  private func plan(
    _ arguments: [String], in directory: String = ".", typed: [String]? = nil
  ) throws(CommandUsage) -> InitPlan {
    var answers = typed ?? []
    let given: InitAnswers
    do { given = try InitAnswers.parse(arguments) } catch { throw CommandUsage(description: "\(error)") }
    return try InitPlan(
      given, directory: directory, config: nil, key: Self.key,
      ask: typed == nil ? nil : { _, _ in answers.isEmpty ? nil : answers.removeFirst() })
  }

  private func usage(_ arguments: [String], typed: [String]? = nil) -> String {
    do throws(CommandUsage) { _ = try plan(arguments, typed: typed) } catch { return error.description }
    return "nothing is wrong"
  }

  private func secretFile(_ directory: TemporaryDirectory, _ text: String = "0123456789abcdef") throws -> String {
    try directory.write("secret", text)
  }

  // MARK: - The text

  @Test func `the file is short, and says no more than was asked`() throws {
    let directory = try TemporaryDirectory()
    let secret = try secretFile(directory)
    let plan = try plan(Self.acme + ["--shared-secret-file", secret])
    let lines = plan.text.split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("#") }
    #expect(
      lines == [
        "app_store:", "  bundle_ids: [com.acme.bikes]", "  shared_secret_file: \(FirstConfiguration.scalar(secret))",
        "catalog:", "  tiers: [free, pro]", "  products:", "    com.acme.bikes.pro: { tier: pro }",
        "ledger: { path: countersign.sqlite }", "auth:",
        "  api_keys: [{ name: backend, role: service, sha256: \(FirstConfiguration.scalar(APIKeyring.sha256(Self.key))) }]",
      ], "\(plan.text)")
    #expect(plan.path == "countersign.yaml" && plan.secrets.isEmpty)
    #expect(!plan.text.contains(Self.key) && !plan.text.contains("0123456789abcdef\n"))
    let configuration = try loadYAML(plan.text)
    #expect(configuration.auth.apiKeys.map(\.name) == ["backend"] && configuration.warnings.isEmpty)
    let closing = plan.closing(key: Self.key)
    #expect(closing.contains("export COUNTERSIGN_API_KEY=\(Self.key)\n"))
    for next in ["doctor --config", "serve --config", "curl -sS http://127.0.0.1:8080/v1/validations"] {
      #expect(closing.contains(next))
    }
  }

  @Test func `a Supabase project gives the users' keys and the table with its version`() throws {
    let directory = try TemporaryDirectory()
    let secret = try secretFile(directory)
    let plan = try plan(
      Self.acme + [
        "--shared-secret-file", secret, "--supabase", "https://abc.supabase.co/", "--profile-store-key-file", secret,
      ])
    let configuration = try loadYAML(plan.text)
    let jwt = try #require(configuration.auth.jwt)
    #expect(jwt.keySetURL == "https://abc.supabase.co/auth/v1/.well-known/jwks.json")
    #expect(jwt.issuer == "https://abc.supabase.co/auth/v1" && jwt.audience == "authenticated")
    let store = try #require(configuration.profileStore)
    #expect(store.postgREST.url == "https://abc.supabase.co/rest/v1" && store.hasVersions)
    #expect(configuration.warnings.isEmpty, "\(configuration.warnings)")
  }

  @Test func `a key that signs offers is beside that of the Server API`() throws {
    let directory = try TemporaryDirectory()
    let key = try directory.write("offer-key.p8", Settings.signingKeyOfTests)
    let (issuer, other) = ("57246542-96fe-1a63-e053-0824d011072a", "69a6de70-03db-47e3-e053-5b8c7c11a4d1")
    let api = ["--server-api-key-file", key, "--server-api-key-id", "ABC123DEFG", "--server-api-issuer-id", issuer]
    let offers = ["--offer-key-file", key, "--offer-key-id", "2X9R4HXF34"]
    let shared = try loadYAML(try plan(Self.acme + api + offers).text)
    #expect(shared.appStore.offers?.keyID == "2X9R4HXF34" && shared.appStore.offers?.issuerID == issuer)
    let secret = ["--shared-secret-file", try secretFile(directory)]
    let alone = try plan(Self.acme + secret + offers + ["--offer-issuer-id", other])
    #expect(try loadYAML(alone.text).appStore.offers?.issuerID == other)
    #expect(usage(Self.acme + secret + offers).contains("--offer-issuer-id go together"))
    #expect(usage(Self.acme + api + ["--offer-key-id", "2X9R4HXF34"]).contains("--offer-key-file, --offer-key-id"))
    let broken = try directory.write("broken.p8", "no key")
    let misread = usage(Self.acme + api + ["--offer-key-file", broken, "--offer-key-id", "2X9R4HXF34"])
    #expect(misread.contains("nothing is written") && misread.contains("--offer-key-file: "), "\(misread)")
  }

  @Test func `the plan takes another PostgREST, several products and the tiers that are named`() throws {
    let directory = try TemporaryDirectory()
    let secret = try secretFile(directory)
    let plan = try plan([
      "--bundle-id", "com.acme.bikes", "--bundle-id", "com.acme.lite", "--product", "a=gold", "--product", "b-c=on",
      "--tiers", "none, on,gold", "--shared-secret-file", secret, "--profile-store", "http://127.0.0.1:3000",
      "--profile-store-key-file", secret,
    ])
    let configuration = try loadYAML(plan.text)
    #expect(configuration.appStore.bundleIDs.count == 2)
    #expect(configuration.catalog.tiers.map(\.rawValue) == ["none", "on", "gold"])
    #expect(configuration.catalog.products["b-c"]?.tier == "on")
    #expect(configuration.auth.jwt == nil && configuration.profileStore?.hasVersions == false)
  }

  @Test(arguments: [
    ("com.acme.pro", "com.acme.pro"), ("https://a.supabase.co/rest/v1", "https://a.supabase.co/rest/v1"),
    ("/etc/countersign/secret", "/etc/countersign/secret"), ("null", #""null""#), ("12", #""12""#), ("", #""""#),
    ("a: b", #""a: b""#), (#"a"\"#, #""a\"\\""#), ("on", #""on""#), ("http:", #""http:""#),
  ])
  func `a text stays a text in YAML`(text: String, scalar: String) {
    #expect(FirstConfiguration.scalar(text) == scalar)
  }

  @Test(arguments: [([], "free, pro, basic"), (["--tiers", "free,basic,pro"], "free, basic, pro")])
  func `the order of the tiers is told`(arguments: [String], order: String) throws {
    let directory = try TemporaryDirectory()
    let products = ["--bundle-id", "com.acme.bikes", "--product", "a.b=pro", "--product", "c.d=basic"]
    let plan = try plan(products + ["--shared-secret-file", try secretFile(directory)] + arguments)
    #expect(plan.text.contains("tiers: [\(order)]"))
    #expect(plan.closing(key: Self.key).contains("\nTiers, lowest first: \(order).\n"))
  }

  // MARK: - Questions and errors

  @Test func `on a terminal it asks for what is missing`() throws {
    let plan = try plan(
      [], in: "/srv/acme",
      typed: [" com.acme.bikes ", "com.acme.bikes.pro=pro", "com.acme.bikes.max = max", "", "s3cret", ""])
    #expect(plan.text.contains("tiers: [free, pro, max]") && plan.text.contains("com.acme.bikes.max: { tier: max }"))
    #expect(plan.text.contains("shared_secret_file: /srv/acme/shared-secret") && !plan.text.contains("s3cret"))
    #expect(plan.secrets.map(\.path) == ["/srv/acme/shared-secret"] && plan.secrets.map(\.secret) == ["s3cret"])
    #expect(plan.path == "/srv/acme/countersign.yaml")
  }

  @Test func `without a terminal what is missing is named`() throws {
    let noTerminal = ", and there is no terminal to ask on."
    #expect(usage([]) == "--bundle-id is missing" + noTerminal)
    #expect(usage(["--bundle-id", "com.acme"]) == "--product is missing" + noTerminal)
    #expect(
      usage(Self.acme)
        == "--shared-secret-file is missing, or --server-api-key-file for an app of StoreKit 2 alone" + noTerminal)
    #expect(
      usage(Self.acme + ["--shared-secret-file", "s", "--supabase", "https://abc.supabase.co"])
        == "--profile-store-key-file is missing" + noTerminal)
    #expect(usage([], typed: [""]) == "--bundle-id is missing; nothing is written.")
  }

  @Test(arguments: [
    (["--product", "pro"], "is not ID=TIER"), (["--product", "=pro"], "is not ID=TIER"),
    (["--tiers", "free"], "--product: "), (["--tiers", "pro,free"], "is the lowest tier"),
    (["--tiers", ""], "--tiers: "),
    (["--bundle-id", "com.acme.*"], "is not a bundle ID"), (["--supabase", "abc"], "--supabase has to be the URL"),
    (["--supabase", "https://a.co", "--profile-store", "https://b.co"], "leave --profile-store out"),
    (["--profile-store-key-file", "x"], "needs --supabase or --profile-store"),
    (["--server-api-key-id", "2X9R4HXF34"], "go together"),
    (["--shared-secret-file", "/no/such/file"], "nothing is written: --shared-secret-file: the file that it names"),
  ])
  func `a wrong answer is a sentence, and nothing is written`(arguments: [String], sentence: String) throws {
    let directory = try TemporaryDirectory()
    let secret =
      arguments.contains("--shared-secret-file") ? [] : ["--shared-secret-file", try secretFile(directory)]
    let product = arguments.contains("--product") ? [] : ["--product", "com.acme.bikes.pro=pro"]
    let text = usage(["--bundle-id", "com.acme.bikes"] + product + secret + arguments)
    #expect(text.contains(sentence), "\(text)")
  }

  @Test(arguments: ["sb_publishable_0123", "eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoiYW5vbiJ9.c2lnbmF0dXJl"])
  func `the key of the app's users is no key of the profile store`(key: String) throws {
    let directory = try TemporaryDirectory()
    let supabase = ["--shared-secret-file", try secretFile(directory), "--supabase", "https://abc.supabase.co"]
    let file = try directory.write("key", key)
    #expect(usage(Self.acme + supabase + ["--profile-store-key-file", file]).contains("a secret key (sb_secret_…)"))
    #expect(usage(Self.acme + supabase, typed: [key]).contains("a secret key (sb_secret_…)"))
  }

  // MARK: - Files

  @Test func `files are their owner's alone, and what exists stays as it is`() async throws {
    let directory = try TemporaryDirectory()
    let place = directory.path + "/new/app"
    let plan = try plan(Self.acme, in: place, typed: ["0123456789abcdef"])
    try plan.write()
    for (name, text) in [("countersign.yaml", plan.text), ("shared-secret", "0123456789abcdef\n")] {
      let path = place + "/" + name
      #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
      #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: place).count == 2)

    let again = try await ChildProcess.run(
      ServiceProcess.program("countersign"),
      ["init"] + Self.acme + ["--shared-secret-file", place + "/shared-secret", "--directory", place],
      environment: ServiceProcess.environment)
    #expect(again.code == 1 && again.output.isEmpty)
    #expect(again.error.contains("exists and stays as it is"))
    #expect(try String(contentsOfFile: place + "/countersign.yaml", encoding: .utf8) == plan.text)
  }

  // MARK: - All of it

  @Test func `a service with the file it made takes a receipt, and doctor finds nothing to fix`() async throws {
    try await SimulatedStore.run(at: Date()) { store in
      let directory = try TemporaryDirectory()
      let place = directory.path + "/acme"
      let program = try ServiceProcess.program("countersign")
      let made = try await ChildProcess.run(
        program,
        [
          "init", "--bundle-id", "com.example.app", "--product", "com.example.app.pro.monthly=pro",
          "--shared-secret-file", try secretFile(directory, SimulatedStore.sharedSecret), "--directory", place,
        ], environment: ServiceProcess.environment)
      #expect(made.code == 0, "\(made.error)")
      let key = try #require(made.output.firstMatch(of: /COUNTERSIGN_API_KEY=([0-9a-f]{64})\n/)?.1)

      let simulator = [
        "COUNTERSIGN_APP_STORE_PRODUCTION_URL": store.apple.productionURL,
        "COUNTERSIGN_APP_STORE_SANDBOX_URL": store.apple.sandboxURL,
        "COUNTERSIGN_APP_STORE_CA_FILE": store.apple.caFile, "COUNTERSIGN_APP_STORE_ROOTS": store.apple.caFile,
        "COUNTERSIGN_SERVER_PORT": "0",
      ]
      let file = place + "/countersign.yaml"
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let receiptFile = try directory.write("receipt.b64", receipt)
      let doctor = try await ChildProcess.run(
        program, ["doctor", "--config", file, "--receipt", receiptFile],
        environment: ServiceProcess.environment.merging(simulator) { $1 })
      #expect(doctor.code == 0, "\(doctor.output)")
      for place in [AppStoreConnect.serverAPIKey, AppStoreConnect.notifications] {
        #expect(doctor.output.contains(place))
      }

      let service = try await ServiceProcess.start(configuration: URL(filePath: file), environment: simulator)
      let body = #"{"receipt_data":"\#(receipt)","user_id":"user-1"}"#
      let answer = try await service.send(.post, "/v1/validations", body: body, key: String(key))
      #expect(answer.status == 200 && answer["tier"] == "pro", "\(answer)")
      #expect(await service.stop().code == 0)
    }
  }
}

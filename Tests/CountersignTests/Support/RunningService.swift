import Crypto
import Foundation
import HTTPTransport
import Ledger
import LedgerFixtures
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing

@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// The whole service as `countersign serve` runs it, on an ephemeral port, with a ledger in a temporary directory.
struct RunningService: Sendable {
  static let serviceKey = "service-key-for-tests"
  static let supportKey = "support-key-for-tests"
  /// Of both roles.
  static let ownerKey = "owner-key-for-tests"
  /// The key that copies of com.example.app carry.
  static let publicKey = "appl_forTestsOnly"

  let origin: String
  let port: Int
  let directory: URL
  let log: CapturedLog
  let ledger: Ledger
  let client: CurlTransport
  /// The operators' own, where `settings.server` has `admin`.
  var adminPort: Int?
  /// Every path with every method that it answers to.
  let routes: [ServiceRoute]

  /// Builds a service, runs it during `body`, and shuts it down in order.
  ///
  /// - Parameters:
  ///   - apple: where production and sandbox are played, and the CA to trust for it.
  ///   - settings: lines of YAML by section, in place of the defaults below.
  ///   - asksForMissed: whether Apple is asked for missed notifications at the start; it counts as calls.
  ///   - bodyPatience: how long nothing of a body may come.
  ///   - clock: in place of one whose time and uptime both go as `now` says.
  static func run<Result: Sendable>(
    apple: Apple, settings: Settings = Settings(), directory given: URL? = nil,
    jobPause: Duration = .milliseconds(20),
    now: @escaping @Sendable () -> Date = { noon },
    clock: ServiceClock? = nil,
    bodyPatience: TimeAmount = BodyPace.usualPatience, asksForMissed: Bool = false,
    body: @Sendable (RunningService) async throws -> Result
  ) async throws -> Result {
    let directory = given ?? FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { if given == nil { try? FileManager.default.removeItem(at: directory) } }
    let file = directory.appending(path: "countersign.yaml")
    try settings.writeSecrets(in: directory)
    // The same database for the same directory, as for a file in it.
    let ledger =
      TestEngine.isPostgreSQL
      ? try await "url: \"\(TestEngine.url(ofDirectory: directory.lastPathComponent))\"\n  pool: 4"
      : nil
    try settings.yaml(apple: apple, directory: directory, ledger: ledger)
      .write(to: file, atomically: true, encoding: .utf8)
    let configuration = try ServiceConfiguration.load(file: file.path(percentEncoded: false), environment: [:])

    let log = CapturedLog()
    let (addresses, listening) = AsyncStream<Int>.makeStream()
    let (adminAddresses, adminListening) = AsyncStream<Int>.makeStream()
    let service = try await buildApplication(
      configuration,
      environment: ServiceEnvironment(
        logger: log.logger, clock: clock ?? .moved(by: now), ledgerFailed: { log.note("ledger failed: \($0)") },
        jobPause: jobPause,
        onListening: { listening.yield($0.port ?? 0) },
        onAdminListening: { adminListening.yield($0.port ?? 0) },
        bodyPatience: bodyPatience, asksForMissed: asksForMissed,
        // Each look is a look of its own.
        readinessLifetime: .zero,
        certificatePause: .milliseconds(20)))
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(services: [service], logger: log.logger))
    var transport = CurlTransport.Configuration()
    transport.allowedSchemes = [.http]
    transport.maxInFlight = 256
    transport.maxQueued = 10_000
    let client = try CurlTransport(configuration: transport)
    defer { client.shutdown() }

    return try await withThrowingTaskGroup(of: Result?.self) { tasks in
      tasks.addTask {
        defer {
          listening.finish()
          adminListening.finish()
        }
        try await group.run()
        return nil
      }
      var iterator = addresses.makeAsyncIterator()
      guard let port = await iterator.next() else {
        _ = try await tasks.next()
        throw Failure("the service did not listen")
      }
      var running = RunningService(
        origin: "http://127.0.0.1:\(port)", port: port, directory: directory, log: log,
        ledger: service.ledger, client: client, routes: service.routes)
      if configuration.server.admin != nil {
        var iterator = adminAddresses.makeAsyncIterator()
        running.adminPort = await iterator.next()
      }
      do {
        let result = try await body(running)
        await group.triggerGracefulShutdown()
        try await tasks.waitForAll()
        return result
      } catch {
        await group.triggerGracefulShutdown()
        try? await tasks.waitForAll()
        throw error
      }
    }
  }

  struct Failure: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
  }
}

extension RunningService: CustomTestStringConvertible {
  /// A failed expectation prints this, and not all that the service holds.
  var testDescription: String { origin }
}

extension ServiceClock {
  /// A clock whose time and uptime both go as a test says: it jumps where the test lets time pass.
  ///
  /// It has nanoseconds, as a machine's clock has.
  static func moved(by now: @escaping @Sendable () -> Date) -> ServiceClock {
    let start = now()
    let clock = ServiceClock(wall: { now().withNanoseconds }, uptime: { .seconds(now().timeIntervalSince(start)) })
    // Apple's is the same.
    _ = clock.observe(clock.now)
    return clock
  }
}

/// Under a name that the simulator does not have as well.
typealias ServiceStartError = StartError

/// Where Apple is played.
struct Apple: Sendable {
  var productionURL: String
  var sandboxURL: String
  var caFile: String
  /// Extra roots for receipts; Apple's when empty.
  var roots: [String] = []
  /// `nil`: none is configured.
  var sharedSecret: String? = "a-shared-secret"
  /// `nil`: none is configured.
  var serverAPI: ServerAPI?

  /// Where the App Store Server API is played.
  struct ServerAPI: Sendable {
    var productionURL: String
    var sandboxURL: String
    /// In PEM.
    var key: String
    var keyID: String
    var issuerID: String

    /// `app_store.server_api`, on one line.
    var yaml: String {
      let key = key.replacing("\n", with: "\\n")
      return #"{ key: "\#(key)", key_id: \#(keyID), issuer_id: \#(issuerID), production_url: "\#(productionURL)", "#
        + #"sandbox_url: "\#(sandboxURL)" }"#
    }
  }
}

/// The configuration of a service under test, in the words of the YAML file.
struct Settings: Sendable {
  var server: [String: String] = [:]
  var appStore: [String: String] = [:]
  var policy: [String: String] = [:]
  var revalidation: [String: String] = [:]
  var events: [String: String] = [:]
  /// Further keys of `ledger`.
  var ledger: [String: String] = [:]
  var retention: [String: String] = [:]
  var figures: [String: String] = [:]
  /// `auth.jwt`; users cannot call when empty.
  var jwt: [String: String] = [:]
  /// None is configured when empty.
  var profileStore: [String: String] = [:]
  /// A file of `samples/catalogs` in the place of tiers, products and the rest.
  var sampleCatalog: String?
  /// `dialects`.
  var dialects: [String] = []
  /// `auth.signing_key`, where users can call.
  var signingKey: String? = Settings.signingKeyOfTests
  /// More of `auth`, by key.
  var signing: [String: String] = [:]
  /// `auth.public_keys`, an item each; `nil`: one of com.example.app, where that is served.
  var publicKeys: [String]?
  var trials = ["week": "{ tier: pro, length: 7d }"]
  var deviceCheck: [String: String] = [:]
  /// The secrets of RevenueCat's webhooks, by key: each is in a file of its own. They are not taken when empty.
  var revenueCat: [String: [String]] = [:]
  /// Receivers of events, the members of an item each; their secrets are in files that each of them gets.
  var webhooks: [String] = []
  /// `notifications.forward`, the members of an item each.
  var forwards: [String] = []
  var webhookSecrets: [String] = []
  var bundleIDs = ["com.example.app"]
  var tiers = ["free", "pro", "premium"]
  /// Further keys of `catalog`.
  var catalog: [String: String] = ["features": features]
  var products: [String: String] = [
    "com.example.app.pro.monthly": "{ tier: pro }",
    "com.example.app.pro.yearly": "{ tier: pro }",
    "com.example.app.premium.monthly": "{ tier: premium }",
    "com.example.app.premium.yearly": "{ tier: premium }",
    "com.example.app.premium.lifetime": "{ tier: premium, kind: lifetime }",
    "com.example.app.forever": "{ tier: premium, kind: lifetime }",
    "com.example.app.pro.season": "{ tier: pro, kind: non_renewing, period: P1M }",
  ]

  static let signingKeyOfTests = P256.Signing.PrivateKey().pemRepresentation

  /// One feature of each kind.
  static let features =
    "{ filters: { pro: true }, children: { kind: limit, free: 2, pro: 99 }, "
    + "questions: { kind: meter, free: 2 per day, pro: unlimited } }"

  private func secretFile(_ key: String, _ index: Int, in directory: URL) -> URL {
    directory.appending(path: "\(key)-\(index)")
  }

  func writeSecrets(in directory: URL) throws {
    for (key, secrets) in revenueCat {
      for (index, secret) in secrets.enumerated() {
        try secret.write(to: secretFile(key, index, in: directory), atomically: true, encoding: .utf8)
      }
    }
    for (index, secret) in webhookSecrets.enumerated() {
      try secret.write(to: secretFile("webhook", index, in: directory), atomically: true, encoding: .utf8)
    }
  }

  /// - Parameter ledger: where it is; in the directory, if not said.
  func yaml(apple: Apple, directory: URL, ledger: String? = nil) -> String {
    let place = ledger ?? "path: \"\(directory.appending(path: "ledger.sqlite").path(percentEncoded: false))\""
    func lines(_ values: [String: String]) -> String {
      values.sorted { $0.key < $1.key }.map { "  \($0.key): \($0.value)\n" }.joined()
    }
    var appStore = appStore
    appStore["bundle_ids"] = "[\(bundleIDs.map { "\"\($0)\"" }.joined(separator: ", "))]"
    if let sharedSecret = apple.sharedSecret { appStore["shared_secret"] = "\"\(sharedSecret)\"" }
    if let serverAPI = apple.serverAPI { appStore["server_api"] = serverAPI.yaml }
    appStore["production_url"] = "\"\(apple.productionURL)\""
    appStore["sandbox_url"] = "\"\(apple.sandboxURL)\""
    appStore["ca_file"] = "\"\(apple.caFile)\""
    if !apple.roots.isEmpty { appStore["roots"] = "[\(apple.roots.map { "\"\($0)\"" }.joined(separator: ", "))]" }
    // On a busy machine a test may come to its next line a minute later, and Apple's answer as late: no connection is closed and
    // no call is given up meanwhile, unless that is what the test is about.
    if server["request_deadline"] == nil, appStore["deadline"] == nil { appStore["deadline"] = "30s" }
    let server = ["port": "0", "idle_timeout": "10m", "request_deadline": "10m"].merging(server) { $1 }
    // Each test says what it wants of these: by itself every post asks Apple, and nothing counts before Apple was asked.
    let policy = ["outage_hold": "7d", "reuse": "0", "provisional": "0"].merging(policy) { $1 }
    let products = products.sorted { $0.key < $1.key }.map { "    \"\($0.key)\": \($0.value)\n" }.joined()
    let catalog =
      sampleCatalog.flatMap { name in
        try? String(contentsOf: SamplesTests.folder.appending(path: "catalogs/\(name)"), encoding: .utf8)
      } ?? "catalog:\n  tiers: [\(tiers.joined(separator: ", "))]\n\(lines(catalog))  products:\n\(products)"
    let optional = [
      ("revalidation", revalidation), ("events", events), ("retention", retention), ("figures", figures),
      ("profile_store", profileStore),
      ("trials", trials),
      ("device_check", deviceCheck),
      (
        "revenuecat",
        Dictionary(
          uniqueKeysWithValues: revenueCat.map { key, secrets in
            let paths = secrets.indices.map { secretFile(key, $0, in: directory).path(percentEncoded: false) }
            return (key, "[\(paths.joined(separator: ", "))]")
          })
      ),
    ].filter { !$0.1.isEmpty }.map { "\($0.0):\n\(lines($0.1))" }.joined()
    let ofExample = "{ name: app, key: \(RunningService.publicKey), bundle_id: com.example.app }"
    let publicKeys = publicKeys ?? (bundleIDs.contains("com.example.app") ? [ofExample] : [])
    let keys =
      publicKeys.isEmpty ? "" : "  public_keys:\n" + publicKeys.map { "    - \($0)\n" }.joined()
    let secretPaths = webhookSecrets.indices.map {
      secretFile("webhook", $0, in: directory).path(percentEncoded: false)
    }
    let webhooks =
      webhooks.isEmpty
      ? ""
      : "webhooks:\n"
        + webhooks.map { "  - { \($0), secret_file: [\(secretPaths.joined(separator: ", "))] }\n" }.joined()
    let forwards =
      forwards.isEmpty
      ? "" : "notifications:\n  forward:\n" + forwards.map { "    - { \($0) }\n" }.joined()
    let dialects = dialects.isEmpty ? "" : "dialects: [\(dialects.joined(separator: ", "))]\n"
    let jwt =
      jwt.isEmpty
      ? "" : "  jwt:\n" + jwt.sorted { $0.key < $1.key }.map { "    \($0.key): \($0.value)\n" }.joined()
    let escapedKey = signingKey.map { "\"\($0.replacing("\n", with: "\\n"))\"" }
    let signing = jwt.isEmpty ? [:] : signing.merging(escapedKey.map { ["signing_key": $0] } ?? [:]) { $1 }
    return """
      server:
      \(lines(server))app_store:
      \(lines(appStore))\(catalog)
      policy:
      \(lines(policy))ledger:
        \(place)
      \(lines(self.ledger))auth:
        api_keys:
          - { name: backend, role: service, sha256: \(Self.sha256(RunningService.serviceKey)) }
          - { name: desk, role: support, sha256: \(Self.sha256(RunningService.supportKey)) }
          - { name: owner, roles: [service, support], sha256: \(Self.sha256(RunningService.ownerKey)) }
      \(keys)\(jwt)\(lines(signing))log: { level: trace }
      \(dialects)\(webhooks)\(forwards)\(optional)
      """
  }
}

/// The lines a service logged.
final class CapturedLog: Sendable {
  private let state = Mutex<[String]>([])

  var lines: [String] { state.withLock { $0 } }
  var text: String { lines.joined() }

  func note(_ line: String) { state.withLock { $0.append(line + "\n") } }

  var logger: Logger {
    let output = LogOutput { [self] line in state.withLock { $0.append(String(decoding: line, as: UTF8.self)) } }
    return Logger(label: "countersign") { label in
      LineLogHandler(label: label, logLevel: .trace, format: .json, output: output)
    }
  }
}

import ArgumentParser
import CountersignAPI
import CountersignServer
import FoundationEssentials
import HTTPTransport
import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

/// `countersign demo`
struct Demo: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Show the service at work against a simulated App Store.",
    discussion: """
      Starts app-store-simulator and the service on free ports of the loopback, posts one receipt per scenario, \
      re-validates a subscription a month later by its original transaction ID, lets a user reach a limit and begin a \
      trial, and leaves nothing running and nothing on the disk. Needs app-store-simulator beside this program.

      EXAMPLES
        countersign demo
        countersign demo --json
      """)

  @Option(name: .long, help: "The app-store-simulator to start; the one beside this program by default.")
  var simulator: String?

  @Flag(name: .long, help: "Print one line of JSON per scenario.")
  var json = false

  func run() async throws {
    // Taken before there is anything to clean up. Whichever comes, the demonstration is cancelled and tidies up.
    let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
    do {
      try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask {
          for await _ in signals { throw DemoInterrupted() }
        }
        tasks.addTask { try await demonstrate() }
        defer { tasks.cancelAll() }
        try await tasks.next()
      }
    } catch is DemoInterrupted {
      throw CommandOutput.failure("interrupted", .interrupted)
    } catch let failure as DemoFailure {
      throw CommandOutput.failure(failure.description)
    } catch let failure as TransportError {
      throw CommandOutput.failure("The demonstration lost a connection: \(failure).")
    }
  }

  private func demonstrate() async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "countersign-demo-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }

    let store = try await SimulatorProcess.start(program: simulator, directory: directory)
    defer { store.stop() }
    let key = RequestID.random()
    let file = directory.appending(path: "countersign.yaml")
    try Self.configurationText(store, key, directory).write(to: file, atomically: true, encoding: .utf8)

    let (addresses, listening) = AsyncStream<Int>.makeStream()
    let logger = Logger(label: "countersign") { _ in SwiftLogNoOpLogHandler() }
    let service = try await buildApplication(
      try ServiceConfiguration.load(file: file.path(percentEncoded: false), environment: [:]),
      environment: ServiceEnvironment(
        logger: logger, ledgerFailed: { _ in }, onListening: { listening.yield($0.port ?? 0) }))
    let group = ServiceGroup(configuration: ServiceGroupConfiguration(services: [service], logger: logger))
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask {
        defer { listening.finish() }
        try await group.run()
      }
      for await port in addresses {
        let client = try DemoClient(service: "http://127.0.0.1:\(port)", key: key, store: store)
        defer { client.close() }
        try await showStory(client)
        break
      }
      await group.triggerGracefulShutdown()
      try await tasks.waitForAll()
    }
  }

  /// The story: every scenario once, then one subscriber a month later.
  private func showStory(_ client: DemoClient) async throws {
    var table = DemoTable(json: json)
    let scenarios = try await client.scenarios()
    for (number, scenario) in scenarios.enumerated() {
      let receipt = try await client.issue(scenario: scenario, subscriber: number + 1)
      table.add(scenario, try await client.validate(.init(receiptData: receipt.data, userID: "user-\(number + 1)")))
    }
    table.print()

    let subscriber = scenarios.count + 1
    let user = "user-\(subscriber)"
    let receipt = try await client.issue(scenario: "subscriber", subscriber: subscriber)
    var story = DemoTable(json: json)
    story.add("bought today", try await client.validate(.init(receiptData: receipt.data, userID: user)))
    guard let id = receipt.originalTransactionIDs.first else {
      throw DemoFailure("The simulator named no transaction.")
    }
    try await client.advanceClock(by: "31d")
    story.add("31 days later, by ID", try await client.validate(.init(originalTransactionID: id, userID: user)))
    if !json { Swift.print("\nOne subscriber, re-validated by original transaction ID \(id):\n") }
    story.print()

    if !json {
      Swift.print("\nA user without a purchase, who may ask two questions a day; of the tier pro, any number:\n")
    }
    try await showLimits(client)
  }

  /// A limit is reached, a trial lifts it, and there is no second trial on the same device.
  private func showLimits(_ client: DemoClient) async throws {
    var table = DemoTable(json: json, columns: ["step", "http", "tier", "left", "until", "what"])
    let (user, device) = ("user-without-purchase", UUID().uuidString.lowercased())
    for number in 1...3 { table.add("question \(number)", try await client.consume("questions", of: user)) }
    table.add("a trial begins", try await client.startTrial(of: user, on: device))
    table.add("question 3, again", try await client.consume("questions", of: user))
    table.add("the trial, after a reinstall", try await client.startTrial(of: user, on: device))
    table.add("another account, same device", try await client.startTrial(of: "user-of-same-device", on: device))
    table.print()
  }
}

/// A person, or the system, wants the demonstration to end.
private struct DemoInterrupted: Error {}

/// The reason why the demonstration ended early: a sentence.
struct DemoFailure: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

extension Demo {
  /// A month passes in a moment here, so that no answer of a moment ago may be used again.
  private static func configurationText(_ store: SimulatorProcess, _ key: String, _ directory: URL) -> String {
    """
    server: { port: 0 }
    app_store:
      bundle_ids: [com.example.app]
      shared_secret: \(SimulatorProcess.sharedSecret)
      production_url: \(store.productionURL)
      sandbox_url: \(store.sandboxURL)
      ca_file: \(store.rootFile)
      roots: [\(store.rootFile)]
    catalog:
      tiers: [free, pro, premium]
      products:
        com.example.app.pro.monthly: { tier: pro }
        com.example.app.pro.yearly: { tier: pro }
        com.example.app.premium.monthly: { tier: premium }
        com.example.app.premium.yearly: { tier: premium }
        com.example.app.forever: { tier: premium, kind: lifetime }
        com.example.app.pro.season: { tier: pro, kind: non_renewing, period: P1M }
      features:
        questions: { kind: meter, free: 2 per day, pro: unlimited }
    trials:
      week: { tier: pro, length: 7d }
    policy: { reuse: 0 }
    ledger: { path: \(directory.appending(path: "ledger.sqlite").path(percentEncoded: false)) }
    auth: { api_keys: [ { name: demo, role: service, sha256: \(APIKeyring.sha256(key)) } ] }

    """
  }
}

/// Answers, one line each.
struct DemoTable {
  private let json: Bool
  private let columns: [String]
  private var rows: [(name: String, answer: DemoAnswer)] = []

  init(json: Bool, columns: [String] = ["scenario", "http", "tier", "status", "access until", "reason"]) {
    self.json = json
    self.columns = columns
  }

  mutating func add(_ name: String, _ answer: DemoAnswer) { rows.append((name, answer)) }

  func print() {
    if json {
      // The service ends each answer with a newline.
      for row in rows { Swift.print(row.answer.json, terminator: "") }
      return
    }
    Swift.print(TextTable.text([columns] + rows.map { [$0.name, String($0.answer.status)] + $0.answer.cells }))
  }
}

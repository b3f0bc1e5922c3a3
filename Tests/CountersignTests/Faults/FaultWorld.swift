import Foundation
import Synchronization
import TestSupport

@testable import AppStoreSimulator
@testable import Countersign

/// All that a service under fault needs: Apple played, customers with receipts, a directory, a configuration.
struct FaultWorld: Sendable {
  var store: SimulatedStore
  var customers: [Customer]
  var directory: URL
  var settings: Settings
  /// Where profiles are written to; nil for nowhere.
  var profiles: ProfileStoreDouble?
  /// Whether the table has a column for the version, by which the store itself refuses what is older.
  var hasVersionColumn = true

  /// A user with one receipt of one subscription.
  struct Customer: Sendable {
    var user: String
    var receipt: String
    var scenario: Scenario
  }

  /// One subscription each, so that a user's evidence can only grow newer; with the months going by they renew and end.
  private static let scenarios: [Scenario] = [.renewing, .renewalOff, .trial, .subscriber, .lifetime]

  var simulator: RunningSimulator { store.simulator }
  var ledgerPath: String { directory.appending(path: "ledger.sqlite").path(percentEncoded: false) }
  var configuration: URL { directory.appending(path: "countersign.yaml") }

  /// - Parameters:
  ///   - clock: where Apple's clock stands.
  ///   - certifiedSince: for a service whose own clock is behind.
  static func run<Result: Sendable>(
    customers count: Int, at clock: Date = Date(), certifiedSince: Date? = nil, settings: Settings = Settings(),
    withProfiles: Bool = true, hasVersionColumn: Bool = true, body: @Sendable (FaultWorld) async throws -> Result
  ) async throws -> Result {
    let directory = try TemporaryDirectory()
    // Whole seconds: answers tell no less.
    let clock = Date(timeIntervalSince1970: clock.timeIntervalSince1970.rounded(.down))
    return try await SimulatedStore.run(at: clock, certifiedSince: certifiedSince) { store in
      let customers = try (0..<count).map { number in
        let scenario = scenarios[number % scenarios.count]
        return Customer(
          user: String(format: "00000000-0000-4000-8000-%012d", number + 1),
          receipt: try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData,
          scenario: scenario)
      }
      let profiles = withProfiles ? try await ProfileStoreDouble.start() : nil
      let world = FaultWorld(
        store: store, customers: customers, directory: directory.url, settings: settings, profiles: profiles,
        hasVersionColumn: hasVersionColumn)
      try world.configure()
      do {
        let result = try await body(world)
        await profiles?.stop()
        return result
      } catch {
        await profiles?.stop()
        throw error
      }
    }
  }

  /// Writes the configuration, with these sections added.
  func configure(ledgerDirectory: URL? = nil) throws {
    try settings.writeSecrets(in: ledgerDirectory ?? directory)
    var text = settings.yaml(apple: store.apple, directory: ledgerDirectory ?? directory)
      .replacingOccurrences(of: "level: trace", with: "level: info")
    if let profiles {
      text += """
        profile_store:
          url: "\(profiles.url)"
          key: "a.profile.key"
          columns: { version: \(hasVersionColumn ? "subscription_version" : "null") }
          deadline: 500ms

        """
    }
    try text.write(to: configuration, atomically: true, encoding: .utf8)
  }

  func start(environment: [String: String] = [:], under tool: [String] = []) async throws -> ServiceProcess {
    try await ServiceProcess.start(configuration: configuration, environment: environment, under: tool)
  }
}

/// The answers to callers of a service under fault.
final class FaultLoad: Sendable {
  /// An answer that the service has to stand by.
  struct Acknowledgement: Hashable, Sendable {
    var user: String
    var status: Int
    var tier: String
    var verdict: String
    /// Milliseconds since 1970; nil where nothing is proven.
    var evidenceAt: Int64?
    var isStale: Bool
    var profileWrite: String
  }

  struct Figures: Sendable {
    var posts = 0
    var acknowledged: [Acknowledgement] = []
    /// Problems by their code.
    var refused: [String: Int] = [:]
    /// Requests without an answer.
    var unanswered = 0
    var latencies: [Duration] = []
  }

  private let state = Mutex(Figures())
  var figures: Figures { state.withLock { $0 } }

  /// Eight callers, say, who post one customer's receipt after the other until they are stopped or get no answer.
  ///
  /// - Parameters:
  ///   - pace: a pause after each post.
  ///   - each: called with the number of posts so far, to move Apple's clock with them.
  func run(
    _ service: ServiceProcess, customers: [FaultWorld.Customer], writers: Int = 8, random: FaultRandom,
    pace: Duration? = nil, each: @escaping @Sendable (Int) -> Void = { _ in },
    while isWanted: @escaping @Sendable () -> Bool
  ) async {
    var random = random
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<writers {
        var own = random.fork()
        group.addTask { [self] in
          while isWanted(), !Task.isCancelled, let customer = customers.randomElement(using: &own) {
            guard await post(customer, to: service) else { return }
            each(state.withLock { $0.posts })
            if let pace { try? await Task.sleep(for: pace) }
          }
        }
      }
    }
  }

  /// - Returns: whether there was an answer.
  @discardableResult
  func post(_ customer: FaultWorld.Customer, to service: ServiceProcess) async -> Bool {
    let began = ContinuousClock.now
    let answer = try? await service.validate(customer.receipt, user: customer.user)
    let took = ContinuousClock.now - began
    return note(answer, of: customer.user, after: took)
  }

  func note(_ answer: Answer?, of user: String, after took: Duration) -> Bool {
    guard let answer else {
      state.withLock { state in
        state.posts += 1
        state.unanswered += 1
      }
      return false
    }
    let body = answer.object
    func text(_ name: String) -> String { body[name] as? String ?? "-" }
    let code = body["code"] as? String ?? "without a code"
    // A verdict's status is a word; a problem's is a number.
    let verdict = (body["status"] as? String).map { status in
      Acknowledgement(
        user: user, status: answer.status, tier: text("tier"), verdict: "\(text("tier")) \(status) \(text("reason"))",
        evidenceAt: (body["evidence_at"] as? String).flatMap(Self.milliseconds),
        isStale: body["stale"] as? Bool ?? false, profileWrite: text("profile_write"))
    }
    state.withLock { state in
      state.posts += 1
      state.latencies.append(took)
      if (200..<300).contains(answer.status), let verdict {
        state.acknowledged.append(verdict)
      } else {
        state.refused["\(answer.status) \(code)", default: 0] += 1
      }
    }
    return true
  }

  private static func milliseconds(_ text: String) -> Int64? {
    (try? Date(text, strategy: .iso8601)).map { Int64(($0.timeIntervalSince1970 * 1000).rounded()) }
  }
}

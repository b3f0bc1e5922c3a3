import Entitlements
import Foundation
import HTTPTransport

@testable import Countersign
@testable import Ledger
@testable import Resilience
@testable import Validation

/// The parts of the jobs, as `buildApplication` puts them together, without HTTP and without their loops: a test runs
/// each sweep itself, and nothing happens in between.
struct JobBench: Sendable {
  var appStore: AppStoreServices
  var ledger: Ledger
  var validator: ReceiptValidator
  var brake: DowngradeBrakeService
  var log: CapturedLog
  var now: @Sendable () -> Date

  static func run<Result: Sendable>(
    apple: Apple, settings: Settings = Settings(), directory given: URL? = nil,
    now: @escaping @Sendable () -> Date, body: @Sendable (JobBench) async throws -> Result
  ) async throws -> Result {
    let directory = given ?? FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { if given == nil { try? FileManager.default.removeItem(at: directory) } }
    let file = directory.appending(path: "countersign.yaml")
    try settings.yaml(apple: apple, directory: directory).write(to: file, atomically: true, encoding: .utf8)
    let configuration = try ServiceConfiguration.load(file: file.path(percentEncoded: false), environment: [:])
    let log = CapturedLog()
    let environment = ServiceEnvironment(
      logger: log.logger, clock: .moved(by: now), ledgerFailed: { log.note("ledger failed: \($0)") })
    let clock: @Sendable () -> Date = { environment.clock.now }
    let appStore = try configuration.appStoreServices(environment: environment)
    defer { appStore.transport.shutdown() }
    let ledger = try await Ledger.open(path: configuration.ledger.path, onFatal: environment.ledgerFailed)
    let bench = JobBench(
      appStore: appStore, ledger: ledger,
      validator: ReceiptValidator(
        gateway: AppStoreGateway(configuration, appStore, now: clock), ledger: ledger,
        verdicts: VerdictContext(rules: EntitlementRules(configuration), now: clock),
        ownership: configuration.policy.ownership, provisional: configuration.policy.provisional),
      brake: try await DowngradeBrakeService.restored(
        from: ledger, share: Double(configuration.revalidation.maxDowngrades) / 100, now: clock),
      log: log, now: clock)
    do {
      let result = try await body(bench)
      await ledger.close()
      return result
    } catch {
      await ledger.close()
      throw error
    }
  }

  /// The same beside a simulated App Store, which begins at the time of the clock.
  static func besideStore(
    by clock: MovingClock, settings: Settings = Settings(), directory: URL? = nil,
    body: @Sendable (JobBench, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    try await SimulatedStore.run(at: clock.date) { store in
      try await run(apple: store.apple, settings: settings, directory: directory, now: { clock.date }) { bench in
        try await body(bench, store, clock)
      }
    }
  }

  /// - Parameter isAppleAway: whether the breaker is open; as the breaker itself says, unless a test says otherwise.
  func scheduler(isAppleAway: (@Sendable () -> Bool)? = nil) -> RecheckScheduler {
    RecheckScheduler(
      check: check, ledger: ledger, brake: brake, logger: log.logger, now: now,
      isAppleAway: isAppleAway ?? { [appStore] in appStore.recheckBreaker?.state == .open },
      isAppleDoubtful: { [appStore] in appStore.isDoubtful },
      pacer: Pacer(rate: 1000))
  }

  func settler(isAppleDoubtful: @escaping @Sendable () -> Bool = { false }) -> PendingSettler {
    PendingSettler(
      validator: validator, ledger: ledger, logger: log.logger, now: now, isAppleDoubtful: isAppleDoubtful,
      isClockConfirmed: { true })
  }

  var check: SubscriptionCheck { SubscriptionCheck(validator: validator, ledger: ledger, brake: brake) }

  func runner(
    isAppleAway: (@Sendable () -> Bool)? = nil, pacer: Pacer = Pacer(rate: 1000), width: Int = 8,
    progress: RunProgress = RunProgress()
  ) -> RevalidationRunner {
    RevalidationRunner(
      check: check, ledger: ledger, brake: brake, logger: log.logger, now: now,
      isAppleAway: isAppleAway ?? { [appStore] in appStore.recheckBreaker?.state == .open },
      pacer: pacer, width: width, progress: progress)
  }

  /// - Parameter rules: as in a start with another configuration.
  func reviewer(rules: EntitlementRules? = nil, batch: Int = 100) async throws -> RulesReviewer {
    let rules = rules ?? validator.gateway.rules
    return RulesReviewer(
      review: try await RulesReview.restored(from: ledger, rules: rules), rules: rules, ledger: ledger, brake: brake,
      logger: log.logger, now: now, batch: batch, pages: Pacer(rate: 1000), writes: Pacer(rate: 1000))
  }

  @discardableResult func validate(_ receipt: String, user: String = "user-1") async throws -> ValidatedEntitlement {
    try await validator.validate(
      ReceiptSubmission(user: UserID(user), proof: .receipt(receipt), requestID: "test"), logger: log.logger)
  }

  /// Makes a user's purchases such that they cannot be read.
  func spoilPurchases(of user: UserID) async throws {
    try await ledger.engine.submit { tables in
      try tables.execute("UPDATE purchase SET evidence = '[]' WHERE user_id = ?", user.key)
    }
  }

  /// tier, status and reason, as the service's read would have them now.
  func verdict(_ user: String = "user-1") async throws -> String {
    let profile = try await ledger.profile(of: UserID(user))
    let entitlement = validator.gateway.rules.standing(of: UserID(user), profile, at: now())
    return "\(entitlement.tier) \(entitlement.status.rawValue) \(entitlement.reason.rawValue)"
  }
}

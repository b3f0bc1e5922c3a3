import AppStore
import Entitlements
import Foundation
import HTTPTransport
import Ledger
import LedgerFixtures
import Logging
import Profiles
import Resilience
import Synchronization
import TestSupport

@testable import AppStoreSimulator
@testable import Validation

/// The use case on a scripted transport and a real ledger: no server, no socket, a clock that stands still, between whole
/// milliseconds.
struct UseCase: Sendable {
  static let start = Date(timeIntervalSince1970: 1_718_452_800).withNanoseconds

  static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

  /// Apple and the profile store, as the transport plays them.
  let upstreams: ScriptedUpstreams
  let ledger: Ledger
  let validator: ReceiptValidator

  /// Runs a test's body on a new ledger.
  ///
  /// - Parameter isShared: whether it is one in PostgreSQL.
  static func run(
    ownership: OwnershipPolicy = .keep, provisional: Duration = .zero, hasProfileStore: Bool = false,
    isShared: Bool = false, body: (UseCase) async throws -> Void
  ) async throws {
    let scratch = try Scratch()
    let place = try await isShared ? LedgerPlace.database(url: scratch.url(), connections: 2) : .file(scratch.path)
    let ledger = try await Ledger.open(at: place) { _ in }
    do {
      try await body(
        UseCase(ledger: ledger, ownership: ownership, provisional: provisional, hasProfileStore: hasProfileStore))
      await ledger.close()
    } catch {
      await ledger.close()
      throw error
    }
  }

  private init(ledger: Ledger, ownership: OwnershipPolicy, provisional: Duration, hasProfileStore: Bool) throws {
    let upstreams = try ScriptedUpstreams(at: Self.start)
    self.upstreams = upstreams
    self.ledger = ledger
    let transport = StubTransport { request throws(TransportError) in try upstreams.answer(request) }
    let root = FileManager.default.temporaryDirectory.appending(path: "root-\(UUID()).pem")
    defer { try? FileManager.default.removeItem(at: root) }
    try DevelopmentPKI.rootPEM.write(to: root, atomically: true, encoding: .utf8)
    let roots = try TrustedRoots(files: [root.path(percentEncoded: false)])
    let rules = EntitlementRules(
      catalog: try Catalog(
        tiers: ["free", "pro", "premium"],
        products: [
          "com.example.app.pro.monthly": .init(tier: "pro"),
          "com.example.app.forever": .init(tier: "premium", kind: .lifetime),
        ]),
      policy: EntitlementPolicy(), sandbox: .accept)
    let gateway = AppStoreGateway(
      verifier: ReceiptVerifier(roots: roots), signedData: SignedDataVerifier(roots: roots),
      localVerification: .advise,
      verifyReceipt: VerifyReceiptClient(
        transport: transport,
        configuration: .init(
          productionURL: "https://apple.invalid/production", sandboxURL: "https://apple.invalid/sandbox",
          sharedSecret: Secret("simulator"), retry: RetryPolicy(backoff: Backoff(base: .zero, cap: .zero)))),
      appStoreHealth: AppStoreHealth(), recent: RecentAnswers(lifetime: .zero),
      apps: ServedApps(bundleIDs: ["com.example.app"], appAppleIDs: []), rules: rules, deadline: .seconds(30),
      now: { Self.start })
    let rows = PostgRESTProfileStore(
      .init(url: "https://rows.invalid", key: Secret("key")), transport: transport)
    validator = ReceiptValidator(
      gateway: gateway, ledger: ledger,
      verdicts: VerdictContext(
        rules: rules, now: { Self.start },
        writeBack: hasProfileStore
          ? ProfileWriteBack(
            store: rows, ledger: ledger, deadline: .seconds(30), now: { Self.start }, startedAt: { Self.start },
            jitter: { _ in .zero }, health: ProfileStoreHealth()) : nil), ownership: ownership,
      provisional: provisional)
  }

  func receipt(
    _ scenario: Scenario, subscriber: Int64 = 1, format: ReceiptFormat = .der
  ) throws -> String {
    try upstreams.apple.issue(ReceiptOrder(scenario: scenario, subscriber: subscriber, format: format)).receiptData
  }

  func validate(
    _ receipt: String, of user: UserID, _ mode: ReceiptValidator.ValidationMode = .request
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let submission = ReceiptSubmission(user: user, proof: .receipt(receipt), requestID: "request")
    return try await validator.validate(
      submission, mode, logger: Self.logger)
  }
}

/// Apple's verifyReceipt as the simulator plays it, and a profile store of one table, without a server.
final class ScriptedUpstreams: Sendable {
  let apple: SimulatorCore
  private struct State {
    /// How many calls Apple answers still; `nil`: all.
    var answersLeft: Int?
    var areRowsAway = false
    var order: [String] = []
    var rows: [String] = []
  }
  private let state = Mutex(State())

  init(at start: Date) throws {
    var configuration = Simulator.Configuration()
    configuration.clock = start
    apple = try SimulatorCore(configuration: configuration, pki: DevelopmentPKI())
  }

  /// Takes Apple away after so many calls more, or brings Apple back.
  func setAppleAway(_ isAway: Bool, after calls: Int = 0) {
    state.withLock { $0.answersLeft = isAway ? calls : nil }
  }
  func setRowsAway(_ areAway: Bool) { state.withLock { $0.areRowsAway = areAway } }
  func setTrouble(_ trouble: Trouble?) { apple.troubles.set(trouble, count: nil, environment: nil) }

  /// Who was asked, in this order: `apple`, `rows`.
  var order: [String] { state.withLock { $0.order } }
  /// The bodies of the writes to the profile store.
  var rows: [String] { state.withLock { $0.rows } }

  func answer(_ request: TransportRequest) throws(TransportError) -> TransportResponse {
    let isApple = request.url.contains("apple.invalid")
    let isAway = state.withLock { state in
      state.order.append(isApple ? "apple" : "rows")
      if !isApple, !state.areRowsAway { state.rows.append(String(decoding: request.body, as: UTF8.self)) }
      guard isApple else { return state.areRowsAway }
      guard let left = state.answersLeft else { return false }
      state.answersLeft = max(0, left - 1)
      return left == 0
    }
    guard !isAway else { throw .connect }
    guard isApple else {
      return TransportResponse(
        status: 200, headers: [TransportHeader("Content-Type", "application/json")],
        body: Array(#"[{"subscription_tier":"pro","subscription_status":"active"}]"#.utf8))
    }
    let answer = apple.verifyReceipt.answer(
      isPost: true, body: request.body, environment: request.url.hasSuffix("production") ? .production : .sandbox)
    return TransportResponse(status: answer.httpStatus, body: answer.body)
  }
}

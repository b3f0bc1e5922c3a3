import CountersignAPI
import Hummingbird
import Ledger
import Tokens
import Validation

import struct FoundationEssentials.Date

/// `/livez` and `/readyz`, for supervisors and load balancers. They name no user and no secret, and are open. `/v1/status`
/// tells people with a key the same, as operators may have an address of their own.
struct HealthController: Sendable {
  var ledger: LedgerCheck
  var operations: OperationalStatus
  var useCases: UseCases

  func addRoutes(to routes: Routes) { routes.serve("/livez", prompt: [.get: live]) }

  /// For supervisors and load balancers.
  func addReadiness(to routes: Routes) { routes.serve("/readyz", prompt: [.get: ready]) }

  func addStatus(to routes: Routes) { routes.serve("/v1/status", [.get: status]) }

  /// The process answers. It says nothing about what the process depends on: a restart would not mend that.
  func live(_ request: Request, _ context: ServiceRequestContext) -> Reply { .now(Self.alive) }

  private static let alive = JSONBody.response(Liveness())

  /// Whether requests can be served: the ledger takes records, and Apple takes our shared secret.
  ///
  /// Apple being away does not make the service unready: what is proven can still be read. Nor does the profile store, even
  /// where its key is wrong: verdicts are recorded and delivered when it is mended. Nor do the keys of users' tokens, which
  /// servers do not need. The answer names all of them.
  func ready(_ request: Request, _ context: ServiceRequestContext) -> Reply {
    if let finding = ledger.recentFinding { return .now(answer(finding)) }
    return .later { answer(await ledger.finding()) }
  }

  private func answer(_ finding: LedgerCheck.Finding) -> Response {
    let found = readiness(finding)
    return JSONBody.response(found, status: found.status == Self.serving ? .ok : .serviceUnavailable)
  }

  /// As `ready`, and 200 in any state, with the roles of the key.
  func status(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support, .service)
    var found = readiness(await ledger.finding())
    found.roles = caller.roles.map(\.rawValue).sorted()
    return JSONBody.uncached(found)
  }

  private static let serving = "ok"

  private func readiness(_ finding: LedgerCheck.Finding) -> Readiness {
    let appStore = operations.appStore.state
    let isReady = finding.error == nil && appStore != .sharedSecretRejected
    let now = useCases.now()
    let backlog = finding.backlog
    let history = useCases.history.state(at: now)
    let outbox = backlog.map { backlog in
      Readiness.Outbox(
        depth: backlog.updates,
        ageSeconds: Int(min(max(0, backlog.oldestUpdate.map(now.timeIntervalSince) ?? 0), 1e9)),
        lastError: backlog.lastProblem, missing: backlog.missingProfiles)
    }
    return Readiness(
      status: isReady ? Self.serving : "unready", ledger: finding.error?.state ?? "ok", appStore: appStore.rawValue,
      profileStore: operations.profileStore?.state.text ?? "none",
      outbox: operations.profileStore == nil ? nil : outbox, pendingReceipts: backlog?.pendingReceipts,
      downgradeBrake: useCases.brake.isEngaged ? "engaged" : "released", withheldByRules: useCases.review.withheld,
      clock: useCases.clock.skew == nil ? "ok" : "off",
      notificationHistory: history == .none ? nil : history.rawValue,
      consumptionRequests: history == .none
        ? nil
        : backlog.map { .init(due: $0.consumptionRequests, missed: $0.missedConsumptionRequests) },
      userKeys: operations.userKeys?.health.text)
  }
}

extension LedgerError {
  fileprivate var state: String {
    switch self {
    case .unavailable, .unusable: "unavailable"
    case .failed: "failed"
    case .closed: "closed"
    }
  }
}

extension ProfileStoreHealth.State {
  /// Away is not the same as not letting us in: the one passes, the other needs a person.
  fileprivate var text: String {
    switch self {
    case .unknown: "unknown"
    case .ok: "ok"
    case .unavailable(let code): "unavailable: \(code)"
    case .misconfigured(let code): "misconfigured: \(code)"
    }
  }
}

extension RemoteKeySet.Health {
  fileprivate var text: String {
    switch self {
    case .unknown: "unknown"
    case .ok: "ok"
    case .stale(let cause): "stale: \(cause)"
    case .unavailable(let cause): "unavailable: \(cause)"
    }
  }
}

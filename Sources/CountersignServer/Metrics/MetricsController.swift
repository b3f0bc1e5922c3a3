import Access
import AppStore
import Entitlements
import Figures
import HTTPTypes
import Hummingbird
import Ledger
import NIOCore
import Prometheus
import Resilience
import Validation
import Webhooks

import struct FoundationEssentials.Date

/// `/metrics`: what was counted and what waits, in Prometheus' text format. It names no user and no secret, and is open.
struct MetricsController: Sendable {
  var useCases: UseCases
  var check: LedgerCheck
  /// The figures that are watched; `nil` where they cannot be read.
  var figures: RecentValue<[WatchedFigure]?>
  var status: OperationalStatus
  /// The counters.
  var registry: PrometheusRegistry
  /// The receivers of events.
  var webhooks: [WebhookEndpoint] = []
  var bodyBytes: @Sendable () -> Int
  /// Validations that wait for their turn.
  var waitingValidations: @Sendable () -> Int

  func addRoutes(to routes: Routes) { routes.serve("/metrics", [.get: metrics]) }

  func metrics(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (now, ledger) = (useCases.now(), useCases.ledger)
    var page = MetricsPage(registry.collect())
    let finding = await check.finding()
    page.add(.ledgerUp, finding.error == nil ? 1 : 0)
    if let backlog = finding.backlog { add(backlog, to: &page, now) }
    // A read that fails leaves its metrics out.
    try? await addReads(to: &page, now)
    page.add(.ledgerWaitingWrites, Double(ledger.statistics.waiting))
    if let free = status.reserve.freeShare() { page.add(.ledgerDiskFree, free) }
    if ledger.isShared {
      let statistics = ledger.statistics
      page.add(.ledgerConflicts, Double(statistics.conflicts))
      page.add(.ledgerLostConnections, Double(statistics.lostConnections))
    }
    page.add(.deviceCheckKeyRejected, useCases.trials.settings.deviceCheck?.state == .keyRefused ? 1 : 0)
    page.add(.bodyBytes, Double(bodyBytes()))
    page.add(.waitingValidations, Double(waitingValidations()))
    for (upstream, breaker) in status.breakers {
      page.add(.breakerOpen, breaker.state == .closed ? 0 : breaker.state == .open ? 1 : 0.5, ("upstream", upstream))
      page.add(.breakerRefused, Double(breaker.counts.refused), ("upstream", upstream))
    }
    page.add(.appStoreSharedSecretRejected, status.appStore.state == .sharedSecretRejected ? 1 : 0)
    page.add(.serverAPIKeyRejected, status.appStore.state == .serverAPIKeyRejected ? 1 : 0)
    if let profileStore = status.profileStore {
      let isMisconfigured: Double = if case .misconfigured = profileStore.state { 1 } else { 0 }
      page.add(.profileStoreMisconfigured, isMisconfigured)
    }
    page.add(.downgradeBrakeEngaged, useCases.brake.isEngaged ? 1 : 0)
    page.add(.withheldByRules, Double(useCases.review.withheld))
    addHistory(to: &page, now)
    if let sweptAt = useCases.refunds.sweptAt { page.add(.refundSweepAge, Self.age(sweptAt, now)) }
    page.add(.clockSkew, useCases.clock.skew ?? 0)
    page.add(.tlsCertificateExpiry, status.certificateEnd()?.timeIntervalSince1970)
    page.add(.buildInfo, 1, ("version", BuildInformation.version), ("swift", BuildInformation.swift))
    let process = ProcessStatistics.current()
    page.add(.processCPU, process.cpuSeconds)
    page.add(.processResidentMemory, process.residentBytes)
    page.add(.processOpenFiles, process.openFiles)
    page.add(.processMaxFiles, process.maxFiles)
    page.add(.processStartTime, process.startTime)
    return Response(
      status: .ok, headers: [.contentType: ExpositionFormat.contentType, .cacheControl: "no-store"],
      body: .bytes(ByteBuffer(string: page.text)))
  }

  private func addHistory(to page: inout MetricsPage, _ now: Date) {
    for (environment, statuses) in Dictionary(grouping: useCases.history.statuses, by: \.source.environment) {
      let label = ("environment", environment.rawValue)
      if let oldest = statuses.compactMap(\.progress.reach).min() {
        page.add(.notificationHistoryAge, Self.age(oldest, now), label)
      }
      let gaps = statuses.compactMap { useCases.history.gap(of: $0, at: now) }
      page.add(.notificationGap, gaps.map { $0.to.timeIntervalSince($0.from) }.reduce(0, +), label)
    }
  }

  private func add(_ backlog: LedgerBacklog, to page: inout MetricsPage, _ now: Date) {
    page.add(.pendingReceipts, Double(backlog.pendingReceipts))
    page.add(.pendingReceiptsAge, Self.age(backlog.oldestPendingReceipt, now))
    page.add(.rechecksDue, Double(backlog.rechecksDue))
    page.add(.rechecksAge, Self.age(backlog.oldestRecheck, now))
    page.add(.consumptionRequestsDue, Double(backlog.consumptionRequests))
    page.add(.accountTokensDue, Double(backlog.accountTokens))
    guard status.profileStore != nil else { return }
    page.add(.outboxDepth, Double(backlog.updates))
    page.add(.outboxAge, Self.age(backlog.oldestUpdate, now))
    if let code = backlog.lastProblem { page.add(.outboxLastError, 1, ("code", code)) }
    page.add(.missingProfiles, Double(backlog.missingProfiles))
  }

  private func addReads(to page: inout MetricsPage, _ now: Date) async throws {
    let ledger = useCases.ledger
    if ledger.isShared { page.add(.replicas, Double(try await ledger.replicas())) }
    for count in try await ledger.read(ReadSubscribers()) {
      page.add(.subscribers, Double(count.users), ("tier", count.tier.rawValue), ("status", count.status.rawValue))
    }
    for figure in await figures.value() ?? [] {
      page.add(.figureRatio, figure.ratio, ("figure", figure.name.rawValue))
      page.add(.figureBase, Double(figure.whole), ("figure", figure.name.rawValue))
    }
    for webhook in webhooks {
      guard let status = try await ledger.webhookStatus(webhook.name, taking: webhook.takes) else { continue }
      page.add(.webhookWaiting, Double(status.waiting), ("webhook", webhook.name))
      page.add(.webhookAge, Self.age(status.oldest, now), ("webhook", webhook.name))
      page.add(.webhookDead, Double(status.dead), ("webhook", webhook.name))
      page.add(.webhookDisabled, status.isEnabled ? 0 : 1, ("webhook", webhook.name))
    }
  }

  private static func age(_ since: Date?, _ now: Date) -> Double { max(0, since.map(now.timeIntervalSince) ?? 0) }
}

/// The answer: what the registry has, and what is looked up at the moment.
struct MetricsPage {
  private var families: [String: MetricFamily]

  init(_ collected: [MetricFamily]) {
    families = Dictionary(collected.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
  }

  /// Adds one value; nothing, where there is none.
  mutating func add(_ metric: ServiceMetric, _ value: Double?, _ labels: (String, String)...) {
    guard let value else { return }
    let empty = MetricFamily(metric.rawValue, metric.entry.kind, metric.entry.help)
    families[metric.rawValue, default: empty].samples
      .append(MetricFamily.Sample("", labels.map { MetricFamily.Label($0.0, $0.1) }, value))
  }

  var text: String { ExpositionFormat.text(of: families.values.sorted { $0.name < $1.name }) }
}

import CountersignAPI
import Entitlements
import Hummingbird
import Ledger
import Resilience
import Validation

import struct FoundationEssentials.Date

/// `GET /api/health/subscriptions`: whether the service can do its work, and how many users it has, for a monitor.
struct SubscriptionsHealth: Sendable {
  /// The lifetime of the counts: the users are counted one by one.
  static let lifetime = Duration.seconds(60)

  private let common: DialectParts
  private let counts: RecentValue<UserCounts?>

  init(_ common: DialectParts) {
    self.common = common
    counts = RecentValue(lifetime: Self.lifetime) { try? await common.useCases.ledger.userCounts(at: common.now()) }
  }

  func health(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    let isConnected = await common.ledgerCheck.finding().error == nil
    let counts = await isConnected ? counts.value() : nil
    let catalog = common.useCases.reader.rules.catalog
    let arePlansConfigured = catalog.products.contains { catalog.rank(of: $0.value.tier) > 0 }
    let answer = SubscriptionsHealthAnswer(
      healthy: isConnected && arePlansConfigured,
      checks: SubscriptionsHealthAnswer.Checks(
        database: isConnected ? "connected" : "unavailable",
        revenuecatWebhook: (common.useCases.revenueCat != nil)
          ? counts.map { Self.words(for: $0.newestRevenueCatReport, at: common.now()) } : nil,
        appStoreNotifications: counts.map { Self.words(for: $0.newestNotification, at: common.now()) },
        plansConfigured: arePlansConfigured),
      stats: SubscriptionsHealthAnswer.Stats(
        activePremium: counts?.paying, activeTrials: counts?.trials, totalUsers: counts?.users))
    return JSONBody.uncached(answer, keys: .convertToSnakeCase, status: answer.healthy ? .ok : .serviceUnavailable)
  }

  /// `last_received_2min_ago`.
  static func words(for moment: Date?, at now: Date) -> String {
    guard let moment else { return "never_received" }
    let minutes = Int(max(0, now.timeIntervalSince(moment)) / 60)
    switch minutes {
    case ..<120: return "last_received_\(minutes)min_ago"
    case ..<2880: return "last_received_\(minutes / 60)h_ago"
    default: return "last_received_\(minutes / 1440)d_ago"
    }
  }
}

/// The answer about the service's health.
struct SubscriptionsHealthAnswer: Encodable {
  struct Checks: Encodable {
    /// `connected` or `unavailable`: the ledger.
    var database: String
    /// `nil` where RevenueCat's webhooks are not taken in.
    @Nullable var revenuecatWebhook: String?
    @Nullable var appStoreNotifications: String?
    var plansConfigured: Bool
  }

  struct Stats: Encodable {
    /// Users whom a purchase gives access.
    @Nullable var activePremium: Int?
    /// Trials of the app's own that are running.
    @Nullable var activeTrials: Int?
    @Nullable var totalUsers: Int?
  }

  var healthy: Bool
  var checks: Checks
  var stats: Stats
}

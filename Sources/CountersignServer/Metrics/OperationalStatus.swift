package import Resilience
package import Tokens
package import Validation

package import struct FoundationEssentials.Date

/// The parts of the service whose state `/readyz` and `/metrics` show.
package struct OperationalStatus: Sendable {
  package var appStore: AppStoreHealth
  /// `nil` where no profile store is configured.
  package var profileStore: ProfileStoreHealth?
  /// Breakers by upstream, in the order shown.
  package var breakers: [(upstream: String, breaker: CircuitBreaker)]
  package var brake: DowngradeBrakeService
  package var review: RulesReview
  package var history: NotificationHistory
  package var refunds: RefundHistory
  package var clock: ServiceClock
  /// `nil` where users' tokens are not checked by published keys.
  package var userKeys: RemoteKeySet?
  package var reserve: DiskReserve
  /// The end of the server's certificate; `nil` without one.
  package var certificateEnd: @Sendable () -> Date?

  package init(
    appStore: AppStoreHealth, profileStore: ProfileStoreHealth? = nil,
    breakers: [(upstream: String, breaker: CircuitBreaker)], brake: DowngradeBrakeService, review: RulesReview,
    history: NotificationHistory, refunds: RefundHistory, clock: ServiceClock, userKeys: RemoteKeySet? = nil,
    reserve: DiskReserve,
    certificateEnd: @escaping @Sendable () -> Date? = { nil }
  ) {
    self.appStore = appStore
    self.profileStore = profileStore
    self.breakers = breakers
    self.brake = brake
    self.review = review
    self.history = history
    self.refunds = refunds
    self.clock = clock
    self.userKeys = userKeys
    self.reserve = reserve
    self.certificateEnd = certificateEnd
  }
}

package import Resilience
package import Tokens
package import Validation

package import struct FoundationEssentials.Date

/// The parts of the service whose state `/readyz` and `/metrics` show, beside the use cases.
package struct OperationalStatus: Sendable {
  package var appStore: AppStoreHealth
  /// `nil` where no profile store is configured.
  package var profileStore: ProfileStoreHealth?
  /// Breakers by upstream, in the order shown.
  package var breakers: [(upstream: String, breaker: CircuitBreaker)]
  /// `nil` where users' tokens are not checked by published keys.
  package var userKeys: RemoteKeySet?
  package var reserve: DiskReserve
  /// The end of the server's certificate; `nil` without one.
  package var certificateEnd: @Sendable () -> Date?

  package init(
    appStore: AppStoreHealth, profileStore: ProfileStoreHealth?,
    breakers: [(upstream: String, breaker: CircuitBreaker)], userKeys: RemoteKeySet?, reserve: DiskReserve,
    certificateEnd: @escaping @Sendable () -> Date?
  ) {
    self.appStore = appStore
    self.profileStore = profileStore
    self.breakers = breakers
    self.userKeys = userKeys
    self.reserve = reserve
    self.certificateEnd = certificateEnd
  }
}

import HTTPTransport

/// What operators are shown of the running service, in `/readyz` and `/metrics`.
struct OperationalStatus: Sendable {
  var appStore: AppStoreHealth
  /// `nil` where no profile store is configured.
  var profileStore: ProfileStoreHealth?
  /// By what is behind each, in the order shown.
  var breakers: [(upstream: String, breaker: CircuitBreaker)]
  var brake: Brake
  var review: RulesReview
  var clock: ServiceClock
  /// `nil` where users' tokens are not checked by published keys.
  var userKeys: RemoteKeySet?
}

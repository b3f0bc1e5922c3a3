import CountersignServer
import HTTPTransport
import Ledger
import Profiles
import Resilience
import Validation

/// The clients for the app's profile rows.
struct ProfileStoreServices: Sendable {
  var store: GuardedProfileStore
  var breaker: CircuitBreaker
  var deadline: Duration
  var transport: CurlTransport
}

extension ServiceConfiguration.ProfileStoreConfiguration {
  func services(environment: ServiceEnvironment) throws(StartError) -> ProfileStoreServices {
    var configuration = CurlTransport.Configuration(caFile: caFile)
    configuration.allowedSchemes = isPlain ? [.http] : [.https]
    configuration.http2 = false
    configuration.threadName = "profile-store"
    let transport = try environment.transport(configuration, for: "the profile store")
    let breaker = CircuitBreaker.logging("profile_store", environment.logger, deadline: deadline)
    return ProfileStoreServices(
      store: GuardedProfileStore(PostgRESTProfileStore(postgREST, transport: transport), breaker: breaker),
      breaker: breaker, deadline: deadline, transport: transport)
  }
}

extension ProfileStoreServices {
  /// Writes a ledger's verdicts to the store, counted and timed.
  func writeBack(of ledger: Ledger, _ environment: ServiceEnvironment) -> ProfileWriteBack {
    ProfileWriteBack(
      store: MeteredProfileStore(store, environment.metrics), ledger: ledger, deadline: deadline,
      now: { environment.clock.now }, startedAt: { environment.clock.start },
      jitter: environment.jitter, health: ProfileStoreHealth())
  }
}

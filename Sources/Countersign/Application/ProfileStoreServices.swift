import HTTPTransport
import Profiles
import Resilience

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
    let transport: CurlTransport
    do { transport = try environment.makeTransport(configuration) } catch {
      throw StartError(description: "The HTTP client for the profile store cannot start: \(error)")
    }
    let breaker = CircuitBreaker.logging("profile_store", environment.logger)
    return ProfileStoreServices(
      store: GuardedProfileStore(PostgRESTProfileStore(postgREST, transport: transport), breaker: breaker),
      breaker: breaker, deadline: deadline, transport: transport)
  }
}

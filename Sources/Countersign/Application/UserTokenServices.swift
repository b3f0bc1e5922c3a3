import HTTPTransport
import Tokens
import Validation

/// The verifier of users' tokens, and its transport.
struct UserTokenServices: Sendable {
  var verifier: UserTokenVerifier
  /// `nil` where no keys are fetched.
  var transport: CurlTransport?
}

extension ServiceConfiguration.Auth.JWT {
  func services(environment: ServiceEnvironment) throws(StartError) -> UserTokenServices {
    var verifier = UserTokenVerifier(
      rules: TokenRules(issuer: issuer, audience: audience, leeway: leeway), now: { environment.clock.machineTime })
    if let secret {
      do { verifier.secret = try TokenKey(secret: secret) } catch {
        throw StartError(description: "auth.jwt.secret cannot be used as a key for HS256.")
      }
    }
    guard let keySetURL else { return UserTokenServices(verifier: verifier) }
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = keySetURL.lowercased().hasPrefix("http://") ? [.http] : [.https]
    configuration.threadName = "user-keys"
    let transport = try environment.transport(configuration, for: "auth.jwt.jwks_url")
    verifier.keySet = RemoteKeySet(
      url: keySetURL, transport: transport, logger: environment.logger, jitter: environment.jitter,
      pause: environment.jobPause)
    return UserTokenServices(verifier: verifier, transport: transport)
  }
}

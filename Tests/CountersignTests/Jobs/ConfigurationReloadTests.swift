import Cryptography
import Foundation
import Testing
import Tokens
import UnixSignals

@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// The configuration, read again while the service runs.
@Suite struct ConfigurationReloadTests {
  private static let keys = "[{name: cron, role: service, sha256: \(SampleConfiguration.hash)}]"
  private static let otherKeys = "[{name: desk, role: support, sha256: \(SampleConfiguration.otherHash)}]"

  private func reload(
    to sample: SampleConfiguration, from former: SampleConfiguration = SampleConfiguration(),
    accessTokens: AccessTokenKeyring? = nil, revenueCat: RevenueCatKeyring? = nil
  ) throws -> (keyring: APIKeyring, started: ServiceConfiguration, log: CapturedLog) {
    let started = try former.setting("auth.api_keys", Self.keys).load()
    let keyring = APIKeyring(started.auth.apiKeys)
    let log = CapturedLog()
    let yaml = sample.yaml
    let reload = ConfigurationReload(
      source: ConfigurationReload.Source(
        signals: AsyncStream<UnixSignal> { $0.finish() },
        load: { () throws(ConfigurationError) in try loadYAML(yaml, environment: [:]) }),
      started: started, keyring: keyring, accessTokens: accessTokens, revenueCat: revenueCat, logger: log.logger)
    reload.reload()
    return (keyring, started, log)
  }

  @Test func `keys are taken up, and named`() throws {
    let (keyring, started, log) = try reload(to: SampleConfiguration().setting("auth.api_keys", Self.otherKeys))
    #expect(keyring.replace(by: []).map(\.name) == ["desk"])
    #expect(started.auth.apiKeys.map(\.name) == ["cron"])
    #expect(log.lines.count == 1)
    #expect(log.text.contains(#""added":"desk","api_keys":1,"#) && log.text.contains(#""removed":"cron""#))
    #expect(!log.text.contains(SampleConfiguration.otherHash))
  }

  @Test func `nothing of a wrong configuration is taken up, and the log says why`() throws {
    let sample = SampleConfiguration().setting("auth.api_keys", Self.otherKeys).setting("server.port", "-1")
    let (keyring, _, log) = try reload(to: sample)
    #expect(keyring.replace(by: []).map(\.name) == ["cron"])
    #expect(log.lines.count == 1)
    #expect(log.text.contains(#""level":"error""#) && log.text.contains("server.port in countersign.yaml"))
  }

  @Test func `a warning that the start did not have is logged`() throws {
    let keys = SampleConfiguration().setting("auth.api_keys", Self.keys)
    let more = keys.setting("policy.testers", "[u1]")
    let (_, _, log) = try reload(to: more)
    let findings = log.lines.filter { $0.contains("has no effect unless policy.sandbox is testers") }
    #expect(findings.count == 1)
    #expect(findings.allSatisfy { $0.contains(#""level":"warning""#) && $0.contains("policy.testers in ") })
    // A warning of the start is not logged again, though its line has moved.
    let again = try reload(to: more.setting("app_store.deadline", "9s"), from: more).log
    #expect(!again.text.contains("has no effect unless"))
  }

  @Test func `RevenueCat's secrets are taken up`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("revenuecat", "the new value\n")
    let revenueCat = RevenueCatKeyring(RevenueCatSecrets(authorizations: ["the old value"], signingSecrets: []))
    let sample = SampleConfiguration().setting("auth.api_keys", Self.keys)
      .setting("revenuecat.authorization_file", path)
    _ = try reload(to: sample, from: sample, revenueCat: revenueCat)
    func proves(_ value: String) -> Bool {
      revenueCat.current.prove([], authorization: value, signature: nil, now: .now)
    }
    #expect(proves("the new value") && !proves("the old value"))
  }

  @Test func `the keys of access tokens are taken up`() throws {
    let (old, new) = (try ES256PrivateKey.random().pem(), try ES256PrivateKey.random().pem())
    func sample(_ pem: String) -> SampleConfiguration {
      SampleConfiguration().setting("auth.api_keys", Self.keys)
        .setting("auth.signing_key", "\"\(pem.replacing("\n", with: "\\n"))\"")
    }
    let keyring = AccessTokenKeyring(try AccessTokenKeys(pem: old))
    // Both, as during a change; the new one signs.
    let log = try reload(to: sample(new + old), from: sample(old), accessTokens: keyring).log
    #expect(keyring.current.published == (try AccessTokenKeys(pem: new + old)).published)
    #expect(keyring.current.published.first == (try AccessTokenKeys(pem: new)).published.first)
    #expect(!log.text.contains("it applies from the next start"))
  }

  @Test func `keys that need a restart are named, and not taken up`() throws {
    let sample = SampleConfiguration().setting("auth.api_keys", Self.keys).setting("server.port", "1")
      .setting("catalog.accept_loss", "[com.example.app.pro.monthly]").setting("retention.history", "400d")
      .setting("figures.currency", "EUR")
    let (_, _, log) = try reload(to: sample)
    #expect(log.lines.count == 5)
    for section in ["server", "catalog", "retention", "figures"] {
      #expect(
        log.lines.contains {
          $0.contains(#""key":"\#(section)""#) && $0.contains("it applies from the next start")
        })
    }
    #expect(log.text.contains(#""added":"none","api_keys":1,"#))
  }
}

import CountersignServer
import Logging
import ServiceLifecycle
import Tokens
import UnixSignals
import Validation
import Webhooks

/// Reads the configuration again on SIGHUP and takes up the API keys and public keys, the secrets of webhooks in and out, and
/// the keys of access tokens. Other changes count from the next start on, and are logged, as are warnings that the start did not
/// have. A configuration that is wrong changes nothing.
struct ConfigurationReload: Service {
  /// The signals to read again, and the function that reads.
  struct Source: Sendable {
    var signals: any AsyncSequence<UnixSignal, Never> & Sendable
    /// Whether a signal comes from a terminal that has closed. Nobody asked to read anything then.
    var isTerminalGone: @Sendable () -> Bool = { false }
    var load: @Sendable () throws(ConfigurationError) -> ServiceConfiguration
  }

  var source: Source
  /// With which the service was started.
  var started: ServiceConfiguration
  var keyring: APIKeyring
  /// `nil` where no key signs access tokens.
  var accessTokens: AccessTokenKeyring?
  /// `nil` where RevenueCat's webhooks are not taken.
  var revenueCat: RevenueCatKeyring?
  /// `nil` without receivers of webhooks.
  var webhooks: WebhookKeyring?
  var logger: Logger

  func run() async throws {
    await cancelWhenGracefulShutdown {
      for await _ in source.signals where !source.isTerminalGone() { reload() }
    }
  }

  func reload() {
    let configuration: ServiceConfiguration
    do throws(ConfigurationError) { configuration = try source.load() } catch {
      for problem in error.problems {
        logger.error(
          "the configuration cannot be reloaded; everything stays as it is",
          metadata: ["key": "\(problem.origin)", "finding": "\(problem.sentence)"])
      }
      return
    }
    if let secrets = configuration.revenueCat?.secrets { revenueCat?.replace(by: secrets) }
    webhooks?.replace(by: configuration.webhooks)
    if let keys = configuration.auth.signing?.keys { accessTokens?.replace(by: keys) }
    let before = keyring.replace(by: configuration.auth.apiKeys, publicKeys: configuration.auth.publicKeys)
    logger.notice(
      "the configuration was reloaded",
      metadata: Self.metadata(from: before, to: configuration.auth.apiKeys))
    let known = Set(started.warnings.map(\.withoutLine))
    for warning in configuration.warnings where !known.contains(warning.withoutLine) {
      warning.log(logger)
    }
    for section in Self.sections(from: started, to: configuration) {
      ConfigurationFinding(origin: section, sentence: "has changed; it applies from the next start").log(logger)
    }
  }

  /// The changes of the API keys, by name.
  private static func metadata(from before: [APIKey], to after: [APIKey]) -> Logger.Metadata {
    func names(_ keys: [APIKey], without others: [APIKey]) -> Logger.MetadataValue {
      let names = keys.filter { key in !others.contains(key) }.map(\.name)
      return names.isEmpty ? "none" : "\(names.joined(separator: ", "))"
    }
    return [
      "api_keys": .stringConvertible(after.count), "added": names(after, without: before),
      "removed": names(before, without: after),
    ]
  }

  /// The sections that changed, API keys apart, as the file names them.
  private static func sections(from old: ServiceConfiguration, to new: ServiceConfiguration) -> [String] {
    [
      ("server", old.server == new.server), ("app_store", old.appStore == new.appStore),
      ("catalog", old.catalog == new.catalog && old.plans == new.plans && old.acceptedLoss == new.acceptedLoss),
      ("policy", old.policy == new.policy), ("retention", old.retention == new.retention),
      ("trials", old.trials == new.trials), ("device_check", old.deviceCheck == new.deviceCheck),
      ("revalidation", old.revalidation == new.revalidation), ("ledger", old.ledger == new.ledger),
      ("events", old.events == new.events),
      // The content of the file of rates is taken up.
      (
        "figures",
        old.figures.currency == new.figures.currency && old.figures.rates?.path == new.figures.rates?.path
      ),
      ("profile_store", old.profileStore == new.profileStore), ("auth.jwt", old.auth.jwt == new.auth.jwt),
      ("dialects", old.dialects == new.dialects),
      // Its keys are taken up.
      ("auth.signing_key", (old.auth.signing == nil) == (new.auth.signing == nil)),
      ("auth.signing_issuer", old.auth.signing?.issuer == new.auth.signing?.issuer),
      ("auth.signing_audience", old.auth.signing?.audience == new.auth.signing?.audience),
      // Their secrets are taken up.
      ("revenuecat", (old.revenueCat == nil) == (new.revenueCat == nil)), ("log", old.log == new.log),
      // Their secrets are taken up.
      ("webhooks", old.webhooks.map(\.withoutSecrets) == new.webhooks.map(\.withoutSecrets)),
    ].compactMap { $0.1 ? nil : $0.0 }
  }
}

extension ConfigurationFinding {
  /// A finding whose line has moved is the same.
  fileprivate var withoutLine: ConfigurationFinding {
    ConfigurationFinding(origin: origin.replacing(#/ line [0-9]+$/#, with: ""), sentence: sentence)
  }
}

extension WebhookEndpoint {
  fileprivate var withoutSecrets: WebhookEndpoint {
    var copy = self
    copy.secrets = []
    return copy
  }
}

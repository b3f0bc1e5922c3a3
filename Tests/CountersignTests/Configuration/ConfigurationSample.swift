import Access
import Entitlements
import FoundationEssentials
import HTTPTransport
import Ledger
import Logging
import Profiles
import Testing

@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// A directory of its own for one test; removed when the test lets go of it.
final class TemporaryDirectory: Sendable {
  let path: String
  var url: URL { URL(filePath: path) }

  init() throws {
    path = FileManager.default.temporaryDirectory.path + "/countersign-\(UUID())"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// Writes a file and returns its path.
  func write(_ name: String, _ bytes: some Sequence<UInt8>, mode: Int = 0o600) throws -> String {
    let file = path + "/" + name
    try Data(bytes).write(to: URL(filePath: file))
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file)
    return file
  }

  func write(_ name: String, _ text: String, mode: Int = 0o600) throws -> String {
    try write(name, text.utf8, mode: mode)
  }
}

/// A small configuration that is complete, to be varied key by key.
struct SampleConfiguration {
  static let sharedSecret = "canary-5c1f0e"
  static let hash = String(repeating: "0123456789abcdef", count: 4)
  static let otherHash = String(repeating: "fedcba9876543210", count: 4)

  /// Section → key → YAML text.
  var sections: [String: [String: String]] = [
    "app_store": ["bundle_ids": "[com.example.app]", "shared_secret": Self.sharedSecret],
    "catalog": ["tiers": "[free, pro]", "products": "{com.example.app.pro: {tier: pro}}"],
    "auth": ["api_keys": "[{name: cron, role: service, sha256: \"\(Self.hash)\"}]"],
  ]

  /// Sets a key by its dotted name; `nil` leaves it out.
  func setting(_ key: String, _ text: String?) -> SampleConfiguration {
    let parts = key.split(separator: ".", maxSplits: 1).map(String.init)
    var copy = self
    copy.sections[parts.first ?? "", default: [:]][parts.last ?? ""] = text
    return copy
  }

  var yaml: String {
    sections.sorted { $0.key < $1.key }.map { section, members in
      "\(section):\n" + members.sorted { $0.key < $1.key }.map { "  \($0.key): \($0.value)\n" }.joined()
    }.joined()
  }

  func load(environment: [String: String] = [:]) throws -> ServiceConfiguration {
    try loadYAML(yaml, environment: environment)
  }

  func problems(environment: [String: String] = [:]) -> [String] {
    problemsOf(yaml, environment: environment)
  }

  /// The problem of a configuration that has exactly one.
  func problem(
    environment: [String: String] = [:], sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> String {
    let problems = problems(environment: environment)
    #expect(problems.count == 1, "\(problems)", sourceLocation: sourceLocation)
    return try #require(problems.first, sourceLocation: sourceLocation)
  }
}

/// Loads a text as the file `countersign.yaml`.
func loadYAML(
  _ text: String, environment: [String: String] = [:]
) throws(ConfigurationError) -> ServiceConfiguration {
  var findings = ConfigurationFindings()
  let file = ConfigurationFile(bytes: Array(text.utf8), name: "countersign.yaml", findings: &findings)
  var reader = ConfigurationReader(file: file, environment: environment, findings: findings)
  return try ServiceConfiguration(&reader, requiresCredential: true)
}

/// The problems of a text; empty when it has none.
func problemsOf(_ text: String, environment: [String: String] = [:]) -> [String] {
  do throws(ConfigurationError) {
    _ = try loadYAML(text, environment: environment)
    return []
  } catch {
    return error.problems.map(\.description)
  }
}

/// The problems when a path is loaded as `serve` does.
func problemsLoading(_ path: String?, environment: [String: String] = [:]) -> [String] {
  do throws(ConfigurationError) {
    _ = try ServiceConfiguration.load(file: path, environment: environment)
    return []
  } catch {
    return error.problems.map(\.description)
  }
}

/// Every key by its dotted name.
let allKeys = ConfigurationKey.all.map(\.name)

extension ServiceConfiguration {
  /// The value of a key as text.
  func rendered(_ key: String) -> String {
    switch key {
    case "server.host": server.host
    case "server.port": "\(server.port)"
    case "server.max_body": "\(server.maxBody)"
    case "server.max_connections": "\(server.maxConnections)"
    case "server.max_connections_per_address": "\(server.maxConnectionsPerAddress)"
    case "server.max_bytes_in_flight": "\(server.maxBytesInFlight)"
    case "server.request_deadline": "\(server.requestDeadline)"
    case "server.idle_timeout": "\(server.idleTimeout)"
    case "server.shutdown_grace": "\(server.shutdownGrace)"
    case "server.rate_limit": "\(server.rateLimit)"
    case "server.tls.certificate_file": server.tls?.certificateFile ?? "none"
    case "server.tls.key_file": server.tls?.keyFile ?? "none"
    case "server.admin.host": server.admin?.host ?? "none"
    case "server.admin.port": server.admin.map { "\($0.port)" } ?? "none"
    case "app_store.bundle_ids": appStore.bundleIDs.map(\.rawValue).sorted().joined(separator: " ")
    case "app_store.shared_secret": appStore.sharedSecret?.exposed ?? "none"
    case "app_store.production_url": appStore.productionURL
    case "app_store.sandbox_url": appStore.sandboxURL
    case "app_store.consumption.customer_consented":
      "\(appStore.consumption.information.customerConsented ?? false)"
    case "app_store.consumption.refund_preference":
      appStore.consumption.information.refundPreference?.rawValue ?? "none"
    case "app_store.consumption.sample_content_provided":
      "\(appStore.consumption.information.sampleContentProvided ?? false)"
    case "app_store.consumption.wait": "\(appStore.consumption.wait)"
    case "app_store.refund_sweep": "\(appStore.refundSweep)"
    case "app_store.clock": appStore.clock.rawValue
    case "app_store.ca_file": appStore.caFile ?? "none"
    case "app_store.roots": appStore.roots.joined(separator: " ")
    case "app_store.concurrency": "\(appStore.concurrency)"
    case "app_store.deadline": "\(appStore.deadline)"
    case "app_store.app_apple_ids": appStore.appAppleIDs.sorted().map(String.init).joined(separator: " ")
    case "app_store.server_api.key": appStore.serverAPI?.key.exposed ?? "none"
    case "app_store.server_api.key_id": appStore.serverAPI?.keyID ?? "none"
    case "app_store.server_api.issuer_id": appStore.serverAPI?.issuerID ?? "none"
    case "app_store.server_api.production_url": appStore.serverAPI?.productionURL ?? "none"
    case "app_store.server_api.sandbox_url": appStore.serverAPI?.sandboxURL ?? "none"
    case "app_store.offers.key": appStore.offers?.key.exposed ?? "none"
    case "app_store.offers.key_id": appStore.offers?.keyID ?? "none"
    case "app_store.offers.issuer_id": appStore.offers?.issuerID ?? "none"
    case "catalog.tiers": catalog.tiers.map(\.rawValue).joined(separator: " ")
    case "catalog.products":
      catalog.products.map { "\($0.key)=\($0.value.tier),\($0.value.kind)" }.sorted().joined(separator: " ")
    case "catalog.features": plans.features.map { "\($0.name)=\($0.kind)" }.joined(separator: " ")
    case "catalog.offerings": plans.offerings.map(\.name).joined(separator: " ")
    case "catalog.experiments": plans.experiments.map(\.name).joined(separator: " ")
    case "catalog.entitlements": plans.entitlements.rawValue
    case "catalog.time_zone": plans.timeZone.name
    case "catalog.accept_loss": acceptedLoss.map(\.rawValue).sorted().joined(separator: " ")
    case "policy.billing_retry_access": "\(policy.billingRetryAccess)"
    case "policy.sandbox": policy.sandbox.rawValue
    case "policy.testers": policy.testers.map(\.rawValue).sorted().joined(separator: " ")
    case "policy.ownership": policy.ownership.rawValue
    case "policy.app_account_token": policy.appAccountToken.rawValue
    case "policy.outage_hold": "\(policy.outageHold)"
    case "policy.late_renewal": "\(policy.lateRenewal)"
    case "policy.reuse": "\(policy.reuse)"
    case "policy.provisional": "\(policy.provisional)"
    case "revalidation.rate": "\(revalidation.rate)"
    case "revalidation.max_downgrades": "\(revalidation.maxDowngrades)"
    case "policy.local_verification": policy.localVerification.rawValue
    case "policy.xcode": policy.xcode.rawValue
    case "ledger.path": ledger.path
    case "ledger.reserve": "\(ledger.reserve)"
    case "ledger.pool": "\(ledger.pool)"
    case "events.keep": "\(events.age)"
    case "figures.rates_file": figures.rates?.path ?? "none"
    case "figures.currency": figures.currency
    case "retention.history": retention.history.map { "\($0)" } ?? "none"
    case "profile_store.url": profileStore?.postgREST.url ?? "none"
    case "profile_store.key": profileStore?.postgREST.key.exposed ?? "none"
    case "profile_store.schema": profileStore?.postgREST.schema?.text ?? "none"
    case "profile_store.table": profileStore?.postgREST.table.text ?? "none"
    case "profile_store.columns.id": profileStore?.postgREST.columns.id.text ?? "none"
    case "profile_store.columns.tier": profileStore?.postgREST.columns.tier.text ?? "none"
    case "profile_store.columns.status": profileStore?.postgREST.columns.status.text ?? "none"
    case "profile_store.columns.expires_at": profileStore?.postgREST.columns.expiresAt.text ?? "none"
    case "profile_store.columns.original_transaction_id":
      profileStore?.postgREST.columns.originalTransactionID.text ?? "none"
    case "profile_store.columns.version": profileStore?.postgREST.columns.version?.text ?? "none"
    case "profile_store.deadline": profileStore.map { "\($0.deadline)" } ?? "none"
    case "profile_store.ca_file": profileStore?.caFile ?? "none"
    case "auth.api_keys":
      auth.apiKeys.map {
        "\($0.name)/\($0.roles.map(\.rawValue).sorted().joined(separator: "+"))/\($0.digest.bytes.count)"
      }.joined(separator: " ")
    case "server.user_rate_limit": "\(server.userRateLimit)"
    case "server.new_customers_per_address": "\(server.newCustomersPerAddress)"
    case "server.address_rate_limit": "\(server.addressRateLimit)"
    case "server.trusted_proxies": "\(server.trustedProxies.count)"
    case "server.page_origins": server.pageOrigins.sorted().joined(separator: " ")
    case "auth.jwt.secret": auth.jwt?.secret?.exposed ?? "none"
    case "auth.jwt.jwks_url": auth.jwt?.keySetURL ?? "none"
    case "auth.jwt.issuer": auth.jwt?.issuer ?? "none"
    case "auth.jwt.audience": auth.jwt?.audience ?? "none"
    case "auth.jwt.leeway": auth.jwt.map { "\($0.leeway)" } ?? "none"
    case "log.level": log.level.rawValue
    case "log.format": log.format.rawValue
    default: "a key that no test knows: \(key)"
    }
  }
}

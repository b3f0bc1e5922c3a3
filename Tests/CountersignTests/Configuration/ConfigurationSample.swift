import Entitlements
import FoundationEssentials
import HTTPTransport
import Ledger
import Profiles
import Testing

@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// A directory of its own for one test; removed when the test lets go of it.
final class TemporaryDirectory: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.path + "/countersign-configuration-\(UUID().uuidString)"
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

/// What is wrong with a text; empty when nothing is.
func problemsOf(_ text: String, environment: [String: String] = [:]) -> [String] {
  do throws(ConfigurationError) {
    var findings = ConfigurationFindings()
    let file = ConfigurationFile(bytes: Array(text.utf8), name: "countersign.yaml", findings: &findings)
    var reader = ConfigurationReader(file: file, environment: environment, findings: findings)
    _ = try ServiceConfiguration(&reader, requiresCredential: true)
    return []
  } catch {
    return error.problems.map(\.description)
  }
}

/// What is wrong when a path is loaded as `serve` does.
func problemsLoading(_ path: String?, environment: [String: String] = [:]) -> [String] {
  do throws(ConfigurationError) {
    _ = try ServiceConfiguration.load(file: path, environment: environment)
    return []
  } catch {
    return error.problems.map(\.description)
  }
}

extension ServiceConfiguration {
  /// The value of a key as text; the switch makes a test of every key a matter of compiling.
  func rendered(_ key: ConfigurationKey) -> String {
    switch key {
    case .serverHost: server.host
    case .serverPort: "\(server.port)"
    case .serverMaxBody: "\(server.maxBody)"
    case .serverMaxConnections: "\(server.maxConnections)"
    case .serverMaxConnectionsPerAddress: "\(server.maxConnectionsPerAddress)"
    case .serverMaxBytesInFlight: "\(server.maxBytesInFlight)"
    case .serverRequestDeadline: "\(server.requestDeadline)"
    case .serverIdleTimeout: "\(server.idleTimeout)"
    case .serverShutdownGrace: "\(server.shutdownGrace)"
    case .serverRateLimit: "\(server.rateLimit)"
    case .serverTLSCertificateFile: server.tls?.certificateFile ?? "none"
    case .serverTLSKeyFile: server.tls?.keyFile ?? "none"
    case .serverAdminHost: server.admin?.host ?? "none"
    case .serverAdminPort: server.admin.map { "\($0.port)" } ?? "none"
    case .appStoreBundleIDs: appStore.bundleIDs.map(\.rawValue).sorted().joined(separator: " ")
    case .appStoreSharedSecret: appStore.sharedSecret?.exposed ?? "none"
    case .appStoreProductionURL: appStore.productionURL
    case .appStoreSandboxURL: appStore.sandboxURL
    case .appStoreCAFile: appStore.caFile ?? "none"
    case .appStoreRoots: appStore.roots.joined(separator: " ")
    case .appStoreConcurrency: "\(appStore.concurrency)"
    case .appStoreDeadline: "\(appStore.deadline)"
    case .appStoreAppAppleIDs: appStore.appAppleIDs.sorted().map(String.init).joined(separator: " ")
    case .serverAPIKey: appStore.serverAPI?.key.exposed ?? "none"
    case .serverAPIKeyID: appStore.serverAPI?.keyID ?? "none"
    case .serverAPIIssuerID: appStore.serverAPI?.issuerID ?? "none"
    case .serverAPIProductionURL: appStore.serverAPI?.productionURL ?? "none"
    case .serverAPISandboxURL: appStore.serverAPI?.sandboxURL ?? "none"
    case .catalogTiers: catalog.tiers.map(\.rawValue).joined(separator: " ")
    case .catalogProducts:
      catalog.products.map { "\($0.key)=\($0.value.tier),\($0.value.kind)" }.sorted().joined(separator: " ")
    case .catalogAcceptLoss: acceptedLoss.map(\.rawValue).sorted().joined(separator: " ")
    case .policyBillingRetryAccess: "\(policy.billingRetryAccess)"
    case .policySandbox: policy.sandbox.rawValue
    case .policyTesters: policy.testers.map(\.rawValue).sorted().joined(separator: " ")
    case .policyOwnership: policy.ownership.rawValue
    case .policyAppAccountToken: policy.appAccountToken.rawValue
    case .policyOutageHold: "\(policy.outageHold)"
    case .policyReuse: "\(policy.reuse)"
    case .policyProvisional: "\(policy.provisional)"
    case .revalidationRate: "\(revalidation.rate)"
    case .revalidationMaxDowngrades: "\(revalidation.maxDowngrades)"
    case .policyLocalVerification: policy.localVerification.rawValue
    case .policyXcode: policy.xcode.rawValue
    case .ledgerPath: ledger.path
    case .profileStoreURL: profileStore?.postgREST.url ?? "none"
    case .profileStoreKey: profileStore?.postgREST.key.exposed ?? "none"
    case .profileStoreSchema: profileStore?.postgREST.schema?.text ?? "none"
    case .profileStoreTable: profileStore?.postgREST.table.text ?? "none"
    case .profileStoreID: profileStore?.postgREST.columns.id.text ?? "none"
    case .profileStoreTier: profileStore?.postgREST.columns.tier.text ?? "none"
    case .profileStoreStatus: profileStore?.postgREST.columns.status.text ?? "none"
    case .profileStoreExpiresAt: profileStore?.postgREST.columns.expiresAt.text ?? "none"
    case .profileStoreOriginalTransactionID:
      profileStore?.postgREST.columns.originalTransactionID.text ?? "none"
    case .profileStoreVersion: profileStore?.postgREST.columns.version?.text ?? "none"
    case .profileStoreDeadline: profileStore.map { "\($0.deadline)" } ?? "none"
    case .profileStoreCAFile: profileStore?.caFile ?? "none"
    case .authAPIKeys:
      auth.apiKeys.map { "\($0.name)/\($0.role)/\($0.digest.bytes.count)" }.joined(separator: " ")
    case .serverUserRateLimit: "\(server.userRateLimit)"
    case .serverAddressRateLimit: "\(server.addressRateLimit)"
    case .serverTrustedProxies: "\(server.trustedProxies.count)"
    case .authJWTSecret: auth.jwt?.secret?.exposed ?? "none"
    case .authJWTKeySetURL: auth.jwt?.keySetURL ?? "none"
    case .authJWTIssuer: auth.jwt?.issuer ?? "none"
    case .authJWTAudience: auth.jwt?.audience ?? "none"
    case .authJWTLeeway: auth.jwt.map { "\($0.leeway)" } ?? "none"
    case .logLevel: log.level.rawValue
    case .logFormat: log.format.rawValue
    }
  }
}

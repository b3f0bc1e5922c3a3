import AppStore
import Configuration
import CountersignServer
import Entitlements
import HTTPTransport
import Ledger
import Profiles
import Validation
import Yams

extension ServiceConfiguration {
  /// Reads the whole configuration, once: environment before file before default.
  ///
  /// Paths in it are relative to the working directory.
  ///
  /// - Parameters:
  ///   - file: the path given on the command line, else the path in `COUNTERSIGN_CONFIG`. Without either there is no
  ///     file, and everything comes from the environment.
  ///   - environment: all variables of the process. Those that begin with `COUNTERSIGN_` have to be known.
  ///   - requiresCredential: whether a configuration without callers is an error; `false` for a command that serves no
  ///     requests.
  /// - Throws: every problem that was found, not only the first.
  static func load(
    file: String?, environment: [String: String], requiresCredential: Bool = true
  ) throws(ConfigurationError) -> ServiceConfiguration {
    var findings = ConfigurationFindings()
    reportUnknownVariables(environment, &findings)
    let tree: ConfigurationFile
    if let file = file ?? environment[ConfigurationKey.fileVariable] {
      tree = ConfigurationFile(path: file, findings: &findings)
    } else {
      tree = ConfigurationFile()
    }
    var reader = ConfigurationReader(file: tree, environment: environment, findings: findings)
    return try ServiceConfiguration(&reader, requiresCredential: requiresCredential)
  }

  init(_ reader: inout ConfigurationReader, requiresCredential: Bool) throws(ConfigurationError) {
    // Every section is read before any is required, so that one run reports all problems.
    let server = ServerSettings(&reader)
    let appStore = AppStore(&reader)
    let catalog = Catalog(&reader)
    let acceptedLoss = reader.list(.catalogAcceptLoss)
    let policy = Policy(&reader)
    let revalidation = Revalidation(&reader)
    let ledger = LedgerConfiguration(&reader)
    let profileStore = ProfileStoreConfiguration.read(&reader)
    let auth = Auth(&reader, requiresCredential: requiresCredential)
    let log = Log(&reader)
    if let server, let appStore { Self.compare(server, appStore, profileStore, &reader) }
    reader.warnOfReadableSecrets()
    guard reader.findings.problems.isEmpty, let server, let appStore, let catalog, let acceptedLoss, let policy,
      let revalidation, let ledger, let auth, let log
    else { throw ConfigurationError(problems: reader.findings.problems) }
    self.init(
      server: server, appStore: appStore, catalog: catalog, acceptedLoss: Set(acceptedLoss.map { ProductID($0) }),
      policy: policy, revalidation: revalidation, ledger: ledger, profileStore: profileStore, auth: auth, log: log,
      warnings: reader.findings.warnings)
  }

  private static func compare(
    _ server: ServerSettings, _ appStore: AppStore, _ profileStore: ProfileStoreConfiguration?,
    _ reader: inout ConfigurationReader
  ) {
    if server.maxBody > server.maxBytesInFlight {
      reader.findings.problem(
        reader.origin(of: .serverMaxBody),
        "must not be more than server.max_bytes_in_flight: no such body could be read")
    }
    if appStore.deadline >= server.requestDeadline {
      reader.findings.problem(
        reader.origin(of: .appStoreDeadline),
        "must be shorter than server.request_deadline: no request would live to see Apple's answer")
    }
    if let profileStore, appStore.deadline + profileStore.deadline >= server.requestDeadline {
      reader.findings.problem(
        reader.origin(of: .profileStoreDeadline),
        "must be shorter than server.request_deadline less app_store.deadline: a request may need both")
    }
    if server.shutdownGrace < server.requestDeadline {
      reader.findings.warning(
        reader.origin(of: .serverShutdownGrace),
        "is shorter than server.request_deadline: requests in progress may be cut off at shutdown")
    }
  }

  // MARK: - The environment

  private static func reportUnknownVariables(
    _ environment: [String: String], _ findings: inout ConfigurationFindings
  ) {
    let known = ConfigurationKey.environmentNames
    for (name, value) in environment.sorted(by: { $0.key < $1.key })
    where name.hasPrefix(ConfigurationKey.environmentPrefix) && !known.contains(name) {
      if environment["KUBERNETES_SERVICE_HOST"] != nil, isServiceLink(name, value) { continue }
      if let key = ConfigurationKey.allCases.first(where: {
        $0.environmentName == nil && ConfigurationKey.environmentName(of: $0.rawValue) == name
      }) {
        findings.problem(name, "\(key.rawValue) can only be given in the configuration file")
      } else {
        // Compared without the common prefix, which would make any two names similar.
        let prefix = ConfigurationKey.environmentPrefix
        let nearest = Suggestion.nearest(
          to: String(name.dropFirst(prefix.count)), among: known.map { String($0.dropFirst(prefix.count)) })
        findings.problem(
          String(name.prefix(100)), "unknown variable" + (nearest.map { "; did you mean \(prefix)\($0)?" } ?? ""))
      }
    }
  }

  /// Kubernetes adds variables to every container for a Service named `countersign` or `countersign-…`
  /// (`COUNTERSIGN_SERVICE_HOST`, `COUNTERSIGN_PORT=tcp://…`); the operator did not write them.
  ///
  /// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
  private static func isServiceLink(_ name: String, _ value: String) -> Bool {
    let link = /COUNTERSIGN_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?)/
    let numberedPort = /COUNTERSIGN_(?:[A-Z0-9_]+_)?PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?/
    let port = /COUNTERSIGN_(?:[A-Z0-9_]+_)?PORT/
    return name.wholeMatch(of: link) != nil || name.wholeMatch(of: numberedPort) != nil
      || name.wholeMatch(of: port) != nil && value.contains("://")
  }
}

// MARK: - The parts

extension ServerSettings {
  fileprivate init?(_ reader: inout ConfigurationReader) {
    let host = reader.text(.serverHost)
    let port = reader.integer(.serverPort)
    let maxBody = reader.size(.serverMaxBody)
    let maxConnections = reader.integer(.serverMaxConnections)
    let maxConnectionsPerAddress = reader.integer(.serverMaxConnectionsPerAddress)
    let maxBytesInFlight = reader.size(.serverMaxBytesInFlight)
    let requestDeadline = reader.duration(.serverRequestDeadline)
    let idleTimeout = reader.duration(.serverIdleTimeout)
    let shutdownGrace = reader.duration(.serverShutdownGrace)
    let rateLimit = reader.integer(.serverRateLimit)
    let tls = TLS.read(&reader)
    let admin = Admin.read(&reader)
    let userRateLimit = reader.integer(.serverUserRateLimit)
    let addressRateLimit = reader.integer(.serverAddressRateLimit)
    let trustedProxies = Self.trustedProxies(&reader)
    guard let host, let port, let maxBody, let maxConnections, let maxConnectionsPerAddress, let maxBytesInFlight,
      let requestDeadline, let idleTimeout, let shutdownGrace, let rateLimit, let userRateLimit, let addressRateLimit,
      let trustedProxies
    else { return nil }
    guard reader.checkHost(host, .serverHost) else { return nil }
    if tls == nil, !ListeningAddress.isLoopback(host) {
      reader.findings.warning(
        reader.origin(of: .serverHost),
        "others than this machine can connect, and what they send is not encrypted; set server.tls, or put a TLS proxy in front"
      )
    }
    self.init(
      host: host, port: port, maxBody: maxBody, maxConnections: maxConnections,
      maxConnectionsPerAddress: maxConnectionsPerAddress, maxBytesInFlight: maxBytesInFlight,
      requestDeadline: requestDeadline, idleTimeout: idleTimeout, shutdownGrace: shutdownGrace, rateLimit: rateLimit,
      userRateLimit: userRateLimit, addressRateLimit: addressRateLimit, trustedProxies: trustedProxies, tls: tls,
      admin: admin)
  }

  private static func trustedProxies(_ reader: inout ConfigurationReader) -> [AddressRange]? {
    guard let texts = reader.list(.serverTrustedProxies) else { return nil }
    let ranges = texts.map { AddressRange($0) }
    if let (bad, _) = zip(texts, ranges).first(where: { $0.1 == nil }) {
      reader.findings.problem(
        reader.origin(of: .serverTrustedProxies),
        "\(ConfigurationValue.quoted(bad)) is neither an address nor a network such as 10.0.0.0/8 or fd00::/8")
      return nil
    }
    return ranges.compactMap(\.self)
  }
}

extension ServiceConfiguration.AppStore {
  fileprivate init?(_ reader: inout ConfigurationReader) {
    let bundleIDs = Self.bundleIDs(&reader)
    let problemsBefore = reader.findings.problems.count
    let sharedSecret = reader.secret(.appStoreSharedSecret)
    let hasReadableSecret = reader.findings.problems.count == problemsBefore
    let serverAPI = ServerAPI.read(&reader)
    let appAppleIDs = Self.appAppleIDs(&reader)
    let productionURL = reader.url(.appStoreProductionURL)
    let sandboxURL = reader.url(.appStoreSandboxURL)
    let caFile = reader.existingFile(.appStoreCAFile)
    let roots = reader.existingFiles(.appStoreRoots)
    let concurrency = reader.integer(.appStoreConcurrency)
    let deadline = reader.duration(.appStoreDeadline)
    if caFile != nil {
      reader.findings.warning(
        reader.origin(of: .appStoreCAFile), "whoever holds a key of these authorities can answer in Apple's name")
    }
    if roots?.isEmpty == false {
      reader.findings.warning(
        reader.origin(of: .appStoreRoots), "everything that these roots have signed is trusted like Apple's word")
    }
    for (key, url, usual) in [
      (ConfigurationKey.appStoreProductionURL, productionURL, AppleEndpoint.production),
      (.appStoreSandboxURL, sandboxURL, AppleEndpoint.sandbox),
    ] where url != nil && url != usual {
      reader.findings.warning(
        reader.origin(of: key), "is not Apple's; the shared secret is sent there and its answers are believed")
    }
    if sharedSecret == nil, hasReadableSecret, !reader.isGiven(.serverAPIKey) {
      reader.reportMissing(
        .appStoreSharedSecret, unless: "set app_store.server_api where the app is a StoreKit 2 app only")
    }
    guard let bundleIDs, let appAppleIDs, let productionURL, let sandboxURL, let roots, let concurrency, let deadline,
      reader.findings.problems.count == problemsBefore
    else { return nil }
    self.init(
      orderedBundleIDs: bundleIDs, sharedSecret: sharedSecret, serverAPI: serverAPI, appAppleIDs: appAppleIDs,
      productionURL: productionURL, sandboxURL: sandboxURL, caFile: caFile, roots: roots, concurrency: concurrency,
      deadline: deadline)
  }

  private static func appAppleIDs(_ reader: inout ConfigurationReader) -> Set<Int64>? {
    guard let texts = reader.list(.appStoreAppAppleIDs) else { return nil }
    let numbers = texts.map { Int64($0) }
    if let (bad, _) = zip(texts, numbers).first(where: { $0.1.map { $0 <= 0 } ?? true }) {
      reader.findings.problem(
        reader.origin(of: .appStoreAppAppleIDs),
        "\(ConfigurationValue.quoted(bad)) is not an app's number, such as 1234567890")
      return nil
    }
    return Set(numbers.compactMap(\.self))
  }

  /// Letters, digits, hyphens and periods, as Apple's `CFBundleIdentifier` allows: a pattern such as `com.example.*`
  /// would never match and is refused.
  ///
  /// https://developer.apple.com/documentation/bundleresources/information-property-list/cfbundleidentifier
  private static func bundleIDs(_ reader: inout ConfigurationReader) -> [BundleID]? {
    guard let names = reader.list(.appStoreBundleIDs) else { return nil }
    let origin = reader.origin(of: .appStoreBundleIDs)
    guard !names.isEmpty else {
      reader.findings.problem(origin, "must list at least one bundle ID")
      return nil
    }
    if let bad = names.first(where: { $0.wholeMatch(of: /[A-Za-z0-9.-]{1,255}/) == nil }) {
      reader.findings.problem(origin, "\(ConfigurationValue.quoted(bad)) is not a bundle ID")
      return nil
    }
    return names.map { BundleID($0) }
  }
}

extension ServiceConfiguration.AppStore.ServerAPI {
  /// - Returns: `nil` without a key, and if anything is invalid, which is reported.
  fileprivate static func read(_ reader: inout ConfigurationReader) -> Self? {
    let problemsBefore = reader.findings.problems.count
    let text = reader.privateKey(.serverAPIKey)
    let keyID = reader.text(.serverAPIKeyID)
    let issuerID = reader.text(.serverAPIIssuerID)
    let productionURL = reader.url(.serverAPIProductionURL)
    let sandboxURL = reader.url(.serverAPISandboxURL)
    guard reader.findings.problems.count == problemsBefore, let productionURL, let sandboxURL else { return nil }
    for (key, url, usual) in [
      (ConfigurationKey.serverAPIProductionURL, productionURL, AppleEndpoint.serverAPIProduction),
      (.serverAPISandboxURL, sandboxURL, AppleEndpoint.serverAPISandbox),
    ] where url != usual {
      reader.findings.warning(
        reader.origin(of: key), "is not Apple's; tokens of the Server API's key are sent there")
    }
    guard text != nil || keyID != nil || issuerID != nil else { return nil }
    let missing: [(ConfigurationKey, Bool)] = [
      (.serverAPIKey, text == nil), (.serverAPIKeyID, keyID == nil), (.serverAPIIssuerID, issuerID == nil),
    ]
    for (key, isMissing) in missing where isMissing {
      reader.reportMissing(key, unless: "leave the rest of app_store.server_api out")
    }
    guard let text, let keyID, let issuerID else { return nil }
    let serverAPI = Self(
      key: text, keyID: keyID, issuerID: issuerID, productionURL: productionURL, sandboxURL: sandboxURL)
    do throws(ServerAPIKey.Unusable) {
      _ = try serverAPI.checkedKey()
      return serverAPI
    } catch {
      let key: ConfigurationKey =
        switch error {
        case .key: .serverAPIKey
        case .parts(.keyID): .serverAPIKeyID
        case .parts(.issuerID): .serverAPIIssuerID
        }
      reader.findings.problem(reader.origin(of: key), error.description)
      return nil
    }
  }

  /// The key that signs tokens for the Server API.
  func checkedKey() throws(ServerAPIKey.Unusable) -> ServerAPIKey {
    let privateKey: ES256Key
    do throws(ES256Key.Invalid) { privateKey = try ES256Key(pem: key.exposed) } catch { throw .key(error) }
    do throws(ServerAPIKey.Fault) {
      return try ServerAPIKey(keyID: keyID, issuerID: issuerID, key: privateKey)
    } catch { throw .parts(error) }
  }
}

extension ServerAPIKey {
  /// Why a key, its ID or its issuer is invalid.
  enum Unusable: Error, Hashable, CustomStringConvertible {
    case key(ES256Key.Invalid)
    case parts(Fault)

    var description: String {
      switch self {
      case .key(let error): error.description
      case .parts(let error): error.description
      }
    }
  }
}

extension ServiceConfiguration.Policy {
  fileprivate init?(_ reader: inout ConfigurationReader) {
    let billingRetryAccess = reader.duration(.policyBillingRetryAccess)
    let sandbox = reader.choice(.policySandbox, as: Sandbox.self)
    let testers = reader.list(.policyTesters)
    let ownership = reader.choice(.policyOwnership, as: OwnershipPolicy.self)
    let appAccountToken = reader.choice(.policyAppAccountToken, as: AppAccountToken.self)
    let outageHold = reader.duration(.policyOutageHold)
    let reuse = reader.duration(.policyReuse)
    let provisional = reader.duration(.policyProvisional)
    let localVerification = reader.choice(.policyLocalVerification, as: LocalVerificationPolicy.self)
    let xcode = reader.choice(.policyXcode, as: Xcode.self)
    guard let billingRetryAccess, let sandbox, let testers, let ownership, let appAccountToken, let outageHold,
      let reuse,
      let provisional, let localVerification, let xcode
    else { return nil }
    if xcode == .accept {
      reader.findings.warning(
        reader.origin(of: .policyXcode),
        "anybody with Xcode can make such transactions, of any product; never where real customers are")
    }
    if sandbox == .testers, testers.isEmpty {
      reader.findings.warning(
        reader.origin(of: .policySandbox), "policy.testers is empty: nobody's sandbox purchases count")
    } else if sandbox != .testers, !testers.isEmpty {
      reader.findings.warning(
        reader.origin(of: .policyTesters), "has no effect unless policy.sandbox is testers")
    }
    self.init(
      billingRetryAccess: billingRetryAccess, sandbox: sandbox, testers: Set(testers.map { UserID($0) }),
      ownership: ownership, appAccountToken: appAccountToken, outageHold: outageHold, reuse: reuse,
      provisional: provisional,
      localVerification: localVerification, xcode: xcode)
  }
}

extension ServiceConfiguration.Revalidation {
  fileprivate init?(_ reader: inout ConfigurationReader) {
    let rate = reader.integer(.revalidationRate)
    let maxDowngrades = reader.integer(.revalidationMaxDowngrades)
    guard let rate, let maxDowngrades else { return nil }
    self.init(rate: rate, maxDowngrades: maxDowngrades)
  }
}

extension ServiceConfiguration.LedgerConfiguration {
  fileprivate init?(_ reader: inout ConfigurationReader) {
    guard let path = reader.text(.ledgerPath) else { return nil }
    // SQLite reads these as an in-memory database and as a URI with options; both could lose acknowledged data.
    guard path != ":memory:", !path.hasPrefix("file:") else {
      reader.findings.problem(
        reader.origin(of: .ledgerPath), "must be the path of a file: what is recorded has to last")
      return nil
    }
    self.init(path: path)
  }
}

extension ServiceConfiguration.ProfileStoreConfiguration {
  /// - Returns: `nil` without a store, and if anything is invalid, which is reported.
  fileprivate static func read(_ reader: inout ConfigurationReader) -> Self? {
    let problemsBefore = reader.findings.problems.count
    let url = reader.baseURL(.profileStoreURL)
    let key = reader.secret(.profileStoreKey)
    let schema = reader.name(.profileStoreSchema)
    let table = reader.name(.profileStoreTable)
    let columns = columns(&reader)
    let deadline = reader.duration(.profileStoreDeadline)
    let caFile = reader.existingFile(.profileStoreCAFile)
    guard reader.findings.problems.count == problemsBefore, let table, let columns, let deadline else { return nil }

    let names = PostgRESTProfileStore.Columns()
    // Spelled-out defaults, as in the sample, do not enable the store.
    let isMeant =
      url != nil || key != nil || schema != nil || table != .profiles || columns != names || caFile != nil
    guard isMeant else { return nil }
    if url == nil { reader.reportMissing(.profileStoreURL, unless: "leave the rest of profile_store out") }
    if key == nil { reader.reportMissing(.profileStoreKey, unless: "leave the rest of profile_store out") }
    guard let url, let key else { return nil }
    if url.lowercased().hasPrefix("http://"), !ConfigurationValue.isLoopback(url) {
      reader.findings.warning(
        reader.origin(of: .profileStoreURL),
        "is not encrypted: the key and every update can be read on the way; use https")
    }
    return Self(
      postgREST: PostgRESTProfileStore.Configuration(
        url: url, key: key, schema: schema, table: table, columns: columns),
      deadline: deadline, caFile: caFile)
  }

  private static func columns(_ reader: inout ConfigurationReader) -> PostgRESTProfileStore.Columns? {
    let id = reader.name(.profileStoreID)
    let tier = reader.name(.profileStoreTier)
    let status = reader.name(.profileStoreStatus)
    let expiresAt = reader.name(.profileStoreExpiresAt)
    let originalTransactionID = reader.name(.profileStoreOriginalTransactionID)
    let version = reader.name(.profileStoreVersion)
    guard let id, let tier, let status, let expiresAt, let originalTransactionID else { return nil }
    var columns = PostgRESTProfileStore.Columns()
    columns.id = id
    columns.tier = tier
    columns.status = status
    columns.expiresAt = expiresAt
    columns.originalTransactionID = originalTransactionID
    columns.version = version
    guard Set(columns.all).count == columns.all.count else {
      reader.findings.problem("profile_store.columns", "names one column twice")
      return nil
    }
    return columns
  }
}

extension ServiceConfiguration.Log {
  fileprivate init?(_ reader: inout ConfigurationReader) {
    let level = reader.choice(.logLevel, as: Level.self)
    let format = reader.choice(.logFormat, as: Format.self)
    guard let level, let format else { return nil }
    self.init(level: level, format: format)
  }
}

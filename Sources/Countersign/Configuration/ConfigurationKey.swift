import Ledger
import Validation

/// Every key of the configuration. This one table is used to check the file, to read values and to print the reference.
///
/// The raw value is the key as nested in the file (`server.port` is `port` under `server`). A default is written as an
/// operator would write it and goes through the same parser, so the reference shows what the service does.
enum ConfigurationKey: String, CaseIterable, Sendable {
  case serverHost = "server.host"
  case serverPort = "server.port"
  case serverMaxBody = "server.max_body"
  case serverMaxConnections = "server.max_connections"
  case serverMaxConnectionsPerAddress = "server.max_connections_per_address"
  case serverMaxBytesInFlight = "server.max_bytes_in_flight"
  case serverRequestDeadline = "server.request_deadline"
  case serverIdleTimeout = "server.idle_timeout"
  case serverShutdownGrace = "server.shutdown_grace"
  case serverRateLimit = "server.rate_limit"
  case serverTLSCertificateFile = "server.tls.certificate_file"
  case serverTLSKeyFile = "server.tls.key_file"
  case serverAdminHost = "server.admin.host"
  case serverAdminPort = "server.admin.port"
  case serverUserRateLimit = "server.user_rate_limit"
  case serverAddressRateLimit = "server.address_rate_limit"
  case serverTrustedProxies = "server.trusted_proxies"
  case appStoreBundleIDs = "app_store.bundle_ids"
  case appStoreSharedSecret = "app_store.shared_secret"
  case appStoreProductionURL = "app_store.production_url"
  case appStoreSandboxURL = "app_store.sandbox_url"
  case appStoreCAFile = "app_store.ca_file"
  case appStoreRoots = "app_store.roots"
  case appStoreConcurrency = "app_store.concurrency"
  case appStoreDeadline = "app_store.deadline"
  case appStoreAppAppleIDs = "app_store.app_apple_ids"
  case serverAPIKey = "app_store.server_api.key"
  case serverAPIKeyID = "app_store.server_api.key_id"
  case serverAPIIssuerID = "app_store.server_api.issuer_id"
  case serverAPIProductionURL = "app_store.server_api.production_url"
  case serverAPISandboxURL = "app_store.server_api.sandbox_url"
  case catalogTiers = "catalog.tiers"
  case catalogProducts = "catalog.products"
  case catalogAcceptLoss = "catalog.accept_loss"
  case policyBillingRetryAccess = "policy.billing_retry_access"
  case policySandbox = "policy.sandbox"
  case policyTesters = "policy.testers"
  case policyOwnership = "policy.ownership"
  case policyAppAccountToken = "policy.app_account_token"
  case policyOutageHold = "policy.outage_hold"
  case policyReuse = "policy.reuse"
  case policyProvisional = "policy.provisional"
  case policyLocalVerification = "policy.local_verification"
  case policyXcode = "policy.xcode"
  case revalidationRate = "revalidation.rate"
  case revalidationMaxDowngrades = "revalidation.max_downgrades"
  case ledgerPath = "ledger.path"
  case profileStoreURL = "profile_store.url"
  case profileStoreKey = "profile_store.key"
  case profileStoreSchema = "profile_store.schema"
  case profileStoreTable = "profile_store.table"
  case profileStoreID = "profile_store.columns.id"
  case profileStoreTier = "profile_store.columns.tier"
  case profileStoreStatus = "profile_store.columns.status"
  case profileStoreExpiresAt = "profile_store.columns.expires_at"
  case profileStoreOriginalTransactionID = "profile_store.columns.original_transaction_id"
  case profileStoreVersion = "profile_store.columns.version"
  case profileStoreDeadline = "profile_store.deadline"
  case profileStoreCAFile = "profile_store.ca_file"
  case authAPIKeys = "auth.api_keys"
  case authJWTSecret = "auth.jwt.secret"
  case authJWTKeySetURL = "auth.jwt.jwks_url"
  case authJWTIssuer = "auth.jwt.issuer"
  case authJWTAudience = "auth.jwt.audience"
  case authJWTLeeway = "auth.jwt.leeway"
  case logLevel = "log.level"
  case logFormat = "log.format"

  /// The form of a value.
  enum Kind: Sendable {
    case text
    case integer(ClosedRange<Int>)
    /// Bytes.
    case size(ClosedRange<Int>)
    case duration(ClosedRange<Duration>)
    case choice([String])
    /// An https URL.
    case url
    /// An https URL, or an http one on this machine.
    case keySetURL
    /// An https or http URL without a query; paths are added to it.
    case baseURL
    /// The name of a schema, table or column.
    case name
    case file
    /// Text that is never printed; a file can supply it, by the same key with the suffix `_file`.
    case secret
    /// A private key in PEM, treated as a secret.
    case privateKey
    case list
    case fileList
    /// Product ID → tier and kind. In the file only.
    case products
    /// Callers' API keys. In the file only.
    case apiKeys
  }

  enum Default: Sendable {
    /// No default: the service does not start without a value.
    case required
    case absent
    case text(String)
    case emptyList
  }

  struct Entry: Sendable {
    let kind: Kind
    let `default`: Default
    let summary: String

    init(_ kind: Kind, _ `default`: Default, _ summary: String) {
      self.kind = kind
      self.default = `default`
      self.summary = summary
    }
  }

  var entry: Entry {
    switch self {
    case .serverHost:
      Entry(.text, .text("127.0.0.1"), "Address to listen on")
    case .serverPort:
      Entry(.integer(0...65_535), .text("8080"), "Port to listen on; 0 takes a free one")
    case .serverMaxBody:
      Entry(.size(1 << 10...64 << 20), .text("4MiB"), "The largest request body that is taken")
    case .serverMaxConnections:
      Entry(.integer(1...100_000), .text("10000"), "Connections held at once; more of them wait to be accepted")
    case .serverMaxConnectionsPerAddress:
      Entry(
        .integer(0...100_000), .text("200"),
        "Connections held at once of one client address; more are closed. Proxies in `server.trusted_proxies` and this "
          + "machine have no such limit; 0 is none for anybody")
    case .serverMaxBytesInFlight:
      Entry(.size(1 << 20...4 << 30), .text("64MiB"), "Bytes of request bodies in memory at once, over all requests")
    case .serverRequestDeadline:
      Entry(.duration(.milliseconds(100)...minutes(10)), .text("15s"), "A whole request, from first byte to answer")
    case .serverIdleTimeout:
      Entry(.duration(.milliseconds(100)...minutes(10)), .text("10s"), "A connection on which nothing moves is closed")
    case .serverShutdownGrace:
      Entry(.duration(.zero...minutes(10)), .text("20s"), "How long requests in progress may finish at shutdown")
    case .serverRateLimit:
      Entry(.integer(0...1_000_000), .text("0"), "Requests a second that one API key may make; 0 is no limit")
    case .serverTLSCertificateFile:
      Entry(
        .file, .absent,
        "The server's certificate and its intermediates (PEM); with it the service speaks TLS. A renewed one is taken "
          + "up without a restart")
    case .serverTLSKeyFile:
      Entry(.file, .absent, "The private key of that certificate (PEM, not encrypted)")
    case .serverAdminHost:
      Entry(.text, .absent, "Address for operators; 127.0.0.1 where only `server.admin.port` is set")
    case .serverAdminPort:
      Entry(
        .integer(0...65_535), .absent,
        "Port for operators: `/metrics` and `/readyz` are served there, in plain HTTP, and no longer on `server.port`; "
          + "0 takes a free one")
    case .serverUserRateLimit:
      Entry(.integer(0...1_000_000), .text("10"), "Requests a second that one user may make; 0 is no limit")
    case .serverAddressRateLimit:
      Entry(
        .integer(0...1_000_000), .text("300"),
        "Requests a second from one client address, of callers without an API key; 0 is no limit")
    case .serverTrustedProxies:
      Entry(
        .list, .emptyList,
        "Proxies in front, as addresses or networks (`10.0.0.0/8`): their `X-Forwarded-For` names the client")
    case .appStoreBundleIDs:
      Entry(.list, .required, "Our apps; a receipt of any other is refused")
    case .appStoreSharedSecret:
      Entry(
        .secret, .absent,
        "App-specific shared secret from App Store Connect; required unless `app_store.server_api` is set, and needed "
          + "for receipts that only verifyReceipt can tell of")
    case .appStoreProductionURL:
      Entry(.url, .text(AppleEndpoint.production), "verifyReceipt of production")
    case .appStoreSandboxURL:
      Entry(.url, .text(AppleEndpoint.sandbox), "verifyReceipt of the sandbox")
    case .appStoreCAFile:
      Entry(.file, .absent, "Certificate authorities to trust for TLS to Apple's URLs (PEM), in place of the system's")
    case .appStoreRoots:
      Entry(
        .fileList, .emptyList,
        "Root certificates that receipts, transactions and notifications must chain to; empty: Apple's")
    case .appStoreConcurrency:
      Entry(.integer(1...4_096), .text("64"), "Calls to Apple in flight at once")
    case .appStoreDeadline:
      Entry(.duration(.milliseconds(100)...minutes(5)), .text("10s"), "A whole validation, every attempt included")
    case .appStoreAppAppleIDs:
      Entry(
        .list, .emptyList,
        "The apps' numbers in App Store Connect; a notification, or an answer of the Server API, of production's that names "
          + "another is refused. Empty: the bundle ID alone decides")
    case .serverAPIKey:
      Entry(
        .privateKey, .absent,
        "Private key of the App Store Server API (the .p8 file of App Store Connect); with it original transaction IDs "
          + "are looked up, and re-validation asks the Server API")
    case .serverAPIKeyID:
      Entry(.text, .absent, "The ID of that key; required with it")
    case .serverAPIIssuerID:
      Entry(.text, .absent, "The issuer ID of App Store Connect; required with the key")
    case .serverAPIProductionURL:
      Entry(.url, .text(AppleEndpoint.serverAPIProduction), "The Server API of production")
    case .serverAPISandboxURL:
      Entry(.url, .text(AppleEndpoint.serverAPISandbox), "The Server API of the sandbox")
    case .catalogTiers:
      Entry(.list, .required, "The app's plans in ascending order; the first is what a user has who bought nothing")
    case .catalogProducts:
      Entry(.products, .absent, "Product ID to `{tier, kind}`; kind is `subscription` (default) or `lifetime`")
    case .catalogAcceptLoss:
      Entry(
        .list, .emptyList,
        "Products that the catalog may take from those who have them: the start is not refused for it, and nobody is "
          + "lowered until the downgrade brake is released")
    case .policyBillingRetryAccess:
      Entry(.duration(.zero...days(365)), .text("60d"), "Access while Apple retries a failed renewal; 0 is strict")
    case .policySandbox:
      Entry(
        .choice(names(ServiceConfiguration.Policy.Sandbox.self)), .text("accept"), "Whose sandbox purchases count")
    case .policyTesters:
      Entry(.list, .emptyList, "User IDs whose sandbox purchases count under `testers`")
    case .policyOwnership:
      Entry(.choice(names(OwnershipPolicy.self)), .text("keep"), "Who keeps a purchase that a second user presents")
    case .policyAppAccountToken:
      Entry(
        .choice(names(ServiceConfiguration.Policy.AppAccountToken.self)), .text("hint"),
        "Whom a notification about a purchase that nobody has presented is for: `hint`, the user whom its "
          + "`appAccountToken` names, if known; `user_id`, that user in any case, as the app always gives the user's ID"
      )
    case .policyOutageHold:
      Entry(
        .duration(.zero...days(365)), .text("7d"), "How long past its end a state stands while Apple cannot be asked")
    case .policyReuse:
      Entry(
        .duration(.zero...minutes(60)), .text("30s"),
        "How long Apple's answer about a receipt is used again; 0 asks every time")
    case .policyProvisional:
      Entry(
        .duration(.zero...days(30)), .text("24h"),
        "How long a new purchase counts on its signature while Apple cannot be asked; 0 is not at all")
    case .revalidationRate:
      Entry(
        .integer(1...1_000), .text("10"), "Subscriptions a second that the service by itself asks Apple about again")
    case .revalidationMaxDowngrades:
      Entry(
        .integer(1...100), .text("20"),
        "Percent of the subscriptions looked at in a day (of at least 50) that the service may lower unannounced "
          + "before it waits for a person")
    case .policyLocalVerification:
      Entry(
        .choice(names(LocalVerificationPolicy.self)), .text("advise"),
        "`require` refuses what cannot be proven here; `advise` leaves the last word to Apple")
    case .policyXcode:
      Entry(
        .choice(names(ServiceConfiguration.Policy.Xcode.self)), .text("reject"),
        "Transactions signed by Xcode's StoreKit testing: `accept` takes them as the sandbox's, for development only, "
          + "as everybody can make them")
    case .ledgerPath:
      Entry(.file, .text("countersign.sqlite"), "The ledger's SQLite file")
    case .profileStoreURL:
      Entry(
        .baseURL, .absent,
        "PostgREST that holds the app's profiles, `https://project.supabase.co/rest/v1`; without it none are written")
    case .profileStoreKey:
      Entry(
        .secret, .absent,
        "Its secret key, or a token of service_role; without samples/supabase, of any role that may write; "
          + "required with the URL")
    case .profileStoreSchema:
      Entry(.name, .absent, "The profiles' schema, where it is not the first that PostgREST exposes")
    case .profileStoreTable:
      Entry(.name, .text("profiles"), "The profiles' table")
    case .profileStoreID:
      Entry(.name, .text("id"), "Column of the user ID; unique")
    case .profileStoreTier:
      Entry(.name, .text("subscription_tier"), "Column of the tier")
    case .profileStoreStatus:
      Entry(.name, .text("subscription_status"), "Column of the status")
    case .profileStoreExpiresAt:
      Entry(
        .name, .text("subscription_expires_at"), "Column of the moment when access ends; `timestamptz`, may be null")
    case .profileStoreOriginalTransactionID:
      Entry(.name, .text("original_transaction_id"), "Column of the original transaction ID; may be null")
    case .profileStoreVersion:
      Entry(
        .name, .absent,
        "Column of a version, `bigint not null default 0`: with it, an older update never overwrites a newer one")
    case .profileStoreDeadline:
      Entry(
        .duration(.milliseconds(100)...minutes(1)), .text("2s"),
        "How long a request waits for the profile to be written; what takes longer is written later")
    case .profileStoreCAFile:
      Entry(.file, .absent, "Certificate authorities to trust for TLS to the store (PEM), in place of the system's")
    case .authAPIKeys:
      Entry(.apiKeys, .absent, "Servers that may call: `{name, role: service or support, sha256}`")
    case .authJWTSecret:
      Entry(.secret, .absent, "Secret by which users' tokens are signed (HS256); at least 32 characters")
    case .authJWTKeySetURL:
      Entry(.keySetURL, .absent, "Where the public keys are by which users' tokens are signed (RS256, ES256)")
    case .authJWTIssuer:
      Entry(.text, .absent, "The `iss` that users' tokens must have; without it any")
    case .authJWTAudience:
      Entry(.text, .absent, "The `aud` that users' tokens must have; without it any")
    case .authJWTLeeway:
      Entry(
        .duration(.zero...minutes(5)), .text("30s"), "How far the clock of whoever makes the tokens may be off ours")
    case .logLevel:
      Entry(
        .choice(names(ServiceConfiguration.Log.Level.self)), .text("info"), "The least important line that is logged")
    case .logFormat:
      Entry(.choice(names(ServiceConfiguration.Log.Format.self)), .text("json"), "One JSON object a line, or text")
    }
  }

  /// The prefix of all our environment variables.
  static let environmentPrefix = "COUNTERSIGN_"

  /// The path of the configuration file.
  static let fileVariable = "COUNTERSIGN_CONFIG"

  /// The environment variable; `nil` for keys allowed only in a file.
  var environmentName: String? {
    switch entry.kind {
    case .products, .apiKeys: nil
    default: Self.environmentName(of: rawValue)
    }
  }

  /// The key for a file that contains the value: secrets only.
  var fileVariant: String? {
    switch entry.kind {
    case .secret, .privateKey: rawValue + "_file"
    default: nil
    }
  }

  static func environmentName(of key: String) -> String {
    environmentPrefix + key.uppercased().replacing(".", with: "_")
  }

  /// Keys with one more level of nesting: `profile_store.columns`.
  static let groups: Set<String> = Set(
    allCases.compactMap { key in
      let parts = key.rawValue.split(separator: ".").dropLast()
      return parts.count > 1 ? parts.joined(separator: ".") : nil
    })

  /// `server`, `app_store`, …
  static let sections: [String] = allCases.reduce(into: []) { sections, key in
    let section = String(key.rawValue.prefix { $0 != "." })
    if !sections.contains(section) { sections.append(section) }
  }

  /// Every dotted key allowed in the file.
  static let fileKeys: [String] = allCases.flatMap { [$0.rawValue] + ($0.fileVariant.map { [$0] } ?? []) }

  /// Variables of `revalidate`, which the service accepts, as both may share an environment.
  private static let commandVariables = [CommandVariable.url, CommandVariable.apiKey]

  /// Every environment variable that is read.
  static let environmentNames: [String] =
    [fileVariable] + commandVariables + defectVariables
    + allCases.flatMap { key in
      [key.environmentName, key.fileVariant.map(environmentName(of:))].compactMap(\.self)
    }
}

#if PLANTED_DEFECTS
  /// The variable that activates a planted defect in a debug build.
  private let defectVariables = ["COUNTERSIGN_PLANTED_DEFECT"]
#else
  private let defectVariables: [String] = []
#endif

/// Apple's own endpoints.
///
/// https://developer.apple.com/documentation/appstorereceipts/verifyreceipt
enum AppleEndpoint {
  static let production = "https://buy.itunes.apple.com/verifyReceipt"
  static let sandbox = "https://sandbox.itunes.apple.com/verifyReceipt"
  /// https://developer.apple.com/documentation/appstoreserverapi
  static let serverAPIProduction = "https://api.storekit.itunes.apple.com"
  static let serverAPISandbox = "https://api.storekit-sandbox.itunes.apple.com"
}

private func days(_ count: Int) -> Duration { .seconds(count * 86_400) }

private func minutes(_ count: Int) -> Duration { .seconds(count * 60) }

private func names<Choice: CaseIterable & RawRepresentable<String>>(_: Choice.Type) -> [String] {
  Choice.allCases.map(\.rawValue)
}

import Access
import CountersignServer
import Entitlements
import HTTPTransport
import Ledger
import Logging
import Webhooks

/// All settings of the operator, read once at the start.
///
/// Each section reads its keys itself, with their forms, defaults and summaries: see `ConfigurationKey`.
struct ServiceConfiguration: Sendable {
  let server: ServerSettings
  let appStore: AppStore
  let catalog: Catalog
  let plans: Plans
  let trials: [TrialTerms]
  let deviceCheck: DeviceCheckSection?
  /// `catalog.accept_loss`
  let acceptedLoss: Set<ProductID>
  let policy: Policy
  let revalidation: Revalidation
  let ledger: LedgerConfiguration
  let events: Events
  let retention: Retention
  let figures: Figures
  /// `nil`: profiles are not written.
  let profileStore: ProfileStoreConfiguration?
  let auth: Auth
  let dialects: Set<Dialect>
  /// `nil`: RevenueCat's webhooks are not taken.
  let revenueCat: RevenueCat?
  let webhooks: [WebhookEndpoint]
  let log: Log
  /// Allowed settings that deserve a line in the log at every start.
  let warnings: [ConfigurationFinding]

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
    var reader = reader(file: file, environment: environment)
    return try ServiceConfiguration(&reader, requiresCredential: requiresCredential)
  }

  private static func reader(file: String?, environment: [String: String]) -> ConfigurationReader {
    var findings = ConfigurationFindings()
    ConfigurationKey.reportUnknownVariables(environment, &findings)
    let path = file ?? environment[ConfigurationKey.fileVariable]
    let tree = path.map { ConfigurationFile(path: $0, findings: &findings) } ?? ConfigurationFile()
    return ConfigurationReader(file: tree, environment: environment, findings: findings)
  }

  /// The settings for a comparison of catalog and ledger. No secret is read: a catalog can be checked without any.
  static func loadCatalog(file: String?, environment: [String: String]) throws(ConfigurationError) -> CatalogSettings {
    var reader = reader(file: file, environment: environment)
    let section = CatalogSection(&reader)
    let settings = (Revalidation(&reader), LedgerConfiguration(&reader))
    guard reader.findings.problems.isEmpty, let section else {
      throw ConfigurationError(problems: reader.findings.problems)
    }
    return CatalogSettings(
      section: section, maxDowngrades: settings.0.maxDowngrades, ledger: settings.1.place,
      warnings: reader.findings.warnings)
  }

  /// Every section is read before a problem is thrown, so that one run reports all of them.
  init(_ reader: inout ConfigurationReader, requiresCredential: Bool) throws(ConfigurationError) {
    let problemsBefore = reader.findings.problems.count
    server = ServerSettings(&reader)
    appStore = AppStore(&reader)
    let areComparable = reader.findings.problems.count == problemsBefore
    let catalog = CatalogSection(&reader)
    trials = Self.trials(&reader, tiers: catalog?.plans.plans.map(\.tier) ?? [])
    deviceCheck = DeviceCheckSection(&reader)
    policy = Policy(&reader)
    revalidation = Revalidation(&reader)
    ledger = LedgerConfiguration(&reader)
    events = Events(&reader)
    retention = Retention(&reader, events: events)
    figures = Figures(&reader)
    profileStore = ProfileStoreConfiguration(&reader)
    if case .database = ledger.place, let profileStore, !profileStore.hasVersions {
      reader.warning(
        "profile_store.columns.version",
        "is not set: beside other replicas an older update may overwrite a newer one, until the user's next verdict")
    }
    auth = Auth(&reader, requiresCredential: requiresCredential)
    dialects = Set(
      reader.list(
        "dialects", of: .dialect,
        "Other services' interfaces to speak beside the native API: "
          + Dialect.allCases.map { "`\($0.rawValue)`" }.joined(separator: ", ")))
    revenueCat = RevenueCat(&reader)
    let apps = appStore.orderedBundleIDs
    webhooks = Self.webhooks(&reader, events: events, app: apps.count == 1 ? apps.first : nil)
    log = Log(&reader)
    if areComparable, dialects.contains(.verifyReceipt), appStore.sharedSecret == nil {
      reader.problem(
        "dialects", "verify_receipt needs app_store.shared_secret: its answers are those of Apple's verifyReceipt")
    }
    if areComparable, !appStore.signsOffers, catalog?.plans.terms.values.contains(where: \.hasOffers) == true {
      reader.problem(
        "catalog.products",
        "has offers, and no key signs them: set app_store.server_api, or app_store.offers for a key of their own")
    }
    if areComparable {
      Self.compare(server, appStore, profileStore, &reader)
      for key in auth.publicKeys where !appStore.bundleIDs.contains(key.bundleID) {
        reader.problem(
          "auth.public_keys",
          "\(Quotation.of(key.name)) is of an app that app_store.bundle_ids does not list: every purchase would be refused"
        )
      }
    }
    reader.warnOfReadableSecrets()
    warnings = reader.findings.warnings
    guard reader.findings.problems.isEmpty, let catalog else {
      throw ConfigurationError(problems: reader.findings.problems)
    }
    self.catalog = catalog.catalog
    plans = catalog.plans
    acceptedLoss = catalog.acceptedLoss
  }

  private static func compare(
    _ server: ServerSettings, _ appStore: AppStore, _ profileStore: ProfileStoreConfiguration?,
    _ reader: inout ConfigurationReader
  ) {
    if server.maxBody > server.maxBytesInFlight {
      reader.problem("server.max_body", "must not be more than server.max_bytes_in_flight: no such body could be read")
    }
    // `::` stands for every address of both families.
    func covers(_ host: String, _ other: String) -> Bool {
      host == other || host == "::" || host == "0.0.0.0" && !other.contains(":")
    }
    if let admin = server.admin, admin.port == server.port, admin.port != 0,
      covers(admin.host, server.host) || covers(server.host, admin.host)
    {
      reader.problem("server.admin.port", "must not be server.port: each address needs a port of its own")
    }
    if appStore.deadline >= server.requestDeadline {
      reader.problem(
        "app_store.deadline",
        "must be shorter than server.request_deadline: no request would live to see Apple's answer")
    }
    if let profileStore, appStore.deadline + profileStore.deadline >= server.requestDeadline {
      reader.problem(
        "profile_store.deadline",
        "must be shorter than server.request_deadline less app_store.deadline: a request may need both")
    }
    if server.shutdownGrace < server.requestDeadline {
      reader.warning(
        "server.shutdown_grace",
        "is shorter than server.request_deadline: requests in progress may be cut off at shutdown")
    }
  }

  // MARK: - Small sections

  /// The service's own checks with Apple.
  struct Revalidation: Hashable, Sendable {
    /// Subscriptions a second.
    let rate: Int
    /// Percent of the subscriptions checked.
    let maxDowngrades: Int

    init(_ reader: inout ConfigurationReader) {
      rate = reader.read(
        "revalidation.rate", .integer(1...1_000), default: 10,
        "Subscriptions per second that the service re-validates on its own")
      maxDowngrades = reader.read(
        "revalidation.max_downgrades", .integer(1...100), default: 20,
        "Percentage of the subscriptions evaluated in a day (at least 50 are assumed) that the service may downgrade "
          + "unexpectedly before it waits for a person")
    }
  }

  struct LedgerConfiguration: Hashable, Sendable {
    let path: String
    let place: LedgerPlace
    /// Connections to a database.
    let pool: Int
    /// The part of the disk that is kept for purchases, in percent.
    let reserve: Int

    init(_ reader: inout ConfigurationReader) {
      path = reader.read("ledger.path", .databaseFile, default: "countersign.sqlite", "The ledger's SQLite file")
      let url = reader.secret(
        "ledger.url", .databaseURL,
        "The ledger's PostgreSQL database, in place of `ledger.path`, for several replicas: "
          + "`postgresql://user:password@host/database`")
      pool = reader.read(
        "ledger.pool", .integer(1...200), default: 16, "Connections of each replica to the database of `ledger.url`")
      reserve = reader.read(
        "ledger.reserve", .integer(0...100), default: 10,
        "Percentage of the disk of `ledger.path` that is kept for purchases: while less is free, events, consumption, "
          + "attributes, new customers and new devices are refused; 0 keeps none")
      guard let url else {
        place = .file(path)
        return
      }
      if LedgerPlace.isReadableByOthers(url.exposed) {
        reader.warning(
          "ledger.url",
          "its sslmode lets purchases and the password go to another machine in clear; leave sslmode out, which is verify-full"
        )
      }
      place = .database(url: url.exposed, connections: pool)
    }
  }

  /// The events that others read.
  struct Events: Hashable, Sendable {
    let age: Duration

    init(_ reader: inout ConfigurationReader) {
      age = reader.read(
        "events.keep", .duration(.days(1) ... .days(3_660)), default: .days(400),
        "How long events are kept for `GET /v1/events`")
    }
  }

  /// The periods for which old data is kept.
  struct Retention: Hashable, Sendable {
    /// `nil`: for ever.
    let history: Duration?

    static let range: ClosedRange<Duration> = .days(30) ... .days(36_500)

    /// - Parameter events: they refer to verdicts of the history.
    init(_ reader: inout ConfigurationReader, events: Events) {
      let key = "retention.history"
      history = reader.read(
        key, .duration(Self.range),
        "How long each user's history is kept complete. Older lines that changed nothing are removed")
      guard let history, history < events.age else { return }
      reader.problem(
        key,
        "must not be shorter than events.keep, which is \(events.age.configurationText): events tell what the history says"
      )
    }
  }

  struct Log: Hashable, Sendable {
    enum Format: String, Hashable, Sendable, CaseIterable {
      case json
      case text
    }

    let level: Logger.Level
    let format: Format

    init(_ reader: inout ConfigurationReader) {
      level = reader.read("log.level", .choice, default: .info, "The least severe level that is logged")
      format = reader.read("log.format", .choice, default: .json, "One JSON object per line, or text")
    }
  }
}

import CountersignServer
import Entitlements
import HTTPTransport
import Ledger
import Profiles
import Validation

/// All settings of the operator, read once at the start and checked by `load`.
///
/// `ConfigurationKey` lists every key with its default and its meaning.
struct ServiceConfiguration: Sendable {
  struct AppStore: Hashable, Sendable {
    /// The App Store Server API, and its key.
    struct ServerAPI: Hashable, Sendable {
      /// In PEM; already parsed as a key when the configuration was read.
      let key: Secret
      let keyID: String
      let issuerID: String
      let productionURL: String
      let sandboxURL: String
    }

    /// Never empty; in the order of the file, which is the order of attempts for a purchase of an unknown app.
    let orderedBundleIDs: [BundleID]
    /// `nil`: verifyReceipt is not called. At least one of this and `serverAPI` is set.
    let sharedSecret: Secret?
    let serverAPI: ServerAPI?
    /// App IDs that production notifications may name; any when empty.
    let appAppleIDs: Set<Int64>
    let productionURL: String
    let sandboxURL: String
    /// CA certificates for TLS, in place of the system's.
    let caFile: String?
    /// Files of root certificates; Apple's own when empty.
    let roots: [String]
    let concurrency: Int
    let deadline: Duration

    var bundleIDs: Set<BundleID> { Set(orderedBundleIDs) }
  }

  struct Policy: Hashable, Sendable {
    /// The users whose sandbox purchases count.
    enum Sandbox: String, Hashable, Sendable, CaseIterable {
      case accept
      case testers
      case reject
    }

    /// The meaning of a purchase's `appAccountToken`.
    enum AppAccountToken: String, Hashable, Sendable, CaseIterable {
      /// A hint at the user of the purchase, if that user is known.
      case hint
      /// The ID of a user, known or not.
      case userID = "user_id"
    }

    /// The treatment of transactions signed by Xcode's StoreKit testing.
    enum Xcode: String, Hashable, Sendable, CaseIterable {
      case reject
      case accept
    }

    /// Zero: a failed renewal ends access at once, unless Apple grants grace.
    let billingRetryAccess: Duration
    let sandbox: Sandbox
    let testers: Set<UserID>
    let ownership: OwnershipPolicy
    let appAccountToken: AppAccountToken
    let outageHold: Duration
    /// Zero: Apple is asked every time.
    let reuse: Duration
    /// Zero: nothing counts before Apple was asked.
    let provisional: Duration
    let localVerification: LocalVerificationPolicy
    let xcode: Xcode
  }

  /// The service's own checks with Apple.
  struct Revalidation: Hashable, Sendable {
    /// Subscriptions a second.
    let rate: Int
    /// Percent of the subscriptions checked.
    let maxDowngrades: Int
  }

  struct LedgerConfiguration: Hashable, Sendable {
    let path: String
  }

  /// The location of the app's profiles, and the settings of their updates.
  struct ProfileStoreConfiguration: Hashable, Sendable {
    let postgREST: PostgRESTProfileStore.Configuration
    /// For one update, all of its requests included.
    let deadline: Duration
    /// CA certificates for TLS, in place of the system's.
    let caFile: String?

    /// Whether the store has no TLS, which a transport has to be told to allow.
    var isPlain: Bool { postgREST.url.lowercased().hasPrefix("http://") }
  }

  struct Auth: Hashable, Sendable {
    /// The settings for verifying users' tokens.
    struct JWT: Hashable, Sendable {
      /// For HS256. At least one of this and `keySetURL` is set.
      let secret: Secret?
      /// For RS256 and ES256.
      let keySetURL: String?
      let issuer: String?
      let audience: String?
      /// The tolerated difference of clocks.
      let leeway: Duration
    }

    let apiKeys: [APIKey]
    /// `nil`: users cannot call.
    let jwt: JWT?
  }

  struct Log: Hashable, Sendable {
    /// The levels of swift-log.
    enum Level: String, Hashable, Sendable, CaseIterable {
      case trace
      case debug
      case info
      case notice
      case warning
      case error
      case critical
    }

    enum Format: String, Hashable, Sendable, CaseIterable {
      case json
      case text
    }

    let level: Level
    let format: Format
  }

  let server: ServerSettings
  let appStore: AppStore
  let catalog: Catalog
  /// `catalog.accept_loss`
  let acceptedLoss: Set<ProductID>
  let policy: Policy
  let revalidation: Revalidation
  let ledger: LedgerConfiguration
  /// `nil`: profiles are not written.
  let profileStore: ProfileStoreConfiguration?
  let auth: Auth
  let log: Log
  /// Allowed settings that deserve a line in the log at every start.
  let warnings: [ConfigurationFinding]
}

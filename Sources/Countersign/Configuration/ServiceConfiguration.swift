import CountersignServer
import Entitlements
import HTTPTransport
import Ledger
import Profiles
import Validation

/// Everything that an operator can decide, read once at the start and checked by `load`.
///
/// `ConfigurationKey` lists every key with its default and its meaning.
struct ServiceConfiguration: Sendable {
  struct AppStore: Hashable, Sendable {
    /// The App Store Server API, and the key that opens it.
    struct ServerAPI: Hashable, Sendable {
      /// In PEM; it was read as a key when the configuration was.
      let key: Secret
      let keyID: String
      let issuerID: String
      let productionURL: String
      let sandboxURL: String
    }

    /// Never empty; in the order of the file, in which they are tried where it is not known whose a purchase is.
    let orderedBundleIDs: [BundleID]
    /// `nil`: verifyReceipt is not asked. There is this, or `serverAPI`, or both.
    let sharedSecret: Secret?
    let serverAPI: ServerAPI?
    /// Numbers that notifications of production's may name; any when empty.
    let appAppleIDs: Set<Int64>
    let productionURL: String
    let sandboxURL: String
    /// Authorities for TLS, in place of the system's.
    let caFile: String?
    /// Files of root certificates; Apple's own when empty.
    let roots: [String]
    let concurrency: Int
    let deadline: Duration

    var bundleIDs: Set<BundleID> { Set(orderedBundleIDs) }
  }

  struct Policy: Hashable, Sendable {
    /// Whose sandbox purchases count.
    enum Sandbox: String, Hashable, Sendable, CaseIterable {
      case accept
      case testers
      case reject
    }

    /// The meaning of a purchase's `appAccountToken` for its user.
    enum AppAccountToken: String, Hashable, Sendable, CaseIterable {
      /// A hint at the user whom the purchase was made for, where such a user is known.
      case hint
      /// The ID of a user, known or not.
      case userID = "user_id"
    }

    /// What becomes of transactions that Xcode's StoreKit testing signed.
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

  /// What the service asks Apple by itself.
  struct Revalidation: Hashable, Sendable {
    /// Subscriptions a second.
    let rate: Int
    /// Percent of those looked at.
    let maxDowngrades: Int
  }

  struct LedgerConfiguration: Hashable, Sendable {
    let path: String
  }

  /// Where the app's own profiles are, and how they are written.
  struct ProfileStoreConfiguration: Hashable, Sendable {
    let postgREST: PostgRESTProfileStore.Configuration
    /// For one update, every request of it included.
    let deadline: Duration
    /// Authorities for TLS, in place of the system's.
    let caFile: String?

    /// Whether the store speaks without TLS, which a transport has to be told to allow.
    var isPlain: Bool { postgREST.url.lowercased().hasPrefix("http://") }
  }

  struct Auth: Hashable, Sendable {
    /// How users' tokens are checked.
    struct JWT: Hashable, Sendable {
      /// For HS256. There is this, or `keySetURL`, or both.
      let secret: Secret?
      /// For RS256 and ES256.
      let keySetURL: String?
      let issuer: String?
      let audience: String?
      /// For clocks that differ.
      let leeway: Duration
    }

    let apiKeys: [APIKey]
    /// `nil`: users cannot call.
    let jwt: JWT?
  }

  struct Log: Hashable, Sendable {
    /// The words of swift-log.
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
  /// What is allowed but deserves a line in the log at every start.
  let warnings: [ConfigurationFinding]
}

import AppStore
import CountersignServer
import Cryptography
import Entitlements
import HTTPTransport
import Validation

/// Apple's own endpoints.
///
/// https://developer.apple.com/documentation/appstorereceipts/verifyreceipt
enum AppleEndpoint {
  static let production = "https://buy.itunes.apple.com/verifyReceipt"
  static let sandbox = "https://sandbox.itunes.apple.com/verifyReceipt"
  /// https://developer.apple.com/documentation/appstoreserverapi
  static let serverAPIProduction = "https://api.storekit.apple.com"
  static let serverAPISandbox = "https://api.storekit-sandbox.apple.com"
  /// The same servers under the names that Apple recommended before.
  static let formerServerAPI = [
    "https://api.storekit.itunes.apple.com", "https://api.storekit-sandbox.itunes.apple.com",
  ]
  static let all = Set([production, sandbox, serverAPIProduction, serverAPISandbox] + formerServerAPI)
}

extension ServiceConfiguration {
  struct AppStore: Hashable, Sendable {
    /// The clock by which access begins and ends.
    enum Clock: String, Hashable, Sendable, CaseIterable {
      /// The machine's, which several answers of Apple's that agree correct.
      case machine
      /// A simulated store's, which is moved by hand.
      case store
    }

    /// Never empty; in the order of the file, which is the order of attempts for a purchase of an unknown app.
    let orderedBundleIDs: [BundleID]
    /// `nil`: verifyReceipt is not called. At least one of this and `serverAPI` is set.
    let sharedSecret: Secret?
    let productionURL: String
    let sandboxURL: String
    let clock: Clock
    /// CA certificates for TLS, in place of the system's.
    let caFile: String?
    /// Files of root certificates; Apple's own when empty.
    let roots: [String]
    let concurrency: Int
    let deadline: Duration
    /// App IDs that production notifications may name; any when empty.
    let appAppleIDs: Set<Int64>
    let serverAPI: ServerAPI?
    /// The key that signs offers, where it is not the Server API's.
    let offers: OfferKey?
    let consumption: ConsumptionPolicy
    /// How often Apple is asked for refunds of one-time purchases; zero: never.
    let refundSweep: Duration

    var bundleIDs: Set<BundleID> { Set(orderedBundleIDs) }

    init(_ reader: inout ConfigurationReader) {
      orderedBundleIDs = reader.list(
        "app_store.bundle_ids", of: .bundleID, atLeastOne: "bundle ID",
        "The bundle IDs of your apps; a receipt of any other app is refused")
      sharedSecret = reader.secret(
        "app_store.shared_secret", .word,
        "App-specific shared secret from App Store Connect; required unless `app_store.server_api` is set, and "
          + "needed for iOS 6-style receipts")
      productionURL = reader.appleURL(
        "app_store.production_url", AppleEndpoint.production, gets: Self.sent, "verifyReceipt in production")
      sandboxURL = reader.appleURL(
        "app_store.sandbox_url", AppleEndpoint.sandbox, gets: Self.sent, "verifyReceipt in the sandbox")
      clock = reader.read(
        "app_store.clock", .choice, default: .machine,
        "The clock of the service: `machine`, this machine's, corrected by Apple's; `store`, a simulated App "
          + "Store's, which is moved by hand. For a simulator only")
      caFile = reader.read(
        "app_store.ca_file", .file,
        "Certificate authorities to trust for TLS to Apple's URLs (PEM), in place of the system's")
      roots = reader.list(
        "app_store.roots", of: .file,
        "Root certificates that receipts, transactions and notifications must chain to; empty: Apple's")
      concurrency = reader.read(
        "app_store.concurrency", .integer(1...4_096), default: 64, "Calls to Apple in flight at once")
      deadline = reader.read(
        "app_store.deadline", .duration(.milliseconds(100) ... .minutes(5)), default: .seconds(10),
        "Time limit of a whole validation, all attempts included")
      appAppleIDs = Set(
        reader.list(
          "app_store.app_apple_ids", of: .appAppleID,
          "The Apple IDs of your apps, which are numbers in App Store Connect; in production, a notification or an "
            + "answer of the Server API that names another is refused. Empty: the bundle ID alone decides"))
      serverAPI = ServerAPI(&reader)
      offers = OfferKey(&reader, issuerID: serverAPI?.issuerID)
      consumption = ConsumptionPolicy(&reader)
      refundSweep = reader.read(
        "app_store.refund_sweep", .duration(.zero ... .days(366)), default: .days(7),
        "How often Apple is asked, by `app_store.server_api`, for refunds of purchases for life and of non-renewing "
          + "subscriptions; 0: never")
      if serverAPI == nil, consumption.information.customerConsented == true {
        reader.warning(
          "app_store.consumption.customer_consented",
          "has no effect without app_store.server_api, by which Apple is answered")
      }

      if clock == .store {
        let urls = [productionURL, sandboxURL] + (serverAPI.map { [$0.productionURL, $0.sandboxURL] } ?? [])
        if roots.isEmpty || urls.contains(where: AppleEndpoint.all.contains) {
          reader.problem(
            "app_store.clock",
            "store is for a simulated App Store: name the simulator in all URLs of app_store, and its certificates in "
              + "app_store.roots, or leave app_store.clock out")
        }
        reader.warning("app_store.clock", "whoever answers for the store sets the time at which access ends")
      }
      if caFile != nil {
        reader.warning("app_store.ca_file", "whoever holds a key of these authorities can answer in Apple's name")
      }
      if !roots.isEmpty {
        reader.warning("app_store.roots", "everything that these roots have signed is trusted like Apple's word")
      }
      if !reader.isGiven("app_store.server_api.key") {
        reader.reportMissing(
          "app_store.shared_secret",
          unless: "set app_store.server_api where the app is a StoreKit 2 app only. App Store Connect has the secret "
            + "(\(AppStoreConnect.sharedSecret)) and the key (\(AppStoreConnect.serverAPIKey))")
      }
    }

    private static let sent = "the shared secret is sent there and its answers are believed"
  }
}

/// The places in App Store Connect of the credentials and settings that the service needs.
enum AppStoreConnect {
  static let sharedSecret = "the app › App Information › App-Specific Shared Secret"
  static let serverAPIKey = "Users and Access › Integrations › In-App Purchase"
  static let notifications = "the app › App Information › App Store Server Notifications"
}

extension ServiceConfiguration.AppStore {
  /// The App Store Server API, and its key.
  struct ServerAPI: Hashable, Sendable {
    /// In PEM; already parsed as a key when the configuration was read.
    let key: Secret
    let keyID: String
    let issuerID: String
    let productionURL: String
    let sandboxURL: String

    /// - Returns: `nil` without a key, and if anything is invalid, which is reported.
    fileprivate init?(_ reader: inout ConfigurationReader) {
      let problemsBefore = reader.findings.problems.count
      let key = reader.secret(
        "app_store.server_api.key", .privateKey,
        "Private key of the App Store Server API (the .p8 file from App Store Connect); with it the service looks up "
          + "original transaction IDs, and re-validation asks the Server API")
      let keyID = reader.read("app_store.server_api.key_id", .text, "The ID of that key; required with it")
      let issuerID = reader.read(
        "app_store.server_api.issuer_id", .text, "The issuer ID from App Store Connect; required with the key")
      let sent = "tokens of the Server API's key are sent there"
      productionURL = reader.appleURL(
        "app_store.server_api.production_url", AppleEndpoint.serverAPIProduction, or: AppleEndpoint.formerServerAPI,
        gets: sent, "The Server API in production")
      sandboxURL = reader.appleURL(
        "app_store.server_api.sandbox_url", AppleEndpoint.serverAPISandbox, or: AppleEndpoint.formerServerAPI,
        gets: sent, "The Server API in the sandbox")
      guard reader.findings.problems.count == problemsBefore, key != nil || keyID != nil || issuerID != nil
      else { return nil }
      guard let key, let keyID, let issuerID else {
        for name in ["key", "key_id", "issuer_id"] {
          reader.reportMissing("app_store.server_api.\(name)", unless: "leave the rest of app_store.server_api out")
        }
        return nil
      }
      self.key = key
      self.keyID = keyID
      self.issuerID = issuerID
      reader.check("app_store.server_api", checkedKey)
    }

    /// The key that signs tokens for the Server API.
    func checkedKey() throws(ServerAPIKey.Unusable) -> ServerAPIKey {
      try ServerAPIKey(pem: key, keyID: keyID, issuerID: issuerID)
    }
  }

  /// A key that signs offers, and nothing else.
  struct OfferKey: Hashable, Sendable {
    /// In PEM; already parsed as a key when the configuration was read.
    let key: Secret
    let keyID: String
    let issuerID: String

    /// - Parameter issuerID: of the Server API's key.
    /// - Returns: `nil` without a key, and if anything is invalid, which is reported.
    fileprivate init?(_ reader: inout ConfigurationReader, issuerID: String?) {
      let problemsBefore = reader.findings.problems.count
      let key = reader.secret(
        "app_store.offers.key", .privateKey,
        "Private key that signs offers (the .p8 file of an In-App Purchase key); by default the Server API's")
      let keyID = reader.read("app_store.offers.key_id", .text, "The ID of that key; required with it")
      let ownIssuerID = reader.read(
        "app_store.offers.issuer_id", .text, "The issuer ID from App Store Connect; by default the Server API's")
      guard reader.findings.problems.count == problemsBefore, key != nil || keyID != nil || ownIssuerID != nil
      else { return nil }
      guard let key, let keyID, let issuerID = ownIssuerID ?? issuerID else {
        for name in ["key", "key_id"] + (issuerID == nil ? ["issuer_id"] : []) {
          reader.reportMissing("app_store.offers.\(name)", unless: "leave the rest of app_store.offers out")
        }
        return nil
      }
      self.key = key
      self.keyID = keyID
      self.issuerID = issuerID
      reader.check("app_store.offers", checkedKey)
    }

    func checkedKey() throws(ServerAPIKey.Unusable) -> ServerAPIKey {
      try ServerAPIKey(pem: key, keyID: keyID, issuerID: issuerID)
    }
  }

  /// Whether a key signs offers.
  var signsOffers: Bool { offers != nil || serverAPI != nil }

  /// The key that signs offers; `nil` where there is none.
  func offerKey() throws(ServerAPIKey.Unusable) -> ServerAPIKey? {
    if let offers { return try offers.checkedKey() }
    return try serverAPI?.checkedKey()
  }
}

extension ConsumptionPolicy {
  fileprivate init(_ reader: inout ConfigurationReader) {
    let consented = reader.read(
      "app_store.consumption.customer_consented", .flag, default: false,
      "Whether each customer has consented that Apple gets consumption information; `false`: only customers whose consent your "
        + "backend has reported. Without consent nothing is sent")
    let preference = reader.read(
      "app_store.consumption.refund_preference", ValueForm<ConsumptionInformation.RefundPreference>.choice,
      "Your preference for Apple's decision on a refund")
    let sample = reader.read(
      "app_store.consumption.sample_content_provided", .flag, default: false,
      "Whether customers have a sample or a trial before they buy")
    let wait = reader.read(
      "app_store.consumption.wait", .duration(.zero ... .minutes(11 * 60)), default: .zero,
      "How long your backend may say more about a transaction before the policy answers")
    self.init(
      information: ConsumptionInformation(
        customerConsented: consented, refundPreference: preference, sampleContentProvided: sample), wait: wait)
  }
}

extension ServerAPIKey {
  fileprivate init(pem: Secret, keyID: String, issuerID: String) throws(Unusable) {
    let key: ES256PrivateKey
    do throws(ES256PrivateKey.Invalid) { key = try ES256PrivateKey(pem: pem.exposed) } catch { throw .key(error) }
    do throws(Fault) { try self.init(keyID: keyID, issuerID: issuerID, key: key) } catch { throw .parts(error) }
  }

  /// The reason why a key, its ID or its issuer is invalid.
  enum Unusable: Error, Hashable, CustomStringConvertible {
    case key(ES256PrivateKey.Invalid)
    case parts(Fault)

    var description: String {
      switch self {
      case .key(let error): "\(error) Give the .p8 file from Apple as it is."
      case .parts(let error): error.description
      }
    }
  }
}

extension ConfigurationReader {
  /// Reports an unusable key by the member of its section that is to blame.
  fileprivate mutating func check(_ section: String, _ key: () throws(ServerAPIKey.Unusable) -> ServerAPIKey) {
    do throws(ServerAPIKey.Unusable) { _ = try key() } catch {
      let name =
        switch error {
        case .key: "key"
        case .parts(.keyID): "key_id"
        case .parts(.issuerID): "issuer_id"
        }
      problem("\(section).\(name)", error.description)
    }
  }

  /// A URL of Apple's, or one that is used in its place, with a warning.
  ///
  /// - Parameters:
  ///   - others: further URLs of Apple's.
  ///   - consequence: what the server at this address receives.
  mutating func appleURL(
    _ name: String, _ standard: String, or others: [String] = [], gets consequence: String, _ summary: String
  ) -> String {
    let url = read(name, .url, default: standard, summary)
    if url != standard, !others.contains(url) { warning(name, "is not Apple's; \(consequence)") }
    return url
  }
}

extension ValueForm<BundleID> {
  /// Letters, digits, hyphens and periods, as Apple's `CFBundleIdentifier` allows: a pattern such as `com.example.*`
  /// would never match and is refused.
  ///
  /// https://developer.apple.com/documentation/bundleresources/information-property-list/cfbundleidentifier
  fileprivate static var bundleID: Self {
    Self(name: "text") { text in
      text.wholeMatch(of: /[A-Za-z0-9.-]{1,255}/) == nil ? nil : BundleID(text)
    } or: {
      "\(Quotation.of($0)) is not a bundle ID"
    }
  }
}

extension ValueForm<Int64> {
  /// The number of an app in App Store Connect.
  fileprivate static var appAppleID: Self {
    Self(name: "text") { text in
      Int64(text).flatMap { $0 > 0 ? $0 : nil }
    } or: {
      "\(Quotation.of($0)) is not an app's number, such as 1234567890"
    }
  }
}

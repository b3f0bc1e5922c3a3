import AppStore
import Crypto
import Entitlements
import HTTPTransport
import Testing

@testable import Countersign
@testable import Validation

@Suite("The Server API's key in the configuration")
struct ServerAPIConfigurationTests {
  static let issuer = "57246542-96fe-1a63-e053-0824d011072a"
  static let pem = P256.Signing.PrivateKey().pemRepresentation

  private func sample(_ members: [String: String?] = [:], secret: String? = nil) -> SampleConfiguration {
    let key = "\"\(Self.pem.replacing("\n", with: "\\n"))\""
    let all = ["key": key, "key_id": "2X9R4HXF34", "issuer_id": Self.issuer].merging(members) { $1 }
    let text = all.sorted { $0.key < $1.key }.compactMap { name, value in value.map { "\(name): \($0)" } }
    return SampleConfiguration().setting("app_store.server_api", "{\(text.joined(separator: ", "))}")
      .setting("app_store.shared_secret", secret)
  }

  @Test func `a key alone will do, and so will both`() throws {
    let alone = try sample().load()
    #expect(alone.appStore.sharedSecret == nil)
    #expect(alone.appStore.serverAPI?.keyID == "2X9R4HXF34")
    #expect(alone.appStore.serverAPI?.productionURL == "https://api.storekit.apple.com")
    #expect(alone.appStore.serverAPI?.sandboxURL == "https://api.storekit-sandbox.apple.com")
    #expect(alone.warnings.isEmpty)
    let both = try sample(secret: SampleConfiguration.sharedSecret).load()
    #expect(both.appStore.sharedSecret != nil && both.appStore.serverAPI != nil)
    #expect(try SampleConfiguration().load().appStore.serverAPI == nil)
  }

  @Test func `the key comes from the file that App Store Connect hands out, or from the environment`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("AuthKey.p8", Self.pem + "\n")
    #expect(try sample(["key": nil, "key_file": path]).load().appStore.serverAPI?.key.exposed == Self.pem)
    let variables = ["COUNTERSIGN_APP_STORE_SERVER_API_KEY": Self.pem]
    #expect(try sample(["key": nil]).load(environment: variables).appStore.serverAPI != nil)
    let files = ["COUNTERSIGN_APP_STORE_SERVER_API_KEY_FILE": path]
    #expect(try sample(["key": nil]).load(environment: files).appStore.serverAPI != nil)
  }

  @Test func `consumption information has a policy, which sends nothing without consent`() throws {
    func load(_ text: String?) throws -> ServiceConfiguration.AppStore {
      try sample().setting("app_store.consumption", text).load().appStore
    }
    let plain = ConsumptionInformation(customerConsented: false, sampleContentProvided: false)
    #expect(try load(nil).consumption == ConsumptionPolicy(information: plain))
    let all = "{customer_consented: true, refund_preference: DECLINE, sample_content_provided: true, wait: 11h}"
    let full = ConsumptionInformation(
      customerConsented: true, refundPreference: .decline, sampleContentProvided: true)
    #expect(try load(all).consumption == ConsumptionPolicy(information: full, wait: .seconds(11 * 3_600)))
    for (text, says) in [
      ("{wait: 12h}", "must be from 0 to 11h"),
      ("{refund_preference: decline}", "must be DECLINE, GRANT_FULL or GRANT_PRORATED"),
      ("{customer_consented: perhaps}", "must be true or false"),
    ] {
      let problems = sample().setting("app_store.consumption", text).problems()
      #expect(problems.count == 1 && problems[0].contains(says), "\(problems)")
    }
    let mute = try SampleConfiguration().setting("app_store.consumption", "{customer_consented: true}").load()
    #expect(mute.warnings.map(\.sentence).contains { $0.contains("has no effect without app_store.server_api") })
  }

  @Test(
    arguments: [
      (["key_id": String?.none], "app_store.server_api.key_id: is missing"),
      (["issuer_id": nil], "app_store.server_api.issuer_id: is missing"),
      (["key": nil], "app_store.server_api.key: is missing"),
      (["key": "a-shared-secret"], "must be a private key in PEM, from -----BEGIN PRIVATE KEY----- on"),
      (["key": "\"-----BEGIN PRIVATE KEY-----\\nMIG\""], "must be a private key in PEM to its end"),
      (
        ["key": "\"-----BEGIN PRIVATE KEY-----\\nMIGH\\n-----END PRIVATE KEY-----\""],
        "The key cannot be read. Give the .p8 file from Apple as it is."
      ),
      (["key_id": "a/b"], "The key ID is not one of App Store Connect's"),
      (["issuer_id": "69a6de70"], "The issuer ID is not one of App Store Connect's"),
      (["production_url": "http://api.storekit.itunes.apple.com"], "must be an https:// URL"),
    ])
  func `an unusable value is refused by its key's name`(members: [String: String?], says: String) throws {
    let problems = sample(members, secret: SampleConfiguration.sharedSecret).problems()
    #expect(problems.count == 1, "\(problems)")
    #expect(problems.first?.contains(says) == true, "\(problems)")
    #expect(problems.first?.hasPrefix("app_store.server_api.") == true, "\(problems)")
  }

  // MARK: - The key that signs offers

  @Test func `the Server API's key signs offers, unless they have one of their own`() throws {
    #expect(try SampleConfiguration().load().appStore.offerKey() == nil)
    #expect(try sample().load().appStore.offerKey().map { OfferSigner(key: $0).keyID } == "2X9R4HXF34")
    let key = "\"\(P256.Signing.PrivateKey().pemRepresentation.replacing("\n", with: "\\n"))\""
    let own = try sample().setting("app_store.offers", "{key: \(key), key_id: ABC}").load().appStore
    #expect(try own.offerKey().map { OfferSigner(key: $0).keyID } == "ABC")
    #expect(own.offers?.issuerID == Self.issuer)
  }

  @Test(
    arguments: [
      (["key_id: ABC"], "app_store.offers.key: is missing"),
      (["key: KEY", "issuer_id: ISSUER"], "app_store.offers.key_id: is missing"),
      (["key: KEY", "key_id: ABC"], "app_store.offers.issuer_id: is missing"),
      (["key: KEY", "key_id: a/b", "issuer_id: ISSUER"], "app_store.offers.key_id"),
      (["key: KEY", "key_id: ABC", "issuer_id: x"], "app_store.offers.issuer_id"),
    ])
  func `a key of offers that cannot sign is refused by its key's name`(members: [String], says: String) {
    let key = "\"\(Self.pem.replacing("\n", with: "\\n"))\""
    let text = members.joined(separator: ", ").replacing("KEY", with: key).replacing("ISSUER", with: Self.issuer)
    let problems = SampleConfiguration().setting("app_store.offers", "{\(text)}").problems()
    #expect(problems.count(where: { $0.hasPrefix(says) }) == 1, "\(problems)")
  }

  @Test func `another address than Apple's deserves a warning`() throws {
    let warnings = try sample(["sandbox_url": "https://sandbox.test"]).load().warnings.map(\.description)
    #expect(warnings.count == 1)
    #expect(warnings.first?.hasPrefix("app_store.server_api.sandbox_url") == true, "\(warnings)")
  }

  @Test func `the hosts that Apple recommended before are Apple's`() throws {
    let former = try sample([
      "production_url": "https://api.storekit.itunes.apple.com",
      "sandbox_url": "https://api.storekit-sandbox.itunes.apple.com",
    ]).load()
    #expect(former.warnings.isEmpty)
    #expect(former.appStore.serverAPI?.productionURL == "https://api.storekit.itunes.apple.com")
  }

  @Test func `the store's clock counts where all is simulated, and with a warning`() throws {
    let directory = try TemporaryDirectory()
    let root = try directory.write("root.pem", "a root")
    let simulated = SampleConfiguration().setting("app_store.clock", "store")
      .setting("app_store.production_url", "https://127.0.0.1:1/verifyReceipt")
      .setting("app_store.sandbox_url", "https://127.0.0.1:1/sandbox/verifyReceipt")
      .setting("app_store.roots", "[\(root)]")
    #expect(try simulated.load().appStore.clock == .store)
    #expect(try simulated.load().warnings.contains { $0.origin.hasPrefix("app_store.clock") })
    #expect(try SampleConfiguration().load().appStore.clock == .machine)
    let key = "\"\(Self.pem.replacing("\n", with: "\\n"))\""
    for withApple in [
      SampleConfiguration().setting("app_store.clock", "store"),
      simulated.setting("app_store.production_url", "https://buy.itunes.apple.com/verifyReceipt"),
      simulated.setting("app_store.sandbox_url", "https://sandbox.itunes.apple.com/verifyReceipt"),
      simulated.setting("app_store.roots", "[]"),
      simulated.setting(
        "app_store.server_api", "{key: \(key), key_id: 2X9R4HXF34, issuer_id: \(Self.issuer)}"),
    ] {
      let problems = withApple.problems()
      #expect(problems.count == 1 && problems.first?.contains("store is for a simulated") == true, "\(problems)")
    }
  }

  @Test func `apps' numbers are numbers`() throws {
    let configuration = try SampleConfiguration().setting("app_store.app_apple_ids", "[1234567890, 7]").load()
    #expect(configuration.appStore.appAppleIDs == [1_234_567_890, 7])
    for bad in ["com.example.app", "-1", "0", "1.5"] {
      let problems = SampleConfiguration().setting("app_store.app_apple_ids", "[\"\(bad)\"]").problems()
      #expect(problems.first?.contains("is not an app's number") == true, "\(problems)")
    }
  }

  @Test func `Xcode's transactions are refused, and accepted with a warning`() throws {
    #expect(try SampleConfiguration().load().policy.xcode == .reject)
    let accepting = try SampleConfiguration().setting("policy.xcode", "accept").load()
    #expect(accepting.policy.xcode == .accept)
    #expect(accepting.warnings.first?.description.contains("anybody with Xcode") == true)
  }
}

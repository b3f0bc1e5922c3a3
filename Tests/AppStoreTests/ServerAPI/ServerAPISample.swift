import Cryptography
import Entitlements

@testable import AppStore
@testable import HTTPTransport

/// Answers of the App Store Server API, made up and signed by `SignedDataPKI`; the shape is Apple's.
enum ServerAPISample {
  static let bundleID: BundleID = "com.example.app"
  /// 2024-06-15 12:00:00 UTC, the date of `TestTime`.
  static let signedAt: Int64 = 1_718_452_800_000

  /// A signed transaction; by default a subscription that ends on 2024-07-01 00:00 UTC.
  struct Transaction {
    var id = "480002000000112"
    var original = "480002000000001"
    var product = "com.example.app.pro.monthly"
    var type = "Auto-Renewable Subscription"
    var environment: String? = "Production"
    var bundle = "com.example.app"
    var group: String? = "21000001"
    var expires: Int64? = 1_719_792_000_000
    var revoked: Int64?
    var signedAt = ServerAPISample.signedAt

    var payload: String {
      var members = [
        #""transactionId":"\#(id)""#, #""originalTransactionId":"\#(original)""#, #""productId":"\#(product)""#,
        #""bundleId":"\#(bundle)""#, #""type":"\#(type)""#,
        #""purchaseDate":1717200000000"#, #""signedDate":\#(signedAt)"#,
      ]
      if let environment { members.append(#""environment":"\#(environment)""#) }
      if let group { members.append(#""subscriptionGroupIdentifier":"\#(group)""#) }
      if let expires { members.append(#""expiresDate":\#(expires)"#) }
      if let revoked { members.append(#""revocationDate":\#(revoked),"revocationReason":0"#) }
      return "{\(members.joined(separator: ","))}"
    }

    func signed() throws -> String { try SignedDataPKI.made.get().sign(payload) }

    /// Bought once, never ends.
    static func lifetime(_ id: String = "480002000000200") -> Transaction {
      Transaction(
        id: id, original: id, product: "com.example.app.forever", type: "Non-Consumable", group: nil, expires: nil)
    }
  }

  struct Renewal {
    var original = "480002000000001"
    var environment: String? = "Production"
    var autoRenews = 1
    var signedAt = ServerAPISample.signedAt

    var payload: String {
      #"""
      {"originalTransactionId":"\#(original)","productId":"com.example.app.pro.monthly",
       "autoRenewProductId":"com.example.app.pro.monthly","autoRenewStatus":\#(autoRenews),
       \#(environment.map { #""environment":"\#($0)","# } ?? "")"signedDate":\#(signedAt),"renewalDate":1719792000000}
      """#
    }

    func signed() throws -> String { try SignedDataPKI.made.get().sign(payload) }
  }

  /// An element of `lastTransactions`.
  static func item(
    _ transaction: Transaction = Transaction(), renewal: Renewal? = Renewal(), status: Int = 1, named: String? = nil
  ) throws -> String {
    var members = [
      #""originalTransactionId":"\#(named ?? transaction.original)""#, #""status":\#(status)"#,
      #""signedTransactionInfo":"\#(try transaction.signed())""#,
    ]
    if let renewal { members.append(#""signedRenewalInfo":"\#(try renewal.signed())""#) }
    return "{\(members.joined(separator: ","))}"
  }

  /// - Parameter groups: the `lastTransactions` of each group.
  static func statuses(
    _ groups: [[String]], environment: String = "Production", bundle: String = "com.example.app"
  ) -> String {
    let data = groups.enumerated().map { index, items in
      #"{"subscriptionGroupIdentifier":"2100000\#(index + 1)","lastTransactions":[\#(items.joined(separator: ","))]}"#
    }
    return
      #"{"environment":"\#(environment)","bundleId":"\#(bundle)","appAppleId":1234567890,"data":[\#(data.joined(separator: ","))]}"#
  }

  /// The statuses of a customer with one subscription.
  static func subscriber(environment: String = "Production") throws -> String {
    let item = try item(Transaction(environment: environment), renewal: Renewal(environment: environment))
    return statuses([[item]], environment: environment)
  }

  static func history(
    _ transactions: [Transaction], hasMore: Bool = false, revision: String? = "r1", environment: String = "Production"
  ) throws -> String {
    let list = try transactions.map { "\"\(try $0.signed())\"" }.joined(separator: ",")
    let revision = revision.map { #","revision":"\#($0)""# } ?? ""
    return
      #"{"environment":"\#(environment)","bundleId":"com.example.app","hasMore":\#(hasMore)\#(revision),"signedTransactions":[\#(list)]}"#
  }

  static func refunds(
    _ transactions: [Transaction], hasMore: Bool = false, revision: String = "r1"
  ) throws -> String {
    let list = try transactions.map { "\"\(try $0.signed())\"" }.joined(separator: ",")
    return #"{"signedTransactions":[\#(list)],"revision":"\#(revision)","hasMore":\#(hasMore)}"#
  }

  static func error(_ code: Int) -> ScriptedTransport.Step {
    .body(#"{"errorCode":\#(code),"errorMessage":"Words for people."}"#, status: code / 10_000)
  }

  /// The one store's answer about an ID of the other.
  static let notFound = error(4_040_010)

  static let key = Result {
    try ServerAPIKey(
      keyID: "2X9R4HXF34", issuerID: "57246542-96fe-1a63-e053-0824d011072a",
      key: ES256PrivateKey(pem: TestECKey().pem()))
  }

  static func configuration() throws -> ServerAPIClient.Configuration {
    ServerAPIClient.Configuration(
      productionURL: "https://api.example", sandboxURL: "https://api.sandbox.example", key: try key.get())
  }
}

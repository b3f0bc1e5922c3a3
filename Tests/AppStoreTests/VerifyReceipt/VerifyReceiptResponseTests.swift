import Entitlements
import FoundationEssentials
import Testing

@testable import AppStore
@testable import JSON

@Suite struct VerifyReceiptResponseTests {
  @Test func `every field of an app receipt's answer is read`() throws {
    let response = try Sample.decode(Sample.body(inApp: Sample.lifetimeRow))
    #expect(response.status == .valid)
    #expect(response.environmentName == "Production")
    #expect(response.environment == .production)
    #expect(response.receiptType == "Production")
    #expect(response.bundleID == "com.example.app")
    #expect(response.requestDate == moment(1_718_452_800_123))
    #expect(response.creationDate == moment(1_717_200_000_000))
    #expect(response.receiptRows.map(\.productID) == ["com.example.app.forever"])
    #expect(
      response.latestRows == [
        Purchase(
          productID: "com.example.app.pro.monthly", transactionID: "480002000000112",
          originalTransactionID: "480002000000001", webOrderLineItemID: "480002000000113",
          subscriptionGroupID: "21000001", purchaseDate: moment(1_717_200_000_000),
          expiresDate: moment(1_719_792_000_000), appAccountToken: "9b2c4d3e-0000-4000-8000-00000000abcd")
      ])
    #expect(
      response.renewals == [
        RenewalInfo(
          originalTransactionID: "480002000000001", productID: "com.example.app.pro.monthly",
          autoRenewProductID: "com.example.app.pro.yearly", autoRenews: true, expirationIntent: 2,
          isInBillingRetry: true, gracePeriodExpiresDate: moment(1_721_174_400_000))
      ])
  }

  @Test func `a refund is read with its date and reason`() throws {
    let row = try #require(try Sample.decodeRow(Sample.refundedRow))
    #expect(row.cancellationDate == moment(1_717_977_600_000))
    #expect(row.cancellationReason == 1)
  }

  // MARK: Tolerance

  /// One way in which Apple spells a row, and what it means.
  struct Spelling: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var row: String
    var meaning: @Sendable (Purchase) -> Bool

    /// - Parameter members: put in place of what the sample row has under the same keys.
    init(_ name: String, _ members: [String: String], _ meaning: @escaping @Sendable (Purchase) -> Bool) {
      testDescription = name
      row = Self.row(members)
      self.meaning = meaning
    }

    static func row(_ members: [String: String]) -> String {
      var all = [
        "product_id": #""com.example.app.pro.monthly""#, "transaction_id": #""480002000000112""#,
        "original_transaction_id": #""480002000000001""#, "purchase_date_ms": #""1717200000000""#,
        "expires_date_ms": #""1719792000000""#,
      ]
      all.merge(members) { $1 }
      return "{" + all.filter { !$0.value.isEmpty }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",") + "}"
    }

    static let all: [Spelling] = [
      Spelling("transaction IDs as numbers", ["transaction_id": "480002000000112", "original_transaction_id": "1"]) {
        $0.transactionID == "480002000000112" && $0.originalTransactionID == "1"
      },
      Spelling("18 digits, exact", ["transaction_id": "123456789012345678"]) {
        $0.transactionID == "123456789012345678"
      },
      Spelling("leading zeros are kept in text", ["transaction_id": #""000123""#]) {
        $0.transactionID == "000123"
      },
      Spelling("no original transaction ID", ["original_transaction_id": ""]) {
        $0.originalTransactionID == "480002000000112"
      },
      Spelling("an empty original transaction ID", ["original_transaction_id": #""""#]) {
        $0.originalTransactionID == "480002000000112"
      },
      Spelling("only the original transaction ID", ["transaction_id": ""]) {
        $0.transactionID == "480002000000001"
      },
      Spelling("milliseconds as numbers", ["expires_date_ms": "1719792000001"]) {
        $0.expiresDate == moment(1_719_792_000_001)
      },
      Spelling("milliseconds as a float", ["expires_date_ms": "1719792000001.0"]) {
        $0.expiresDate == moment(1_719_792_000_001)
      },
      Spelling("only the text form", ["expires_date_ms": "", "expires_date": #""2024-07-01 00:00:00 Etc/GMT""#]) {
        $0.expiresDate == moment(1_719_792_000_000)
      },
      Spelling("milliseconds under the bare key", ["expires_date_ms": "", "expires_date": #""1719792000002""#]) {
        $0.expiresDate == moment(1_719_792_000_002)
      },
      Spelling("no expiry", ["expires_date_ms": ""]) { $0.expiresDate == nil },
      Spelling(
        "empty texts for absent dates",
        [
          "expires_date_ms": #""""#, "expires_date": #""""#, "cancellation_date": #""""#,
          "cancellation_date_ms": #""""#, "cancellation_date_pst": #""""#, "cancellation_reason": #""""#,
        ]
      ) { $0.expiresDate == nil && $0.cancellationDate == nil },
      Spelling("null for an absent date", ["cancellation_date_ms": "null"]) { $0.cancellationDate == nil },
      Spelling(
        "a refund's reason as a number", ["cancellation_date_ms": "1717977600000", "cancellation_reason": "0"]
      ) { $0.cancellationReason == 0 && $0.cancellationDate == moment(1_717_977_600_000) },
      Spelling(
        "a refund's reason that Apple adds", ["cancellation_date_ms": "1717977600000", "cancellation_reason": #""7""#]
      ) { $0.cancellationReason == 7 },
      Spelling("upgraded as text", ["is_upgraded": #""true""#]) { $0.isUpgraded },
      Spelling("upgraded as a boolean", ["is_upgraded": "true"]) { $0.isUpgraded },
      Spelling("upgraded as a digit", ["is_upgraded": #""1""#]) { $0.isUpgraded },
      Spelling("upgraded as a number", ["is_upgraded": "1"]) { $0.isUpgraded },
      Spelling("not upgraded", ["is_upgraded": #""false""#]) { !$0.isUpgraded },
      Spelling("a trial", ["is_trial_period": "true", "is_in_intro_offer_period": #""0""#]) {
        $0.isTrial && !$0.isIntroductoryOffer
      },
      Spelling("an introductory offer", ["is_trial_period": #""false""#, "is_in_intro_offer_period": "1"]) {
        !$0.isTrial && $0.isIntroductoryOffer
      },
      Spelling(
        "the first purchase",
        ["purchase_date_ms": #""1717977600000""#, "original_purchase_date_ms": #""1717977601000""#]
      ) { $0.isFirst },
      Spelling(
        "a renewal", ["purchase_date_ms": #""1720569600000""#, "original_purchase_date_ms": #""1717977601000""#]
      ) { !$0.isFirst },
      Spelling("family sharing", ["in_app_ownership_type": #""FAMILY_SHARED""#]) {
        $0.ownership == .familyShared
      },
      Spelling("an ownership that Apple adds", ["in_app_ownership_type": #""BORROWED""#]) {
        $0.ownership == .unknown
      },
      Spelling("an account token in upper case", ["app_account_token": #""ABCDEF00-0000-4000-8000-00000000ABCD""#]) {
        $0.appAccountToken == "abcdef00-0000-4000-8000-00000000abcd"
      },
      Spelling("keys nobody knows", ["brand_new": #"{"deep":[1,2,{"x":null}]}"#, "quantity": "1"]) {
        $0.productID == "com.example.app.pro.monthly"
      },
    ]
  }

  @Test(arguments: Spelling.all)
  func `a row is read however Apple spells it`(_ spelling: Spelling) throws {
    let row = try #require(try Sample.decodeRow(spelling.row))
    #expect(spelling.meaning(row))
  }

  @Test(arguments: [
    (["product_id": ""], JSONError.missing(path: "latest_receipt_info[0].product_id")),
    (["product_id": #""""#], .missing(path: "latest_receipt_info[0].product_id")),
    (["product_id": "true"], .unreadable(path: "latest_receipt_info[0].product_id")),
    (
      ["transaction_id": "", "original_transaction_id": ""],
      .missing(path: "latest_receipt_info[0].transaction_id")
    ),
    (["transaction_id": "1.5"], .unreadable(path: "latest_receipt_info[0].transaction_id")),
    (["transaction_id": "{}"], .unreadable(path: "latest_receipt_info[0].transaction_id")),
    (["expires_date_ms": #""soon""#], .unreadable(path: "latest_receipt_info[0].expires_date_ms")),
    (["purchase_date_ms": "true"], .unreadable(path: "latest_receipt_info[0].purchase_date_ms")),
    (["cancellation_date_ms": #""x""#], .unreadable(path: "latest_receipt_info[0].cancellation_date_ms")),
    (["cancellation_date": #""yesterday""#], .unreadable(path: "latest_receipt_info[0].cancellation_date")),
    (
      ["cancellation_date_pst": #""2024-06-09 17:00:00 America/Los_Angeles""#],
      .unreadable(path: "latest_receipt_info[0].cancellation_date_pst")
    ),
    (["cancellation_reason": #""1""#], .missing(path: "latest_receipt_info[0].cancellation_date")),
    (["is_upgraded": #""maybe""#], .unreadable(path: "latest_receipt_info[0].is_upgraded")),
    (["is_trial_period": "2"], .unreadable(path: "latest_receipt_info[0].is_trial_period")),
    (["in_app_ownership_type": "[]"], .unreadable(path: "latest_receipt_info[0].in_app_ownership_type")),
  ])
  func `a row that cannot be read fails the answer`(_ members: [String: String], _ error: JSONError) {
    #expect(throws: error) { try Sample.decodeRow(Spelling.row(members)) }
  }

  @Test(arguments: [
    (#""auto_renew_status":"1""#, Bool?.some(true)), (#""auto_renew_status":"0""#, false),
    (#""auto_renew_status":1"#, true), (#""auto_renew_status":0"#, false),
    (#""auto_renew_status":true"#, true), (#""auto_renew_status":"false""#, false),
    (#""auto_renew_status":"2""#, nil), (#""auto_renew_status":"""#, nil), (#""x":1"#, nil),
  ])
  func `renewal is on, off, or unknown, as a state that Apple adds is`(_ member: String, _ autoRenews: Bool?) throws {
    let response = try Sample.decode(Sample.body(renewals: "[{\(member)}]"))
    let renewal = try #require(response.renewals?.first)
    #expect(renewal.autoRenews == autoRenews)
    #expect(renewal.originalTransactionID == nil)
  }

  @Test(arguments: [
    #""auto_renew_status":"on""#, #""expiration_intent":{}"#, #""is_in_billing_retry_period":"x""#,
    #""grace_period_expires_date_ms":"later""#, #""grace_period_expires_date":"2024-99-01 00:00:00 Etc/GMT""#,
  ])
  func `a renewal that cannot be read fails the answer`(_ member: String) {
    #expect(throws: JSONError.self) { try Sample.decode(Sample.body(renewals: "[{\(member)}]")) }
  }

  @Test func `empty grace dates are absent and an intent that Apple adds is kept`() throws {
    let response = try Sample.decode(
      Sample.body(
        renewals: #"""
          {"grace_period_expires_date":"","grace_period_expires_date_ms":"","grace_period_expires_date_pst":"",
           "expiration_intent":"9","price_consent_status":"0","price_increase_status":1,"offer_code_ref_name":"c",
           "promotional_offer_id":"p"}
          """#))
    let renewal = try #require(response.renewals?.first)
    #expect(renewal.gracePeriodExpiresDate == nil)
    #expect(renewal.expirationIntent == 9)
  }

  @Test(arguments: [
    (String?.some("Sandbox"), "Production", StoreEnvironment?.some(.sandbox)),
    ("Production", "ProductionSandbox", .production), ("SANDBOX", "Production", .sandbox),
    (nil, "Production", .production), (nil, "ProductionVPP", .production), (nil, "ProductionSandbox", .sandbox),
    (nil, "ProductionVPPSandbox", .sandbox), ("Moon", "ProductionSandbox", .sandbox), (nil, "Xcode", nil),
    ("", "", nil),
  ])
  func `the store is the one that the body names, else the receipt's type`(
    _ name: String?, _ type: String, _ environment: StoreEnvironment?
  ) throws {
    let body = Sample.body(environment: name).replacingOnce(
      #""receipt_type":"Production""#, with: #""receipt_type":"\#(type)""#)
    #expect(try Sample.decode(body).environment == environment)
  }

  @Test(arguments: [
    ("null", 0), ("[]", 0), ("{}", 0), (Sample.row, 1), ("[\(Sample.row)]", 1), ("[\(Sample.row),\(Sample.row)]", 2),
  ])
  func `latest_receipt_info is a list, an object, or nothing`(_ latest: String, _ count: Int) throws {
    let response = try Sample.decode(Sample.body(latest: latest))
    #expect((response.latestRows?.count ?? 0) == count)
    #expect((response.latestRows == nil) == (count == 0))
  }

  @Test(arguments: [
    (#"{}"#, JSONError.missing(path: "status")), (#"{"status":null}"#, .missing(path: "status")),
    (#"{"status":""}"#, .missing(path: "status")), (#"{"status":"ok"}"#, .unreadable(path: "status")),
    (#"{"status":0.0}"#, .unreadable(path: "status")), (#"{"status":[0]}"#, .unreadable(path: "status")),
    (#"{"status":false}"#, .unreadable(path: "status")), (#"{"status":0}"#, .missing(path: "receipt")),
    (#"{"status":0,"receipt":null}"#, .missing(path: "receipt")),
    (#"{"status":0,"latest_receipt_info":[\#(Sample.row)]}"#, .missing(path: "receipt")),
    (#"{"status":0,"latest_receipt_info":\#(Sample.transaction)}"#, .missing(path: "receipt")),
    (#"{"status":0,"receipt":"MII"}"#, .unreadable(path: "receipt")),
    (#"{"status":0,"receipt":[]}"#, .unreadable(path: "receipt")),
    (#"{"status":0,"receipt":{}}"#, .missing(path: "receipt.in_app")),
    (#"{"status":21006}"#, .missing(path: "receipt")),
    (#"{"status":0,"receipt":{"in_app":"x"}}"#, .unreadable(path: "receipt.in_app")),
    (#"{"status":0,"receipt":{"in_app":[5]}}"#, .unreadable(path: "receipt.in_app[0]")),
    (
      #"{"status":0,"receipt":{"in_app":[],"request_date_ms":"x"}}"#, .unreadable(path: "receipt.request_date_ms")
    ),
    (
      #"{"status":0,"receipt":{"in_app":[]},"latest_receipt_info":"x"}"#, .unreadable(path: "latest_receipt_info")
    ),
    (
      #"{"status":0,"receipt":{"in_app":[]},"pending_renewal_info":5}"#, .unreadable(path: "pending_renewal_info")
    ),
    (#"{"status":0,"receipt":{"in_app":[]},"environment":7.5}"#, .unreadable(path: "environment")),
  ])
  func `a verdict with a bad shape is refused and the error names the place`(_ text: String, _ error: JSONError) {
    #expect(throws: error) { try Sample.decode(text) }
  }

  @Test(arguments: [("21007", 21007), (#""21007""#, 21007), ("0", 0), (#""0""#, 0), ("-1", -1)])
  func `the status is a number or text of one`(_ status: String, _ code: Int) throws {
    #expect(try Sample.decode(Sample.body(status: status)).status.rawValue == code)
  }

  @Test func `members beside a status that is no verdict are ignored`() throws {
    let response = try Sample.decode(
      #"{"status":21002,"exception":"java.lang.X","receipt":"?","latest_receipt_info":7,"environment":[]}"#)
    #expect(response.status == .malformedOrTrouble)
    #expect(response.receiptRows.isEmpty)
    #expect(response.latestRows == nil)
  }

  @Test(arguments: [
    (#""is-retryable":true"#, Bool?.some(true)), (#""is-retryable":"1""#, true), (#""is-retryable":"0""#, false),
    (#""is-retryable":false"#, false), (#""is-retryable":"false""#, false), (#""is-retryable":"perhaps""#, nil),
    (#""is_retryable":"0""#, false), (#""is_retryable":true"#, true), (#""is_retryable":"perhaps""#, nil),
    (#""is-retryable":true,"is_retryable":false"#, true),
  ])
  func `is-retryable has a hyphen or an underscore, and every spelling of a boolean`(
    _ member: String, _ value: Bool?
  ) throws {
    #expect(try Sample.decode(#"{"status":21104,\#(member)}"#).isRetryable == value)
  }
}

import Entitlements
import FoundationEssentials
import Testing

@testable import AppStore

@Suite struct VerifyReceiptHistoryTests {
  private func history(_ text: String, environment: StoreEnvironment = .production) throws -> PurchaseHistory {
    try Sample.decode(text).purchaseHistory(environment: environment, askedAt: TestTime.date)
  }

  private static let otherRow = Sample.row.replacingOnce("480002000000112", with: "480002000000099")

  @Test func `subscriptions come from latest_receipt_info alone where the answer has it`() throws {
    let upgraded = Sample.row.replacingOnce(#""is_trial_period""#, with: #""is_upgraded":"true","is_trial_period""#)
    let history = try history(Sample.body(inApp: Self.otherRow, latest: "[\(upgraded)]"))
    #expect(history.purchases.map(\.transactionID) == ["480002000000112"])
    #expect(history.purchases.first?.isUpgraded == true)
  }

  @Test func `what a restored row without an expiry reports was bought at its original date`() throws {
    let season = Sample.row.replacing(/"expires_date[^,]*,\s*/, with: "")
      .replacingOnce(#""quantity""#, with: #""original_purchase_date_ms":"1714521600001","quantity""#)
    let purchases = try history(Sample.body(inApp: season, latest: nil)).purchases
    #expect(purchases.map(\.purchaseDate) == [moment(1_714_521_600_001)] && purchases.map(\.isFirst) == [false])
  }

  /// A row that runs, bought before the sample row.
  private static let earlier = Sample.row.replacingOnce("480002000000112", with: "480002000000050")
    .replacingOnce("1717200000000", with: "1714521600000")
  private static let over = ofAnother.replacingOnce("pro.monthly", with: "premium.monthly")
    .replacingOnce("1719792000000", with: "1717113600000")
  private static let ofAnother = earlier.replacingOnce("480002000000001", with: "480002000000050")

  @Test(arguments: [
    (earlier, false), (ofAnother, false), (ofAnother.replacingOnce("pro.monthly", with: "premium.monthly"), true),
    (ofAnother.replacingOnce("PURCHASED", with: "FAMILY_SHARED"), true),
    (earlier.replacingOnce("pro.monthly", with: "pro.yearly"), false),
    (over, false),
  ])
  func `a running row of the receipt counts unless a latest row can be its successor`(row: String, counts: Bool) throws
  {
    let history = try history(Sample.body(inApp: "\(row),\(Sample.row)", latest: "[\(Sample.row)]"))
    let expected: [TransactionID] = ["480002000000112"] + (counts ? ["480002000000050"] : [])
    #expect(history.purchases.map(\.transactionID) == expected)
    // Apple says nothing else of its subscription: it is as old as the receipt.
    let reported = counts ? [moment(1_717_200_000_000)] : []
    #expect(history.evidence().dropFirst().map(\.evidenceTime) == reported)
  }

  @Test(arguments: [String?.none, "null", "[]", "{}"])
  func `without latest_receipt_info they come from the receipt`(_ latest: String?) throws {
    #expect(try history(Sample.body(latest: latest)).purchases.map(\.transactionID) == ["480002000000112"])
  }

  @Test func `a later purchase among the receipt's rows tells of an upgrade`() throws {
    let yearly = Self.earlier.replacingOnce("pro.monthly", with: "pro.yearly")
      .replacingOnce("1719792000000", with: "1746057600000")
    for rows in ["\(yearly),\(Sample.row)", "\(Sample.row),\(yearly)"] {
      let upgraded = try history(Sample.body(inApp: rows, latest: nil)).purchases.filter(\.isUpgraded)
      #expect(upgraded.map(\.transactionID) == ["480002000000050"])
    }
    let ofAnother = yearly.replacingOnce("480002000000001", with: "480002000000050")
    let separate = try history(Sample.body(inApp: "\(ofAnother),\(Sample.row)", latest: nil)).purchases
    #expect(separate.filter(\.isUpgraded).isEmpty)
  }

  @Test func `purchases without an end come from both lists, and latest_receipt_info wins`() throws {
    let second = Sample.lifetimeRow.replacingOnce("480002000000200", with: "480002000000300")
    let refunded = Sample.lifetimeRow.replacingOnce(
      #""purchase_date_ms""#, with: #""cancellation_date_ms":"1717977600000","purchase_date_ms""#)
    let history = try history(
      Sample.body(inApp: "\(Sample.lifetimeRow),\(second)", latest: "[\(refunded),\(Sample.row)]"))
    #expect(history.purchases.map(\.transactionID) == ["480002000000200", "480002000000112", "480002000000300"])
    #expect(history.purchases.first?.cancellationDate == moment(1_717_977_600_000))
    // The receipt's own row was only decoded.
    #expect(history.purchases.map(\.reportedAt) == [nil, nil, moment(1_717_200_000_000)])
  }

  @Test func `a purchase without an end that only the receipt has is as of the receipt's creation`() throws {
    let history = try history(Sample.body(inApp: Sample.lifetimeRow, latest: nil))
    #expect(history.purchases.map(\.reportedAt) == [moment(1_717_200_000_000)])
    #expect(history.evidence().map(\.evidenceTime) == [moment(1_717_200_000_000)])
  }

  @Test(arguments: StoreEnvironment.allCases)
  func `a row of the receipt that was bought later than every latest row counts, also when it is over`(
    _ environment: StoreEnvironment
  ) throws {
    let later = Sample.row.replacingOnce("480002000000112", with: "480002000000120")
      .replacingOnce("1717200000000", with: "1717200000001").replacingOnce("1719792000000", with: "1718000000000")
    let name = environment == .production ? "Production" : "Sandbox"
    let history = try history(
      Sample.body(environment: name, inApp: "\(later),\(Sample.row)", latest: "[\(Sample.row)]"),
      environment: environment)
    #expect(history.purchases.map(\.transactionID) == ["480002000000112", "480002000000120"])
  }

  @Test func `a repeated row counts once, and as taken back if any of its copies is`() throws {
    let rows = [Sample.row, Sample.row, Sample.refundedRow, Self.otherRow]
    for rows in [rows, rows.reversed()] {
      let history = try history(Sample.body(latest: "[\(rows.joined(separator: ","))]"))
      #expect(history.purchases.count == 2)
      #expect(history.purchases.first { $0.transactionID == "480002000000112" }?.cancellationDate != nil)
    }
  }

  @Test func `Apple's request time is the evidence and the moment to judge at`() throws {
    let history = try history(Sample.body())
    #expect(history.source == .verifyReceipt)
    #expect(history.evidenceTime == moment(1_718_452_800_123))
    #expect(history.evaluatedAt == moment(1_718_452_800_123))
    #expect(!history.isAccountGone)
  }

  @Test func `without a request time the receipt's creation is the evidence, then the newest purchase`() throws {
    let noRequest = Sample.body(latest: nil).replacingOnce(#""request_date":"#, with: #""r":"#)
      .replacingOnce(#""request_date_ms":"#, with: #""r_ms":"#)
    let created = try history(noRequest)
    #expect(created.evidenceTime == moment(1_717_200_000_000))
    #expect(created.evaluatedAt == TestTime.date)
    let noCreation = noRequest.replacingOnce(#""receipt_creation_date_ms":"1717200000000","#, with: "")
      .replacingOnce(#""purchase_date_ms":"1717200000000""#, with: #""purchase_date_ms":"1717200000001""#)
    #expect(try history(noCreation).evidenceTime == moment(1_717_200_000_001))
    #expect(try history(#"{"status":0,"receipt":{"in_app":[]}}"#).evidenceTime == TestTime.date)
  }

  @Test(arguments: StoreEnvironment.allCases)
  func `an answer that does not name its store belongs to the endpoint`(_ endpoint: StoreEnvironment) throws {
    let body = Sample.body(environment: nil).replacingOnce(#""receipt_type":"Production","#, with: "")
    #expect(try history(body, environment: endpoint).environment == endpoint)
    #expect(try history(Sample.body(environment: "Sandbox"), environment: endpoint).environment == .sandbox)
  }

  // MARK: iOS 6-style

  @Test(arguments: [
    #"{"status":0,"receipt":\#(Sample.transaction),"latest_receipt_info":\#(Sample.transaction)}"#,
    #"{"status":0,"receipt":\#(Sample.transaction)}"#,
    #"{"status":21006,"receipt":{"bid":"x","product_id":"y","transaction_id":"1","expires_date":"1"},"#
      + #""latest_expired_receipt_info":\#(Sample.transaction)}"#,
    #"{"status":21006,"latest_expired_receipt_info":\#(Sample.transaction)}"#,
    #"{"status":21006,"receipt":\#(Sample.transaction)}"#,
    #"{"status":"21006","latest_receipt_info":\#(Sample.transaction)}"#,
  ])
  func `the one object of an iOS 6-style answer is its row`(_ text: String) throws {
    let history = try history(text, environment: .sandbox)
    #expect(
      history.purchases == [
        Purchase(
          productID: "com.example.app.pro.monthly", transactionID: "480002000000112",
          originalTransactionID: "480002000000001", purchaseDate: moment(1_717_200_000_000),
          expiresDate: moment(1_719_792_000_000))
      ])
    #expect(history.evidenceTime == moment(1_717_200_000_000))
    #expect(history.evaluatedAt == TestTime.date)
    #expect(history.environment == .sandbox)
  }

  @Test func `an iOS 6-style answer names its app by bid`() throws {
    let response = try Sample.decode(#"{"status":0,"receipt":\#(Sample.transaction)}"#)
    #expect(response.bundleID == "com.example.app")
    let expired = try Sample.decode(#"{"status":21006,"latest_expired_receipt_info":\#(Sample.transaction)}"#)
    #expect(expired.bundleID == "com.example.app")
  }

  @Test func `renewal facts at the top level belong to the row`() throws {
    let history = try history(
      #"""
      {"status":21006,"receipt":\#(Sample.transaction),"latest_expired_receipt_info":\#(Sample.transaction),
       "auto_renew_status":0,"auto_renew_product_id":"com.example.app.pro.yearly","expiration_intent":"1",
       "is_in_billing_retry_period":"0"}
      """#)
    #expect(
      history.renewals == [
        RenewalInfo(
          originalTransactionID: "480002000000001", productID: "com.example.app.pro.monthly",
          autoRenewProductID: "com.example.app.pro.yearly", autoRenews: false, expirationIntent: 1,
          isInBillingRetry: false)
      ])
    #expect(history.evidence().first?.renewals.count == 1)
  }

  @Test func `a receipt without renewal facts has no renewal`() throws {
    #expect(try history(#"{"status":0,"receipt":\#(Sample.transaction)}"#).renewals.isEmpty)
  }

  @Test func `a lifetime purchase of iOS 6 has no expiry`() throws {
    let row = #"{"bid":"com.example.app","product_id":"com.example.app.forever","transaction_id":"5"}"#
    let history = try history(#"{"status":0,"receipt":\#(row)}"#)
    #expect(history.purchases.map(\.expiresDate) == [nil])
    #expect(history.evidenceTime == TestTime.date)
  }
}

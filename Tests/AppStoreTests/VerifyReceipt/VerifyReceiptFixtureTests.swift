import Entitlements
import Foundation
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import JSON

@Suite(
  .enabled(if: ReceiptFixtures.areThere, "there is no folder of recorded answers; see COUNTERSIGN_FIXTURES"))
struct VerifyReceiptFixtureTests {
  private typealias Fixtures = VerifyReceiptFixtures

  private func decode(_ bytes: [UInt8]) throws -> VerifyReceiptResponse {
    try VerifyReceiptResponse(JSONDocument(bytes).root)
  }

  private func date(_ text: String?) throws -> Date? { try text.map { try Date($0, strategy: .iso8601) } }

  /// Compares renewals member by member with the expected ones, as Apple wrote them.
  private func expect(_ renewals: [RenewalInfo]?, _ expected: [[String: String]]?) throws {
    #expect(renewals?.count == expected?.count)
    for (renewal, expected) in zip(renewals ?? [], expected ?? []) {
      #expect(renewal.productID?.rawValue == expected["product_id"])
      #expect(renewal.originalTransactionID?.rawValue == expected["original_transaction_id"])
      #expect(renewal.autoRenewProductID?.rawValue == expected["auto_renew_product_id"])
      #expect(renewal.autoRenews == expected["auto_renew_status"].map { $0 == "1" })
      #expect(renewal.expirationIntent == expected["expiration_intent"].flatMap(Int.init))
      #expect(renewal.isInBillingRetry == expected["is_in_billing_retry_period"].map { $0 == "1" })
      #expect(
        renewal.gracePeriodExpiresDate
          == expected["grace_period_expires_date_ms"].flatMap(Int64.init).map(moment))
    }
  }

  private func expect(_ response: VerifyReceiptResponse, latest: Fixtures.Latest?) throws {
    guard let latest else { return }
    let rows = (response.latestRows ?? response.receiptRows)
    let last = try #require(rows.max { ($0.expiresDate ?? .distantPast) < ($1.expiresDate ?? .distantPast) })
    if let product = latest.product_id { #expect(last.productID.rawValue == product) }
    if let transaction = latest.transaction_id { #expect(last.transactionID.rawValue == transaction) }
    if let original = latest.original_transaction_id { #expect(last.originalTransactionID.rawValue == original) }
    let seconds = last.expiresDate.map { Date(timeIntervalSince1970: $0.timeIntervalSince1970.rounded(.down)) }
    #expect(try seconds == date(latest.expires))
  }

  @Test(arguments: VerifyReceiptFixtures.cases("verifyreceipt_response"))
  func `a recorded answer is read as it is meant`(_ fixture: VerifyReceiptFixtures.Case) throws {
    let expected = try #require(fixture.expect)
    let response = try decode(ReceiptFixtures.contents(fixture.file))
    #expect(response.status.rawValue == expected.status?.number)
    #expect(response.environmentName == expected.environment)
    #expect(response.bundleID?.rawValue == expected.bundle_id)
    if let count = expected.in_app { #expect(response.receiptRows.count == count) }
    if let count = expected.latest_receipt_info { #expect(response.latestRows?.count == count) }
    if expected.latest_receipt_info_is_object == true {
      #expect(response.latestRows?.count == 1)
    }
    try expect(response.renewals, expected.pending_renewal_info)
    try expect(response, latest: expected.latest)
    let rows = (response.latestRows ?? response.receiptRows)
    if let count = expected.upgraded_rows { #expect(rows.count { $0.isUpgraded } == count) }
    if let count = expected.cancelled_rows { #expect(rows.count { $0.cancellationDate != nil } == count) }
  }

  @Test(arguments: VerifyReceiptFixtures.cases("verifyreceipt_exchange"))
  func `a recorded exchange is played through as it happened`(_ fixture: VerifyReceiptFixtures.Case) async throws {
    let steps = try #require(fixture.expect?.steps)
    let exchanges = try JSONDecoder().decode(
      [VerifyReceiptFixtures.Exchange].self, from: ReceiptFixtures.bytes(fixture.file))
    #expect(exchanges.count == steps.count)
    for (exchange, step) in zip(exchanges, steps) {
      let response = try decode(Array(exchange.response.body_raw.utf8))
      #expect(exchange.request.url == step.url)
      #expect(response.status.rawValue == step.status)
      #expect(response.environmentName == step.environment)
      #expect(response.bundleID?.rawValue == step.bundle_id)
      #expect(response.receiptRows.count == step.in_app ?? 0)
      #expect(response.latestRows?.count == step.latest_receipt_info)
      try expect(response.renewals, step.pending_renewal_info)
      try expect(response, latest: step.latest)
    }

    // The recorded steps and then, so that the validation ends, a status that is an end.
    let last = try #require(steps.last)
    let end = last.status == 0 ? [] : [ScriptedTransport.Step.body(#"{"status":21004}"#)]
    let time = TestTime()
    let transport = ScriptedTransport(
      exchanges.map { .body($0.response.body_raw, status: $0.response.http_status) } + end, time: time)
    let client = VerifyReceiptClient(
      transport: transport,
      configuration: .init(
        productionURL: "https://buy.itunes.apple.com/verifyReceipt",
        sandboxURL: "https://sandbox.itunes.apple.com/verifyReceipt", sharedSecret: Secret("s")),
      timing: time.timing())
    do throws(AppStoreError) {
      let answer = try await client.verify("AA==", deadline: time.start.advanced(by: .seconds(10)))
      #expect(last.status == 0)
      #expect(answer.bundleID?.rawValue == last.bundle_id)
      #expect(answer.history.environment.rawValue == last.environment?.lowercased())
    } catch {
      #expect(last.status != 0)
      #expect(error == .sharedSecretRejected)
    }
    #expect(transport.calls.prefix(steps.count).map(\.url) == steps.map(\.url))
    #expect(transport.remaining == 0)
  }

  @Test(arguments: VerifyReceiptFixtures.cases("synthetic_verifyreceipt"))
  func `an answer made up for a rule says what the rule needs`(_ fixture: VerifyReceiptFixtures.Case) throws {
    let expected = try #require(fixture.expect)
    let response = try decode(ReceiptFixtures.contents(fixture.file))
    guard response.status == .valid else {
      #expect(fixture.id.contains(String(response.status.rawValue)) || response.status.isInternalDataAccessError)
      return
    }
    let clock = try #require(try date(expected.clock))
    let history = response.purchaseHistory(environment: .production, askedAt: TestTime.date)
    #expect(history.evidenceTime == clock)
    #expect(history.evaluatedAt == clock)
    #expect(history.environment == (fixture.id.contains("sandbox") ? .sandbox : .production))
    #expect((response.bundleID == "com.example.app") == !fixture.id.contains("wrong-bundle"))
    #expect(!history.purchases.isEmpty)
    if let until = try date(expected.until) {
      #expect(
        history.purchases.contains { $0.expiresDate == until }
          || history.renewals.contains { $0.gracePeriodExpiresDate == until })
    }
    if let renews = expected.will_renew { #expect(history.renewals.contains { $0.autoRenews == renews }) }
    if expected.trial == true { #expect(history.purchases.contains { $0.isTrial }) }
    if expected.ownership == "FAMILY_SHARED" {
      #expect(history.purchases.contains { $0.ownership == .familyShared })
    }
    if let product = expected.next_product {
      #expect(history.renewals.contains { $0.autoRenewProductID?.rawValue == product })
    }
    if expected.reason == "refunded" { #expect(history.purchases.contains { $0.cancellationDate != nil }) }
    if expected.reason == "lifetime" { #expect(history.purchases.contains { $0.expiresDate == nil }) }
  }
}

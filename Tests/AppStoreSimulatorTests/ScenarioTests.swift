import Testing

@testable import AppStoreSimulator

/// The answer about a scenario at the moment the receipt was issued.
struct ExpectedAnswer: Sendable, CustomTestStringConvertible {
  var scenario: Scenario
  /// Of the newest row of `latest_receipt_info`.
  var product: Product = .proMonthly
  /// Days until (or since) the newest row's end.
  var endsIn: ClosedRange<Double>
  var autoRenew: String
  var intent: String?
  var inRetry: String?
  var graceEndsIn: Double?
  var isCancelled = false
  var ownership = "PURCHASED"
  var rows: Int

  var testDescription: String { scenario.rawValue }
}

@Suite("The answer tells the scenario")
struct ScenarioTests {
  static let subscriptions: [ExpectedAnswer] = [
    ExpectedAnswer(scenario: .subscriber, endsIn: 31...31, autoRenew: "1", rows: 1),
    ExpectedAnswer(scenario: .trial, endsIn: 5...5, autoRenew: "1", rows: 1),
    ExpectedAnswer(scenario: .renewing, endsIn: 15...18, autoRenew: "1", rows: 2),
    ExpectedAnswer(scenario: .lateRenewal, endsIn: -0.001...0, autoRenew: "1", rows: 1),
    ExpectedAnswer(scenario: .renewalOff, endsIn: 15...15, autoRenew: "0", rows: 2),
    ExpectedAnswer(
      scenario: .grace, endsIn: -3 ... -3, autoRenew: "1", intent: "2", inRetry: "1", graceEndsIn: 13, rows: 2),
    ExpectedAnswer(
      scenario: .graceWithoutDate, endsIn: -3 ... -3, autoRenew: "1", intent: "2", inRetry: "0", rows: 2),
    ExpectedAnswer(scenario: .graceEnded, endsIn: -20 ... -20, autoRenew: "1", intent: "2", inRetry: "1", rows: 2),
    ExpectedAnswer(scenario: .billingRetry, endsIn: -3 ... -3, autoRenew: "1", intent: "2", inRetry: "1", rows: 2),
    ExpectedAnswer(
      scenario: .expiredVoluntary, endsIn: -30 ... -30, autoRenew: "0", intent: "1", inRetry: "0", rows: 2),
    ExpectedAnswer(
      scenario: .voluntaryRetrying, endsIn: -3 ... -3, autoRenew: "0", intent: "1", inRetry: "1", rows: 2),
    ExpectedAnswer(
      scenario: .expiredBillingError, endsIn: -90 ... -90, autoRenew: "0", intent: "2", inRetry: "0", rows: 2),
    ExpectedAnswer(
      scenario: .expiredPriceIncrease, endsIn: -30 ... -30, autoRenew: "0", intent: "3", inRetry: "0", rows: 2),
    ExpectedAnswer(
      scenario: .expiredProductUnavailable, endsIn: -30 ... -30, autoRenew: "0", intent: "4", inRetry: "0", rows: 2),
    ExpectedAnswer(scenario: .expiredUnknown, endsIn: -30 ... -30, autoRenew: "0", intent: "5", inRetry: "0", rows: 2),
    ExpectedAnswer(
      scenario: .refunded, product: .premiumMonthly, endsIn: 15...15, autoRenew: "0", isCancelled: true, rows: 2),
    ExpectedAnswer(
      scenario: .refundedProrated, product: .premiumMonthly, endsIn: 15...15, autoRenew: "0", isCancelled: true, rows: 2
    ),
    ExpectedAnswer(
      scenario: .refundedThenRebought, product: .premiumMonthly, endsIn: 26...26, autoRenew: "1", rows: 3),
    ExpectedAnswer(scenario: .upgraded, product: .premiumMonthly, endsIn: 26...26, autoRenew: "1", rows: 2),
    ExpectedAnswer(
      scenario: .upgradeRefunded, product: .premiumMonthly, endsIn: 26...26, autoRenew: "0", isCancelled: true, rows: 2),
    ExpectedAnswer(scenario: .downgradePending, product: .premiumMonthly, endsIn: 15...15, autoRenew: "1", rows: 2),
    ExpectedAnswer(scenario: .crossgraded, endsIn: 15...15, autoRenew: "1", rows: 2),
    ExpectedAnswer(scenario: .commitment, product: .proYearly, endsIn: 15...18, autoRenew: "1", rows: 2),
    ExpectedAnswer(scenario: .commitmentStopped, product: .proYearly, endsIn: 15...18, autoRenew: "1", rows: 2),
    ExpectedAnswer(scenario: .migrated, endsIn: 15...18, autoRenew: "1", rows: 1),
    ExpectedAnswer(
      scenario: .familyShared, product: .premiumMonthly, endsIn: 21...21, autoRenew: "1", ownership: "FAMILY_SHARED",
      rows: 1),
    ExpectedAnswer(
      scenario: .familyRevoked, product: .premiumMonthly, endsIn: 15...15, autoRenew: "0", isCancelled: true,
      ownership: "FAMILY_SHARED", rows: 2),
    ExpectedAnswer(scenario: .unknownProduct, product: .unknown, endsIn: 21...21, autoRenew: "1", rows: 1),
    ExpectedAnswer(scenario: .wrongApp, endsIn: 15...18, autoRenew: "1", rows: 2),
    ExpectedAnswer(scenario: .eventfulYear, endsIn: 7...7, autoRenew: "1", rows: 1),
  ]

  @Test("the answer has a subscription's newest row and prospects", arguments: subscriptions, StoreEnvironment.allCases)
  func subscription(expected: ExpectedAnswer, environment: StoreEnvironment) throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: expected.scenario, environment: environment))
    #expect(verdict.status == 0)
    #expect(verdict.json.text("environment") == environment.appleName)
    #expect(verdict.receipt.days("request_date") == 0)
    #expect(verdict.latest.count == expected.rows)
    let row = try #require(verdict.latest.first)
    #expect(row.text("product_id") == expected.product.id)
    #expect(expected.endsIn.contains(try #require(row.days("expires_date"))))
    #expect((row["cancellation_date_ms"] != nil) == expected.isCancelled)
    #expect(row.text("in_app_ownership_type") == expected.ownership)
    #expect(row.text("subscription_group_identifier") == Subscription.mainGroup)
    #expect(row.text("is_trial_period") == ([.trial, .eventfulYear].contains(expected.scenario) ? "true" : "false"))
    let renewal = try #require(verdict.renewals.first)
    #expect(verdict.renewals.count == 1)
    #expect(renewal.text("original_transaction_id") == row.text("original_transaction_id"))
    #expect(renewal.text("auto_renew_status") == expected.autoRenew)
    #expect(renewal.text("expiration_intent") == expected.intent)
    #expect(renewal.text("is_in_billing_retry_period") == expected.inRetry)
    #expect(renewal.days("grace_period_expires_date") == expected.graceEndsIn)
  }

  @Test("every scenario that is a subscription is in the table")
  func tableIsComplete() {
    let others: Set<Scenario> = [.lifetime, .lifetimeRefunded, .nonRenewing, .empty, .twoGroups, .accountGone]
    #expect(Set(Self.subscriptions.map(\.scenario)).union(others) == Set(Scenario.allCases))
  }

  @Test("a purchase for ever has neither an end nor renewal information")
  func lifetime() throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: .lifetime))
    let row = try #require(verdict.inApp.first)
    #expect(row.text("product_id") == Product.forever.id)
    #expect(row["expires_date_ms"] == nil)
    #expect(row["cancellation_date_ms"] == nil)
    #expect(verdict.json["latest_receipt_info"] == nil)
    #expect(verdict.json["pending_renewal_info"] == nil)
  }

  @Test("a refunded purchase for ever says when")
  func lifetimeRefunded() throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: .lifetimeRefunded))
    #expect(try #require(verdict.inApp.first).days("cancellation_date") == -1)
  }

  @Test("an old receipt is decoded as it was signed: a later refund is not in it")
  func oldReceipt() throws {
    let store = try Store()
    let old = try store.ask(ReceiptOrder(scenario: .lifetimeRefunded, age: 50 * Timestamp.day))
    #expect(old.receipt.days("receipt_creation_date") == -50)
    #expect(old.receipt.days("request_date") == 0)
    let row = try #require(old.inApp.first)
    #expect(row.days("purchase_date") == -100)
    #expect(row["cancellation_date_ms"] == nil)
    let id = try #require(row.text("transaction_id"))
    let told = try store.get("/inApps/v1/transactions/" + id).json.text("signedTransactionInfo")
    #expect(try CheckedJWS.payload(told).dayNumber("revocationDate") == -1)
    let signed = try store.issuer.issueTransaction(
      ReceiptOrder(scenario: .lifetimeRefunded, age: 50 * Timestamp.day), at: noon)
    let payload = try CheckedJWS.payload(signed.signedTransaction)
    #expect(payload.dayNumber("signedDate") == -50)
    #expect(payload["revocationDate"] == nil)
  }

  @Test("a non-renewing subscription has no end, and the next one is a purchase of its own")
  func nonRenewing() throws {
    let store = try Store()
    let body = requestBody(try store.receipt(ReceiptOrder(scenario: .nonRenewing)))
    let row = try #require(try store.ask(body).inApp.first)
    #expect(row.text("product_id") == Product.proSeason.id)
    #expect(row["expires_date_ms"] == nil)
    #expect(try store.ask(body).json["pending_renewal_info"] == nil)
    let id = try #require(row.text("transaction_id"))
    let told = try store.get("/inApps/v1/transactions/" + id).json.text("signedTransactionInfo")
    let payload = try CheckedJWS.payload(told)
    #expect(payload.text("type") == "Non-Renewing Subscription")
    #expect(payload["expiresDate"] == nil)
    #expect(try store.get("/inApps/v1/subscriptions/" + id).json.objects("data").isEmpty)
    store.clock.advance(milliseconds: 20 * Timestamp.day)
    let history = try store.get("/inApps/v2/history/" + id, [("productType", "NON_RENEWABLE")]).json
    let ids = try #require(history["signedTransactions"] as? [String]).map {
      try CheckedJWS.payload($0).text("originalTransactionId")
    }
    #expect(ids == ["480000000010000", "480000000011000"])
  }

  @Test("a grace period without a date is told by the status alone")
  func graceWithoutDate() throws {
    let store = try Store()
    let id = try store.issuer.issueTransaction(ReceiptOrder(scenario: .graceWithoutDate), at: noon).transactionID
    func last() throws -> (status: Int?, renewal: [String: Any]) {
      let data = try store.get("/inApps/v1/subscriptions/" + id).json.objects("data")
      let last = try #require(data.first?.objects("lastTransactions").first)
      return (last["status"] as? Int, try CheckedJWS.payload(last.text("signedRenewalInfo")))
    }
    let grace = try last()
    #expect(grace.status == 4)
    #expect(grace.renewal["gracePeriodExpiresDate"] == nil)
    #expect(grace.renewal["isInBillingRetryPeriod"] as? Bool == false)
    store.clock.set(noon.adding(days: 13))
    let retry = try last()
    #expect(retry.status == 3)
    #expect(retry.renewal["isInBillingRetryPeriod"] as? Bool == true)
  }

  @Test("a renewal is shown as late as was asked for, by all three", arguments: [2, 90, 600] as [Int64])
  func lateRenewal(seconds: Int64) throws {
    let store = try Store()
    let order = ReceiptOrder(scenario: .subscriber, renewalsLateBy: seconds * Timestamp.second)
    let body = requestBody(try store.receipt(order))
    let end = noon.adding(months: 1)
    let shown = Timestamp(milliseconds: end.milliseconds + seconds * Timestamp.second)
    func last() throws -> (status: Int?, purchase: Int64?, end: Int64?) {
      let data = try store.get("/inApps/v1/subscriptions/480000000010000").json.objects("data")
      let last = try #require(data.first?.objects("lastTransactions").first)
      let transaction = try CheckedJWS.payload(last.text("signedTransactionInfo"))
      return (last["status"] as? Int, transaction["purchaseDate"] as? Int64, transaction["expiresDate"] as? Int64)
    }
    for moment in [end, shown.before] {
      store.clock.set(moment)
      let verdict = try store.ask(body)
      #expect(verdict.latest.count == 1)
      let renewal = try #require(verdict.renewals.first)
      #expect(renewal.text("auto_renew_status") == "1")
      #expect(renewal["expiration_intent"] == nil)
      #expect(try last() == (1, noon.milliseconds, end.milliseconds))
    }
    store.clock.set(shown)
    let renewed = try store.ask(body)
    #expect(renewed.latest.count == 2)
    #expect(renewed.latest.first?.text("purchase_date_ms") == String(end.milliseconds))
    // The receipt that was sent knows its first month only, the newest one both.
    #expect(renewed.inApp.count == 1)
    let newest = try store.ask(requestBody(try #require(renewed.json.text("latest_receipt"))))
    #expect(newest.inApp.count == 2)
    #expect(try last() == (1, end.milliseconds, noon.adding(months: 2).milliseconds))
    let told = try store.notifications(order, after: noon, days: 40)
    #expect(told.map(\.type) == ["DID_RENEW"])
    #expect(told.map(\.at) == [shown.date])
  }

  @Test(
    "a late renewal is due at any day of the month",
    arguments: ["2026-03-31", "2026-02-28", "2028-02-29", "2026-04-30", "2026-05-31", "2026-01-15"])
  func lateRenewalOnAnyDay(day: String) throws {
    let now = try #require(Timestamp(text: day + "T12:00:00Z"))
    let timeline = Scenario.lateRenewal.timeline(start: now, environment: .production)
    let state = timeline.state(at: now)
    #expect(state.renewals.map(\.phase) == [.due])
    #expect(state.rows.last?.expiresAt == Timestamp(milliseconds: now.milliseconds - Timestamp.second))
    let later = timeline.state(at: Timestamp(milliseconds: now.milliseconds + 299 * Timestamp.second))
    #expect(later.rows.count == state.rows.count + 1)
  }

  @Test(
    "lateness and age have bounds",
    arguments: [
      (ReceiptOrder(renewalsLateBy: -1), IssueError.badLateness),
      (ReceiptOrder(renewalsLateBy: 7 * Timestamp.day + 1), .badLateness),
      (ReceiptOrder(age: -1), .badAge), (ReceiptOrder(age: .max), .badAge),
    ])
  func bounds(order: ReceiptOrder, error: IssueError) throws {
    let store = try Store()
    #expect(throws: error) { try store.issuer.issue(order, at: noon) }
  }

  @Test("nothing bought is an authentic receipt without rows")
  func empty() throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: .empty))
    #expect(verdict.status == 0)
    #expect(verdict.inApp.isEmpty)
    #expect(verdict.json["latest_receipt_info"] == nil)
  }

  @Test("a deleted account is status 21010 and nothing else")
  func accountGone() throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: .accountGone))
    #expect(verdict.status == 21010)
    #expect(verdict.json.count == 1)
  }

  @Test("another app's receipt names our products and its own bundle")
  func wrongApp() throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: .wrongApp))
    #expect(verdict.receipt.text("bundle_id") == "com.example.somebody-else")
  }

  @Test("an upgraded row ends later than its successor and is marked, cancelled in production only")
  func upgraded() throws {
    for environment in StoreEnvironment.allCases {
      let verdict = try Store().ask(ReceiptOrder(scenario: .upgraded, environment: environment))
      let old = try #require(verdict.latest.first { $0.text("product_id") == Product.proYearly.id })
      let new = try #require(verdict.latest.first { $0.text("product_id") == Product.premiumMonthly.id })
      #expect(old.text("is_upgraded") == "true")
      #expect(new.text("is_upgraded") == nil)
      #expect((old["cancellation_date_ms"] != nil) == (environment == .production))
      #expect(try #require(old.days("expires_date")) > (try #require(new.days("expires_date"))))
      #expect(old.text("original_transaction_id") == new.text("original_transaction_id"))
      let inApp = try #require(verdict.inApp.first { $0.text("product_id") == Product.proYearly.id })
      #expect(inApp["is_upgraded"] == nil)
    }
  }

  @Test("a change that waits names what renews next, and happens at the end of the period")
  func pendingChange() throws {
    for (scenario, next) in [(Scenario.downgradePending, Product.proMonthly), (.crossgraded, .proYearly)] {
      let store = try Store()
      let body = requestBody(try store.receipt(ReceiptOrder(scenario: scenario)))
      let before = try #require(try store.ask(body).renewals.first)
      #expect(before.text("auto_renew_product_id") == next.id)
      #expect(before.text("product_id") != next.id)
      store.clock.advance(milliseconds: 16 * Timestamp.day)
      let after = try store.ask(body)
      #expect(try #require(after.latest.first).text("product_id") == next.id)
      #expect(after.renewals.map { $0.text("product_id") } == [next.id])
    }
  }

  @Test("two groups are two subscriptions with IDs and prospects of their own")
  func twoGroups() throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: .twoGroups))
    #expect(Set(verdict.latest.compactMap { $0.text("subscription_group_identifier") }).count == 2)
    #expect(Set(verdict.renewals.compactMap { $0.text("original_transaction_id") }).count == 2)
  }

  @Test("a year of renewals passes with the clock: thirteen periods end to end, one subscription")
  func yearOfRenewals() throws {
    let store = try Store()
    let body = requestBody(try store.receipt(ReceiptOrder(scenario: .subscriber)), excludesOld: true)
    let everything = requestBody(try store.receipt(ReceiptOrder(scenario: .subscriber)))
    var ends: [String] = []
    for month in 0...12 {
      store.clock.set(noon.adding(months: month))
      let verdict = try store.ask(body)
      let row = try #require(verdict.latest.first)
      #expect(verdict.latest.count == 1)
      #expect(row.text("original_transaction_id") == "480000000010000")
      #expect(row.text("purchase_date_ms") == String(noon.adding(months: month).milliseconds))
      #expect(try #require(verdict.renewals.first).text("auto_renew_status") == "1")
      // The receipt that was sent knows its first month only; the newest one is a receipt too.
      #expect(verdict.inApp.count == 1)
      let newest = try store.ask(requestBody(try #require(verdict.json.text("latest_receipt"))))
      #expect(newest.inApp.count == month + 1)
      ends.append(try #require(row.text("expires_date_ms")))
    }
    #expect(Set(ends).count == 13)
    let rows = try store.ask(everything).latest
    #expect(rows.count == 13)
    #expect(Set(rows.compactMap { $0.text("transaction_id") }).count == 13)
    #expect(Set(rows.compactMap { $0.text("web_order_line_item_id") }).count == 13)
    for (newer, older) in zip(rows, rows.dropFirst()) {
      #expect(newer.text("purchase_date_ms") == older.text("expires_date_ms"))
    }
  }

  @Test("a grace period runs into billing retry, and that into the end")
  func graceRunsOut() throws {
    let store = try Store()
    let body = requestBody(try store.receipt(ReceiptOrder(scenario: .grace)))
    store.clock.set(noon.adding(days: 13))
    let retry = try #require(try store.ask(body).renewals.first)
    #expect(retry["grace_period_expires_date_ms"] == nil)
    #expect(retry.text("is_in_billing_retry_period") == "1")
    store.clock.set(noon.adding(days: 57))
    let end = try #require(try store.ask(body).renewals.first)
    #expect(end.text("is_in_billing_retry_period") == "0")
    #expect(end.text("auto_renew_status") == "0")
    #expect(end.text("expiration_intent") == "2")
  }

  @Test("the clock can be moved absurdly far and the answer stays bounded")
  func farFuture() throws {
    let store = try Store()
    let body = requestBody(try store.receipt(ReceiptOrder(scenario: .subscriber)))
    store.clock.set(Timestamp(milliseconds: 32_000_000_000_000))
    #expect(try store.ask(body).latest.count == Timeline.periodLimit)
  }
}

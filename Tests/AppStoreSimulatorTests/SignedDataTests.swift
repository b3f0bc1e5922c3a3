import Foundation
import TestSupport
import Testing

@testable import AppStoreSimulator

@Suite("Signed transactions and renewal info")
struct SignedDataTests {
  private func transaction(_ order: ReceiptOrder, at now: Timestamp = noon) throws -> [String: Any] {
    let store = try Store()
    let id = try store.issuer.issueTransaction(order, at: noon).originalTransactionID
    return try CheckedJWS.payload(
      try store.issuer.newestTransaction(ofOriginal: id, at: now).signedTransaction)
  }

  private func renewal(_ order: ReceiptOrder, at now: Timestamp = noon) throws -> [String: Any] {
    let store = try Store()
    let id = try store.issuer.issueTransaction(order, at: noon).originalTransactionID
    let (customer, slot, _) = try #require(store.issuer.customers.transaction(id))
    let payload = SignedDataPayload(seed: customer.seed, at: now)
    let renewal = try #require(payload.state.renewals.first { $0.slot == slot })
    return try CheckedJWS.payload(try store.issuer.signer.sign(payload.renewalInfo(renewal)))
  }

  @Test("a signed transaction is verified by its own chain to the root, with the markers that Apple's has")
  func verifies() async throws {
    let issued = try Store().issuer.issueTransaction(ReceiptOrder(scenario: .renewing), at: noon)
    let jws = try await CheckedJWS(issued.signedTransaction)
    #expect(Set(jws.header.keys) == ["alg", "x5c"])
    #expect(jws.payload.text("transactionId") == issued.transactionID)
    #expect(jws.payload.text("originalTransactionId") == issued.originalTransactionID)
  }

  @Test(
    "openssl verifies the chain", .enabled(if: Tool.openssl != nil, "openssl is not installed"))
  func openssl() async throws {
    let files = try [
      DevelopmentPKI.rootPEM, DevelopmentKeys.signedDataIntermediateCertificate,
      DevelopmentKeys.signedDataLeafCertificate,
    ].map { try temporaryFile(Array($0.utf8)) }
    defer { for file in files { try? FileManager.default.removeItem(at: file) } }
    let arguments = ["verify", "-CAfile", files[0].path(), "-untrusted", files[1].path(), files[2].path()]
    let verified = try await ChildProcess.run(try #require(Tool.openssl), arguments)
    #expect(verified.code == 0)
  }

  @Test("a subscription's transaction has each member")
  func subscription() throws {
    let token = "7E3FB204-2D0A-4D0B-9E1B-0D8D5F6F4C3A"
    let payload = try transaction(
      ReceiptOrder(scenario: .subscriber, environment: .sandbox, subscriber: 7, appAccountToken: token),
      at: noon.adding(days: 40))
    #expect(payload.text("transactionId") == "2000000000070001")
    #expect(payload.text("originalTransactionId") == "2000000000070000")
    #expect(payload.text("webOrderLineItemId") == "2010000000070001")
    #expect(payload.text("bundleId") == "com.example.app")
    #expect(payload.text("productId") == Product.proMonthly.id)
    #expect(payload.text("subscriptionGroupIdentifier") == Subscription.mainGroup)
    #expect(payload.dayNumber("purchaseDate") == 31)
    #expect(payload.dayNumber("originalPurchaseDate") == 0)
    #expect(payload.dayNumber("expiresDate") == 59)
    #expect(payload.dayNumber("signedDate") == 40)
    #expect(payload["quantity"] as? Int == 1)
    #expect(payload.text("type") == "Auto-Renewable Subscription")
    #expect(payload.text("appAccountToken") == token.lowercased())
    #expect(payload.text("inAppOwnershipType") == "PURCHASED")
    #expect(payload.text("environment") == "Sandbox")
    #expect(payload.text("transactionReason") == "RENEWAL")
    for absent in ["revocationDate", "revocationReason", "isUpgraded", "offerType"] { #expect(payload[absent] == nil) }
  }

  @Test("a purchase for ever has no end, no group and no renewal")
  func lifetime() throws {
    let payload = try transaction(ReceiptOrder(scenario: .lifetimeRefunded))
    #expect(payload.text("type") == "Non-Consumable")
    for absent in ["expiresDate", "subscriptionGroupIdentifier", "webOrderLineItemId"] {
      #expect(payload[absent] == nil)
    }
    #expect(payload.dayNumber("revocationDate") == -1)
    #expect(payload["revocationReason"] as? Int == 1)
  }

  @Test("a free week is an introductory offer")
  func trial() throws {
    let payload = try transaction(ReceiptOrder(scenario: .trial))
    #expect(payload["offerType"] as? Int == 1)
    #expect(payload.text("offerDiscountType") == "FREE_TRIAL")
    #expect(payload.text("transactionReason") == "PURCHASE")
  }

  @Test("a year that is paid by the month is twelve payments, and says where each stands")
  func commitment() throws {
    let second = try transaction(ReceiptOrder(scenario: .commitment))
    #expect(second.text("productId") == Product.proYearly.id)
    #expect(second.text("billingPlanType") == "MONTHLY")
    #expect(second["price"] as? Int64 == 4_165)
    let info = second.object("commitmentInfo")
    #expect(info["billingPeriodNumber"] as? Int == 2 && info["totalBillingPeriods"] as? Int == 12)
    #expect(info["commitmentPrice"] as? Int64 == 49_990)
    let start = noon.adding(days: -45)
    #expect(info["commitmentExpiresDate"] as? Int64 == start.adding(months: 12).milliseconds)
    let later = try transaction(ReceiptOrder(scenario: .commitment), at: noon.adding(days: 365))
    #expect(later.object("commitmentInfo")["billingPeriodNumber"] as? Int == 2)
    let renewal = try renewal(ReceiptOrder(scenario: .commitment))
    #expect(renewal["autoRenewStatus"] as? Int == 1 && renewal["renewalPrice"] as? Int64 == 4_165)
    #expect(renewal.object("commitmentInfo")["commitmentAutoRenewStatus"] as? Int == 1)
  }

  @Test("a commitment that was stopped goes on until its last payment")
  func commitmentStopped() throws {
    let order = ReceiptOrder(scenario: .commitmentStopped)
    func renews(_ days: Int) throws -> [Int?] {
      let info = try renewal(order, at: noon.adding(days: days))
      return [
        info["autoRenewStatus"] as? Int, info.object("commitmentInfo")["commitmentAutoRenewStatus"] as? Int,
      ]
    }
    #expect(try renews(0) == [1, 0] && renews(280) == [1, 0] && renews(300) == [0, 0])
    let store = try Store()
    let told = try store.notifications(order, after: noon.adding(days: -40), days: 400)
    #expect(told.filter { $0.subtype == "AUTO_RENEW_DISABLED" }.map(\.at) == [noon.adding(days: -2).date])
    #expect(told.last?.type == "EXPIRED" && told.last?.subtype == "VOLUNTARY")
  }

  @Test("a migrated subscription has another ID, which names the former one")
  func migrated() throws {
    let order = ReceiptOrder(scenario: .migrated)
    let moved = try transaction(order)
    #expect(moved.text("originalTransactionId") == "480000000011000")
    #expect(moved.text("previousOriginalTransactionId") == "480000000010000")
    #expect(moved.object("advancedCommerceInfo").objects("items").map { $0.text("SKU") } == ["pro.monthly"])
    let old = ReceiptOrder(scenario: .migrated, age: 10 * Timestamp.day)
    let before = try CheckedJWS.payload(Store().issuer.issueTransaction(old, at: noon).signedTransaction)
    #expect(before.text("originalTransactionId") == "480000000010000")
    #expect(before.dayNumber("expiresDate") == moved.dayNumber("expiresDate"))
    let told = try Store().notifications(order, after: noon.adding(days: -6), days: 10)
    #expect(told.map(\.type) == ["MIGRATION"])
    #expect(told.map(\.at) == [noon.adding(days: -5).date])
  }

  @Test("a family member's transaction says whose it is not")
  func family() throws {
    let payload = try transaction(ReceiptOrder(scenario: .familyRevoked))
    #expect(payload.text("inAppOwnershipType") == "FAMILY_SHARED")
    #expect(payload.dayNumber("revocationDate") == -1)
  }

  @Test("renewal info of a running subscription says when it renews")
  func renewing() throws {
    let payload = try renewal(ReceiptOrder(scenario: .downgradePending))
    #expect(payload["autoRenewStatus"] as? Int == 1)
    #expect(payload.text("productId") == Product.premiumMonthly.id)
    #expect(payload.text("autoRenewProductId") == Product.proMonthly.id)
    #expect(payload.dayNumber("renewalDate") == 15)
    #expect(payload["isInBillingRetryPeriod"] as? Bool == false)
    #expect(payload["expirationIntent"] == nil)
    #expect(payload.dayNumber("signedDate") == 0)
  }

  @Test("renewal info in a grace period says when that ends")
  func grace() throws {
    let payload = try renewal(ReceiptOrder(scenario: .grace))
    #expect(payload.dayNumber("gracePeriodExpiresDate") == 13)
    #expect(payload["isInBillingRetryPeriod"] as? Bool == true)
    #expect(payload["expirationIntent"] as? Int == 2)
    #expect(payload["autoRenewStatus"] as? Int == 1)
    #expect(payload.dayNumber("renewalDate") == -3)
  }

  @Test("a subscription that will not renew has no renewal date")
  func renewalOff() throws {
    let payload = try renewal(ReceiptOrder(scenario: .renewalOff))
    #expect(payload["autoRenewStatus"] as? Int == 0)
    #expect(payload["renewalDate"] == nil)
    let declined = try renewal(ReceiptOrder(scenario: .expiredPriceIncrease))
    #expect(declined["priceIncreaseStatus"] as? Int == 0)
    #expect(declined["expirationIntent"] as? Int == 3)
  }

  @Test("a lapse shorter than 60 days does not begin a subscription anew")
  func recentStart() throws {
    let order = ReceiptOrder(scenario: .eventfulYear)
    #expect(try renewal(order, at: noon.adding(days: 350)).dayNumber("recentSubscriptionStartDate") == 0)
  }

  @Test("the newest purchase of two subscriptions is issued; without one, nothing")
  func newest() throws {
    #expect(try transaction(ReceiptOrder(scenario: .twoGroups)).text("productId") == Product.premiumMonthly.id)
    let store = try Store()
    #expect(throws: IssueError.nothingBought(.empty)) {
      try store.issuer.issueTransaction(ReceiptOrder(scenario: .empty), at: noon)
    }
    #expect(throws: IssueError.badAccountToken) {
      try store.issuer.issueTransaction(ReceiptOrder(appAccountToken: "me"), at: noon)
    }
    #expect(throws: IssueError.unknownTransaction("480000000010000")) {
      try store.issuer.newestTransaction(ofOriginal: "480000000010000", at: noon)
    }
  }

  @Test("verifyReceipt names the app account token too, and a receipt without one is written as ever")
  func accountTokenInReceipts() throws {
    let token = "7e3fb204-2d0a-4d0b-9e1b-0d8d5f6f4c3a"
    let with = try Store().ask(ReceiptOrder(appAccountToken: token))
    #expect(with.latest.first?.text("app_account_token") == token)
    #expect(with.inApp.first?.text("app_account_token") == token)
    let without = try Store().ask(ReceiptOrder())
    #expect(without.latest.first?["app_account_token"] == nil)
  }
}

@Suite("The customers that a simulator knows")
struct CustomerRegistryTests {
  private func seed(_ subscriber: Int64, _ scenario: Scenario = .renewing) -> ReceiptSeed {
    ReceiptSeed(
      scenario: scenario, environment: .sandbox, subscriber: subscriber, bundleID: Product.defaultBundleID,
      start: noon.milliseconds, created: noon.milliseconds, format: .der)
  }

  @Test("a transaction ID is read back into its parts")
  func parts() throws {
    for environment in StoreEnvironment.allCases {
      var seed = seed(ReceiptSeed.subscriberLimit)
      seed.environment = environment
      let parts = try #require(ReceiptSeed.parts(ofTransactionID: seed.transactionID(slot: 1, number: 42)))
      #expect(parts.environment == environment)
      #expect(parts.subscriber == ReceiptSeed.subscriberLimit)
      #expect(parts.slot == 1)
      #expect(parts.number == 42)
    }
    for strange in ["", "0", "x", "+480000000010000", "0480000000010000", "-1", "99999999999999999999"] {
      #expect(ReceiptSeed.parts(ofTransactionID: strange) == nil)
    }
  }

  @Test("the oldest is forgotten when it is full, and a new story replaces the one before")
  func bounded() {
    let registry = CustomerRegistry(limit: 2)
    for subscriber in 1...3 { registry.register(seed(Int64(subscriber))) }
    #expect(registry.all.map(\.seed.subscriber) == [2, 3])
    registry.register(seed(2, .grace))
    #expect(registry.all.map(\.seed.scenario) == [.grace, .renewing])
    #expect(registry.transaction("2000000000010000") == nil)
    #expect(registry.transaction("2000000000020001")?.customer.seed.scenario == .grace)
  }

  @Test("a receipt that is shown makes its customer known, and changes nothing for one who is")
  func learns() throws {
    let receipt = try Store().receipt(ReceiptOrder(scenario: .grace, subscriber: 9))
    let store = try Store()
    #expect(store.issuer.customers.all.isEmpty)
    _ = try store.ask(requestBody(receipt))
    #expect(store.issuer.customers.all.map(\.seed.scenario) == [.grace])
    _ = try store.ask(requestBody(try Store().receipt(ReceiptOrder(scenario: .refunded, subscriber: 9))))
    #expect(store.issuer.customers.all.map(\.seed.scenario) == [.grace])
    // A receipt that was changed on its way teaches nothing.
    var forged = Array(try Store().receipt(ReceiptOrder(subscriber: 10)))
    forged[forged.count / 2] = forged[forged.count / 2] == "A" ? "B" : "A"
    _ = try store.ask(requestBody(String(forged)))
    #expect(store.issuer.customers.all.count == 1)
  }
}

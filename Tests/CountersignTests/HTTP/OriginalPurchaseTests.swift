import Entitlements
import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// Customers who had the app before it changed: by AppTransaction, by app receipt, and in RevenueCat's dialect.
@Suite struct OriginalPurchaseTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800.123456789)

  /// The simulator's customers had version 7 first, 400 days before their story began.
  private static func settings(before: String = "before_version: \"8\"", policy: [String: String] = [:]) -> Settings {
    var settings = Settings(policy: policy)
    settings.catalog["original_purchase"] = "[{ \(before), tier: pro }]"
    return settings
  }

  private static func run(
    _ settings: Settings = settings(), body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await RunningService.besideStore(at: clock, settings: settings, body: body)
  }

  /// The purchases whose periods support sees.
  private static func purchasesShown(of user: String, _ service: RunningService) async throws -> Set<String> {
    Set(try await service.history(of: user).periods.compactMap { $0["original_transaction_id"] as? String })
  }

  @Test func `where nothing is to be had for it an AppTransaction is refused by its name`() async throws {
    try await Self.run(Settings()) { service, store in
      let answer = try await service.validate(try store.simulator.issueAppTransaction())
      #expect(answer.status == 400 && answer["code"] == "undecodable_receipt")
      #expect(answer["detail"]?.hasPrefix("This is a signed app transaction") == true, "\(answer.text)")
    }
  }

  @Test func `an AppTransaction gives the tier for life, to one user`() async throws {
    try await Self.run { service, store in
      let transaction = try store.simulator.issueAppTransaction()
      let answer = try await service.validate(transaction, user: "anna")
      #expect(answer.status == 200 && answer.verdict == "pro active original_purchase", "\(answer.text)")
      #expect(answer["access_until"] == "null" && answer["source"] == "signature")
      #expect(answer["product_id"] == "com.example.app")
      #expect(try await service.profile("anna").verdict == "pro active original_purchase")
      #expect(try await service.validate(transaction, user: "anna").verdict == "pro active original_purchase")
      let other = try await service.validate(transaction, user: "bert")
      #expect(other.status == 409 && other["code"] == "owned_by_another_user")
      // A later one of the same customer is the same download.
      store.simulator.advanceClock(by: .seconds(60))
      let later = try store.simulator.issueAppTransaction()
      #expect(try await service.validate(later, user: "anna").status == 200)
      #expect(try await service.ledger.profile(of: "anna")?.evidence.count == 1)
      // Nobody is asked about it, and nothing takes it away.
      let revalidated = try await service.send(
        .post, "/v1/profiles/anna/revalidation", key: RunningService.supportKey, body: #"{"note":"a call"}"#)
      #expect(revalidated.status == 200 && revalidated.verdict == "pro active original_purchase", "\(revalidated.text)")
      let history = try await service.send(.get, "/v1/profiles/anna/history", key: RunningService.supportKey).text
      #expect(history.contains("The customer had the app itself early enough to have pro for life"))
      #expect(try await Self.purchasesShown(of: "anna", service) == ["app-700000000000000001"])
      #expect(store.simulator.callsInAll == 0)
    }
  }

  @Test func `another app, another signer and the sandbox give nothing`() async throws {
    try await Self.run { service, store in
      let foreign = try await service.validate(try store.simulator.issueAppTransaction(bundleID: "com.example.other"))
      #expect(foreign.status == 422 && foreign["code"] == "wrong_app")
      var forged = try store.simulator.issueAppTransaction()
      forged.replaceSubrange(forged.index(forged.endIndex, offsetBy: -8)..., with: "AAAAAAAA")
      let refused = try await service.validate(forged)
      #expect(refused.status == 422 && refused["code"] == "not_authentic")
      // It says "1.0" of everybody.
      let sandbox = try await service.validate(
        try store.simulator.issueAppTransaction(environment: .sandbox), user: "carl")
      #expect(sandbox.status == 200 && sandbox.verdict == "free active no_purchases")
      let again = try store.simulator.issueAppTransaction(environment: .sandbox)
      #expect(try await service.validate(again, user: "dora").status == 200)
    }
    try await Self.run(Self.settings(policy: ["sandbox": "reject"])) { service, store in
      let answer = try await service.validate(try store.simulator.issueAppTransaction(environment: .sandbox))
      #expect(answer.status == 422 && answer["code"] == "sandbox_refused")
    }
  }

  @Test(arguments: [
    ("before_version: \"7.0\"", "free active no_purchases"), ("before_version: 10", "pro active original_purchase"),
    ("before: 2024-06-15", "pro active original_purchase"),
  ])
  func `an app receipt proves it as well, whatever was bought`(before: String, verdict: String) async throws {
    try await Self.run(Self.settings(before: before)) { service, store in
      let receipt = try store.simulator.issueReceipt(.empty).receiptData
      let answer = try await service.validate(receipt, user: "anna")
      #expect(answer.verdict == verdict, "\(answer.text)")
      #expect(answer["source"] == (verdict.hasPrefix("pro") ? "verify_receipt" : "null"))
      #expect(try await service.profile("anna").verdict == verdict)
    }
  }

  @Test func `the receipts of a user are one proof, and the same receipt is nobody else's`() async throws {
    try await Self.run { service, store in
      let bought = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      #expect(try await service.validate(bought.receiptData, user: "anna").verdict == "pro active original_purchase")
      store.simulator.advanceClock(by: .seconds(40 * 86_400))
      let newest = try store.simulator.newestReceipt(ofOriginal: bought.originalTransactionIDs[0]).receiptData
      #expect(newest != bought.receiptData)
      #expect(try await service.validate(newest, user: "anna").status == 200)
      #expect(try await service.ledger.profile(of: "anna")?.evidence.count == 2)
      let empty = try store.simulator.issueReceipt(.empty, subscriber: 2).receiptData
      #expect(try await service.validate(empty, user: "bert").verdict == "pro active original_purchase")
      #expect(try await service.validate(empty, user: "carl").status == 409)
      let another = try store.simulator.issueReceipt(.empty, subscriber: 3).receiptData
      #expect(try await service.validate(another, user: "carl").verdict == "pro active original_purchase")
      let export = try await service.send(.get, "/v1/profiles/bert/export", key: RunningService.supportKey)
      #expect(export.status == 200 && export.text.contains("app-receipt-"), "\(export.text)")
      let erased = try await service.send(.delete, "/v1/profiles/bert", key: RunningService.supportKey)
      #expect(erased.status == 200, "\(erased.text)")
      #expect(try await service.profile("bert").verdict == "free active no_purchases")
    }
  }

  @Test func `without a secret the receipt's signature proves it`() async throws {
    try await RunningService.besideStore(
      at: Self.clock, withServerAPI: true, withSecret: false, settings: Self.settings(before: "before: 2024-06-15")
    ) { service, store in
      let receipt = try store.simulator.issueReceipt(.lifetime).receiptData
      let answer = try await service.validate(receipt, user: "anna")
      #expect(answer.verdict == "premium active lifetime", "\(answer.text)")
      #expect(try await service.ledger.profile(of: "anna")?.evidence.count == 2)
      let empty = try store.simulator.issueReceipt(.empty, subscriber: 2).receiptData
      #expect(try await service.validate(empty, user: "bert").verdict == "pro active original_purchase")
    }
  }

  // MARK: RevenueCat

  @Test func `RevenueCat's SDK reads what its apps compare, by receipt and by AppTransaction`() async throws {
    try await RevenueCatApp.run { app, store, _, _ in
      let renewing = try store.simulator.issueReceipt(.renewing)
      let bought = try RevenueCatApp.info(try await app.post(renewing.receiptData, of: "anna"))
      #expect(bought.subscriber.originalApplicationVersion == "7")
      #expect(bought.subscriber.originalPurchaseDate == noon.addingTimeInterval(-400 * 86_400))
      #expect(bought.active == ["pro"] && bought.subscriber.nonSubscriptions.isEmpty)
      #expect(try await Self.purchasesShown(of: "anna", app.service) == Set(renewing.originalTransactionIDs))
      let transaction = try store.simulator.issueAppTransaction(subscriber: 2)
      let alone = try await app.send(
        .post, "/v1/receipts", #"{"app_user_id":"bert","app_transaction":"\#(transaction)"}"#)
      let bert = try RevenueCatApp.info(alone)
      #expect(alone.status == 200 && bert.subscriber.originalApplicationVersion == "7")
      #expect(bert.active.isEmpty && bert.subscriber.nonSubscriptions.isEmpty)
      // Where the catalog gives nothing for it, it is anybody's who shows it, and no refusal.
      let again = try await app.send(
        .post, "/v1/receipts", #"{"app_user_id":"carl","app_transaction":"\#(transaction)"}"#)
      #expect(again.status == 200)
      #expect(try await app.service.validate(transaction, user: "dora").status == 400)
    }
  }

  @Test func `RevenueCat's SDK has the entitlement, whose product is listed`() async throws {
    var settings = Self.settings()
    settings.dialects = ["revenuecat"]
    try await Self.run(settings) { service, store in
      let app = RevenueCatApp(service: service)
      let transaction = try store.simulator.issueAppTransaction()
      let answer = try await app.send(
        .post, "/v1/receipts", #"{"app_user_id":"anna","app_transaction":"\#(transaction)"}"#)
      let info = try RevenueCatApp.info(answer)
      #expect(info.active == ["pro"] && info.subscriber.nonSubscriptions.keys.sorted() == ["com.example.app"])
      #expect(info.subscriber.entitlements["pro"]?.expiresDate == nil)
    }
  }
}

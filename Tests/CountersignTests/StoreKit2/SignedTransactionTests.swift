import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// StoreKit 2's signed transactions, posted as `receipt_data`.
@Suite struct SignedTransactionTests {
  @Test func `a signed transaction gets the same verdict as the receipt of the same customer`() async throws {
    try await RunningService.besideStore(withServerAPI: true) { service, store in
      // Of a grace period without a date verifyReceipt says nothing, nor of a commitment.
      let without: Set<Scenario> = [.empty, .accountGone, .wrongApp, .graceWithoutDate, .commitmentStopped]
      for (number, scenario) in Scenario.allCases.filter({ !without.contains($0) }).enumerated() {
        let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number * 2 + 1))
        let expected = try await service.validate(receipt.receiptData, user: "receipt-\(number)")
        let signed = try store.simulator.issueTransaction(scenario, subscriber: Int64(number * 2 + 2))
        let answer = try await service.validate(signed.signedTransaction, user: "signed-\(number)")
        let comment = Comment(rawValue: "\(scenario.rawValue): \(answer.text)")
        #expect(answer.status == 200, comment)
        #expect(answer.verdict == expected.verdict, comment)
        for member in [
          "access_until", "expires_at", "product_id", "will_renew", "is_trial", "ownership", "environment",
        ] {
          #expect(answer[member] == expected[member], "\(scenario.rawValue): \(member)")
        }
        // Of what no catalog names there is nothing that could have a source.
        #expect(answer["source"] == (scenario == .unknownProduct ? "null" : "server_api"), comment)
      }
    }
  }

  @Test func `without a key the signature counts, as of the moment when Apple signed`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(now: { clock.date }) { service, store in
      let signed = try store.simulator.issueTransaction(.subscriber)
      let answer = try await service.validate(signed.signedTransaction)
      #expect(answer.status == 200)
      #expect(answer.verdict == "pro active renewing")
      #expect(answer["source"] == "signature")
      #expect(answer["stale"] == "false")
      #expect(store.simulator.callsInAll == 0)

      // After the month nobody has said that it is over: it stands, and then it cannot be told any more.
      clock.advance(by: 31 * 86_400)
      let held = try await service.profile()
      #expect(held.verdict == "pro active renewing" && held["stale"] == "true")
      clock.advance(by: 7 * 86_400)
      #expect(try await service.profile().verdict == "free expired unproven")

      // The next transaction of the same subscription is news.
      store.simulator.setClock(clock.date)
      let renewed = try store.simulator.newestTransaction(ofOriginal: signed.originalTransactionID)
      #expect(try await service.validate(renewed.signedTransaction).verdict == "pro active renewing")
      #expect(try await service.profile()["stale"] == "false")
      // And the old one, posted again, changes nothing.
      let state = try await service.state()
      #expect(try await service.validate(signed.signedTransaction).verdict == "pro active renewing")
      #expect(try await service.state() == state)
    }
  }

  @Test func `Apple is asked which store a transaction is of that names none`() async throws {
    try await SimulatedStore.run { store in
      let bought = try store.simulator.issueTransaction(.renewing, environment: .sandbox)
      let id = bought.originalTransactionID
      let ms = Int64(noon.timeIntervalSince1970 * 1_000)
      // As Apple signed them in 2021.
      let unnamed = try DevelopmentPKI().signedData.sign(
        .object([
          ("transactionId", .string(id)), ("originalTransactionId", .string(id)), ("bundleId", "com.example.app"),
          ("productId", "com.example.app.pro.monthly"), ("type", "Auto-Renewable Subscription"),
          ("purchaseDate", .integer(ms - 86_400_000)), ("expiresDate", .integer(ms + 86_400_000)),
          ("signedDate", .integer(ms)),
        ]))
      try await RunningService.run(apple: store.apple()) { service in
        let answer = try await service.validate(unnamed)
        #expect(answer.status == 200)
        #expect(answer.verdict == "pro active renewing" && answer["environment"] == "sandbox")
      }
      // Where nobody can be asked, it is not taken for production's.
      try await RunningService.run(apple: store.apple) { service in
        let answer = try await service.validate(unnamed)
        #expect(answer.status == 422)
        #expect(answer["code"] == "unsupported_receipt")
        #expect(try await service.profile().verdict == "free active no_purchases")
      }
      // Nor while Apple is away.
      let settings = Settings(policy: ["provisional": "24h"])
      try await RunningService.run(apple: store.apple(), settings: settings) { service in
        store.simulator.setTrouble(.http500)
        let answer = try await service.validate(unnamed)
        #expect(answer.status == 202 && answer["tier"] == "free")
      }
    }
  }

  @Test func `a transaction that Apple signed and nobody here can read is kept by the app`() async throws {
    try await SimulatedStore.run { store in
      let signed = try DevelopmentPKI().unreadableTransaction(at: noon)
      try await RunningService.run(apple: store.apple) { service in
        let answer = try await service.validate(signed)
        #expect(answer.status == 500 && answer["code"] == "internal_error" && answer["retryable"] == "true")
        #expect(service.log.text.contains("its purchaseDate cannot be read"))
        // Anybody can write one that Apple did not sign.
        let parts = signed.split(separator: ".")
        let forged = [parts[0], parts[1], parts[2].reversed().map(String.init).joined()[...]].joined(separator: ".")
        let refused = try await service.validate(forged)
        #expect(refused.status == 400 && refused["code"] == "undecodable_receipt")
      }
    }
  }

  @Test func `a transaction of another app is refused`() async throws {
    try await SimulatedStore.run { store in
      for apple in [store.apple, store.apple()] {
        try await RunningService.run(apple: apple) { service in
          let signed = try store.simulator.issueTransaction(.wrongApp)
          let answer = try await service.validate(signed.signedTransaction)
          #expect(answer.status == 422)
          #expect(answer["code"] == "wrong_app")
          #expect(try await service.profile().verdict == "free active no_purchases")
        }
      }
      #expect(store.simulator.callsInAll == 0)
    }
  }

  @Test func `a transaction of another app is refused, also where Apple knows its customer as one of ours`()
    async throws
  {
    try await SimulatedStore.run { store in
      let ours = try store.simulator.issueTransaction(.renewing).originalTransactionID
      let ms = Int64(noon.timeIntervalSince1970 * 1_000)
      @Sendable func signed(by app: String) throws -> String {
        try DevelopmentPKI().signedData.sign(
          .object([
            ("transactionId", .string(ours)), ("originalTransactionId", .string(ours)), ("bundleId", .string(app)),
            ("productId", "com.example.app.pro.monthly"), ("type", "Auto-Renewable Subscription"),
            ("purchaseDate", .integer(ms - 86_400_000)), ("expiresDate", .integer(ms + 86_400_000)),
            ("signedDate", .integer(ms)), ("environment", "Production"),
          ]))
      }
      var settings = Settings()
      settings.bundleIDs = ["com.example.first", "com.example.app"]
      try await RunningService.run(apple: store.apple(), settings: settings) { service in
        let foreign = try await service.validate(try signed(by: "com.example.other"))
        #expect(foreign.status == 422 && foreign["code"] == "wrong_app", "\(foreign.text)")
        #expect(store.simulator.callsInAll == 0)
        #expect(try await service.validate(try signed(by: "com.example.app")).verdict == "pro active renewing")
      }
    }
  }

  @Test func `a transaction that Apple did not sign is refused, whether the policy advises or requires`() async throws {
    try await SimulatedStore.run { store in
      var apple = store.apple()
      apple.roots = []
      try await RunningService.run(apple: apple) { service in
        // Signed by the simulator, and its root is not trusted here.
        let signed = try store.simulator.issueTransaction(.renewing)
        let answer = try await service.validate(signed.signedTransaction)
        #expect(answer.status == 422)
        #expect(answer["code"] == "not_authentic")
        #expect(store.simulator.callsInAll == 0)
      }
      try await RunningService.run(apple: store.apple) { service in
        let signed = try store.simulator.issueTransaction(.renewing).signedTransaction
        let parts = signed.split(separator: ".")
        let other = try store.simulator.issueTransaction(.familyShared, subscriber: 2).signedTransaction
          .split(separator: ".")
        for forged in [
          "\(parts[0]).\(other[1]).\(parts[2])", "\(parts[0]).\(parts[1]).\(other[2])", "\(parts[0]).\(parts[1]).",
        ] {
          let answer = try await service.validate(forged)
          #expect([400, 422].contains(answer.status), "\(answer.text)")
        }
        #expect(try await service.profile().verdict == "free active no_purchases")
      }
    }
  }

  @Test func `a key that Apple refuses lowers nobody, and new purchases wait`() async throws {
    try await RunningService.besideStore(withServerAPI: true) { service, store in
      let known = try store.simulator.issueTransaction(.renewing, subscriber: 1)
      #expect(try await service.validate(known.signedTransaction).status == 200)
      store.simulator.setTrouble(.serverAPIKeyRejected)
      #expect(try await service.validate(known.signedTransaction)["stale"] == "true")
      let new = try store.simulator.issueTransaction(.renewing, subscriber: 2)
      #expect(try await service.validate(new.signedTransaction, user: "user-2").status == 202)
      let readiness = try await service.send(.get, "/readyz", key: nil)
      #expect(readiness["app_store"] == "server_api_key_rejected")
      #expect(readiness.status == 200)
      #expect(service.log.text.contains("Apple refuses our key of the App Store Server API"))
    }
  }

  @Test func `a receipt has a verdict where there is a key and no shared secret`() async throws {
    try await RunningService.besideStore(withServerAPI: true, withSecret: false) { service, store in
      let receipt = try store.simulator.issueReceipt(.grace)
      let answer = try await service.validate(receipt.receiptData)
      #expect(answer.verdict == "pro grace_period billing_grace")
      #expect(answer["source"] == "server_api")
      let empty = try store.simulator.issueReceipt(.empty, subscriber: 2)
      #expect(try await service.validate(empty.receiptData, user: "b").verdict == "free active no_purchases")
      let old = try store.simulator.issueReceipt(.renewing, subscriber: 3, format: .ios6)
      #expect(try await service.validate(old.receiptData, user: "c")["code"] == "unsupported_receipt")
    }
  }
}

/// The service's handling of transactions where nobody can be asked.
@Suite struct UnaskableTransactionTests {
  @Test func `a purchase that nobody can be asked about ends in the app's row too, once it is held no longer`()
    async throws
  {
    try await RunningService.besideStores(deadline: "4s") { service, store, rows, clock in
      let signed = try store.simulator.issueTransaction(.subscriber)
      #expect(try await service.validate(signed.signedTransaction).status == 200)
      #expect(rows.row("user-1")?["subscription_tier"] == .text("pro"))
      // The month is over, and the purchase is held.
      clock.advance(by: 33 * 86_400)
      let held = try await service.profile()
      #expect(held.verdict == "pro active renewing" && held["stale"] == "true")
      try await eventually(clock, step: 3_600) { rows.row("user-1")?["subscription_tier"] == .text("free") }
      #expect(clock.date >= noon.addingTimeInterval(37 * 86_400))
      #expect(try await service.profile().verdict == "free expired unproven")
      #expect(store.simulator.callsInAll == 0)
    }
  }

  @Test func `a transaction that is signed ahead of our clock is for later, not refused for ever`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(at: noon.addingTimeInterval(3_600), now: { clock.date }) {
      service, store in
      let signed = try store.simulator.issueTransaction(.renewing).signedTransaction
      let answer = try await service.validate(signed)
      #expect(answer.status == 503)
      #expect(answer["retryable"] == "true")
      #expect(service.log.text.contains("a transaction is signed ahead of our clock"))
      clock.advance(by: 3_600)
      #expect(try await service.validate(signed).verdict == "pro active renewing")
    }
  }
}

extension DevelopmentPKI {
  /// The receipt of a renewing subscription with a purchase date that nobody can read.
  ///
  /// - Parameter signer: `nil`: the signer of receipts.
  func unreadableReceipt(at moment: Date, signer: Signer? = nil) throws -> String {
    let seed = try ReceiptIssuer(pki: self).seed(of: ReceiptOrder(scenario: .renewing), at: Timestamp(moment))
    var payload = try ReceiptPayload.encode(seed)
    let number = ASN1Writer.integer(1704)
    let purchaseDate = try #require(payload.indices.first { payload[$0...].starts(with: number) })
    let year = try #require(payload[purchaseDate...].firstIndex(of: UInt8(ascii: "2")))
    payload[year] = UInt8(ascii: "?")
    return Data(try SignedReceipt(pki: self).encode(payload: payload, signer: signer ?? leaf)).base64EncodedString()
  }

  /// Signed with a date that nobody can read.
  func unreadableTransaction(at moment: Date) throws -> String {
    try signedData.sign(
      .object([
        ("transactionId", "1"), ("originalTransactionId", "1"), ("bundleId", "com.example.app"),
        ("productId", "com.example.app.pro.monthly"), ("purchaseDate", "yesterday"),
        ("signedDate", .integer(Int64(moment.timeIntervalSince1970 * 1_000))),
      ]))
  }
}

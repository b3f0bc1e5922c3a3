import Crypto
import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Entitlements

/// Offers of subscriptions: who gets which, and what is signed.
@Suite struct OffersTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800.123_456_7)
  static let alice = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  static let product = "com.example.app.pro.monthly"

  static let settings: Settings = {
    var settings = Settings(
      server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret])
    settings.products[product] =
      "{ tier: pro, offers: { first: never, again: [expired], loyal: [pro, premium] }, introductory_offer: never }"
    settings.products["com.example.app.pro.early"] = "{ tier: pro, active: false, offers: { first: never } }"
    return settings
  }()

  private func run(
    _ settings: Settings = settings, body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await RunningService.besideStore(at: Self.clock, withServerAPI: true, settings: settings, body: body)
  }

  private static func token(_ user: String = alice) throws -> String { try TokenMint.user(user, at: clock) }

  private func sign(
    _ service: RunningService, _ offer: String, product: String = product, more: String = "", key: String? = nil
  ) async throws -> Answer {
    try await service.send(
      .post, "/v1/offers/promotional", key: key ?? Self.token(),
      body: #"{"product_id":"\#(product)","offer_id":"\#(offer)"\#(more)}"#)
  }

  private static func claims(_ jws: String?) throws -> [String: Any] {
    let parts = try #require(jws).split(separator: ".")
    try #require(parts.count == 3)
    let claims = try #require(SignedDataSigner.decode(parts[1]))
    return try #require(JSONSerialization.jsonObject(with: Data(claims)) as? [String: Any])
  }

  private static func former(_ answer: Answer) throws -> SignedOffer {
    var offer = try JSONDecoder().decode(
      SignedOffer.self, from: JSONSerialization.data(withJSONObject: answer.object["signature"] ?? [:]))
    offer.offerID = answer["offer_id"]
    return offer
  }

  @Test(arguments: [
    (Scenario?.none, "first", true), (.renewing, "loyal", false), (.grace, "loyal", false),
    (.familyShared, "loyal", false),
    (.expiredVoluntary, "again", false), (.refunded, "again", false), (.lifetime, "loyal", false),
  ])
  func `a user gets the offers for what the user has bought, and no other`(
    scenario: Scenario?, offer: String, isIntroductory: Bool
  ) async throws {
    try await run { service, store in
      if let scenario {
        let receipt = try store.simulator.issueReceipt(scenario).receiptData
        #expect(try await service.validate(receipt, user: Self.alice).status == 200)
      }
      let told = try await service.send(.get, "/v1/profiles/me/offers", key: Self.token())
      #expect(
        told.object["promotional"] as? [[String: String]] == [["product_id": Self.product, "offer_id": offer]])
      #expect(
        told.object["introductory"] as? NSArray
          == [["product_id": Self.product, "allowed": isIntroductory] as NSDictionary])
      for other in ["first", "again", "loyal"] {
        let answer = try await sign(service, other)
        #expect(answer.status == (other == offer ? 200 : 409), "\(answer.text)")
        if other != offer {
          #expect(answer["code"] == "offer_not_for_user")
          #expect(answer["detail"]?.hasPrefix("The offer is for users ") == true)
        }
      }
      let introductory = try await service.send(
        .post, "/v1/offers/introductory", key: Self.token(),
        body: #"{"product_id":"\#(Self.product)","transaction_id":"700000000000000001"}"#)
      #expect(introductory.status == 200 && introductory["allowed"] == "\(isIntroductory)", "\(introductory.text)")
      let claims = try Self.claims(introductory["jws"])
      #expect(claims["allowIntroductoryOffer"] as? Bool == isIntroductory)
      #expect(claims["aud"] as? String == "introductory-offer-eligibility")
      #expect(claims["transactionId"] as? String == "700000000000000001")
    }
  }

  @Test func `both signatures are what Apple describes, with a nonce of their own and our time`() async throws {
    try await run { service, store in
      let bought = try store.simulator.issueTransaction(.renewing)
      #expect(try await service.validate(bought.signedTransaction, user: Self.alice).status == 200)
      let key = try P256.Signing.PrivateKey(pemRepresentation: store.simulator.serverAPIKeyPEM).publicKey
      var nonces: Set<String> = []
      for _ in 0..<2 {
        let answer = try await sign(service, "loyal")
        #expect(answer.header("Cache-Control") == "no-store")
        let jws = try #require(answer["jws"])
        let parts = jws.split(separator: ".")
        #expect(
          key.isValidSignature(
            try P256.Signing.ECDSASignature(rawRepresentation: SignedDataSigner.decode(parts[2]) ?? []),
            for: Data("\(parts[0]).\(parts[1])".utf8)))
        var claims = try Self.claims(jws)
        nonces.insert(try #require(claims.removeValue(forKey: "nonce") as? String))
        #expect(
          claims as NSDictionary == [
            "iss": store.simulator.serverAPIIssuerID, "iat": 1_718_452_800, "aud": "promotional-offer",
            "bid": "com.example.app", "productId": Self.product, "offerIdentifier": "loyal",
            "transactionId": bought.transactionID,
          ])
        let former = try Self.former(answer)
        let nonce = try #require(former.nonce)
        nonces.insert(nonce)
        // A machine's clock has nanoseconds: see `ServiceClock.moved`.
        #expect(former.timestamp == 1_718_452_800_123 && former.keyID == store.simulator.serverAPIKeyID)
        let signed = [
          "com.example.app", store.simulator.serverAPIKeyID, Self.product, "loyal", Self.alice, nonce, "1718452800123",
        ].joined(separator: "\u{2063}")
        let signature = try P256.Signing.ECDSASignature(
          derRepresentation: #require(Data(base64Encoded: former.signature ?? "")))
        #expect(key.isValidSignature(signature, for: Data(signed.utf8)))
      }
      #expect(nonces.count == 4 && nonces.allSatisfy { UUID(uuidString: $0) != nil && $0 == $0.lowercased() })
      #expect(!service.log.text.contains("eyJ"))
    }
  }

  @Test func `a user is served alone, and a server names the user`() async throws {
    try await run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: "payer").status == 200)
      // The token's user has bought nothing, whatever the body says.
      #expect(try await sign(service, "loyal", more: #","user_id":"payer""#).status == 409)
      #expect(try await service.send(.get, "/v1/profiles/payer/offers", key: Self.token()).status == 403)
      let key = RunningService.serviceKey
      let served = try await sign(service, "loyal", more: #","user_id":"payer""#, key: key)
      #expect(served.status == 200)
      // Its ID is no UUID, so that its purchases have no account token.
      #expect((served.object["signature"] as? [String: Any])?["app_account_token"] is NSNull)
      #expect(try await sign(service, "loyal", key: key)["detail"]?.contains("'user_id' is missing") == true)
      for other in [RunningService.supportKey, RunningService.publicKey] {
        #expect(try await sign(service, "loyal", more: #","user_id":"payer""#, key: other).status == 403)
      }
    }
  }

  @Test(arguments: [
    (#"{"product_id":"com.example.app.pro.monthly"}"#, 400, "'offer_id' is missing"),
    (#"{"offer_id":"first"}"#, 400, "'product_id' is missing"),
    (#"{"product_id":"com.example.app.pro.monthly","offer_id":"a b"}"#, 400, "'offer_id' has to be"),
    (#"{"product_id":"","offer_id":"first"}"#, 400, "'product_id' has to be"),
    (
      #"{"product_id":"com.example.app.pro.monthly","offer_id":"\#(String(repeating: "a", count: 256))"}"#, 400,
      "'offer_id' has to be"
    ),
    (
      #"{"product_id":"com.example.app.pro.monthly","offer_id":"first","transaction_id":"app-1"}"#, 400,
      "'transaction_id' has to be"
    ),
    (
      #"{"product_id":"com.example.app.pro.monthly","offer_id":"first","bundle_id":"com.example.other"}"#, 400,
      "'bundle_id' has to name"
    ),
    (#"{"product_id":"com.example.app.pro.monthly","offer_id":"none"}"#, 404, "no such offer"),
    (#"{"product_id":"com.example.app.pro.yearly","offer_id":"first"}"#, 404, "no such offer"),
    (#"{"product_id":"com.example.app.none","offer_id":"first"}"#, 404, "no such offer"),
    // A product that is not sold.
    (#"{"product_id":"com.example.app.pro.early","offer_id":"first"}"#, 404, "no such offer"),
  ])
  func `an offer that cannot be signed is refused in a sentence`(body: String, status: Int, says: String) async throws {
    try await run { service, _ in
      let answer = try await service.send(.post, "/v1/offers/promotional", key: Self.token(), body: body)
      #expect(answer.status == status && answer["detail"]?.contains(says) == true, "\(answer.text)")
    }
  }

  @Test func `an introductory offer wants a transaction, a key has to sign, and of several apps one`() async throws {
    let body = #"{"product_id":"\#(Self.product)"}"#
    try await run { service, _ in
      let answer = try await service.send(.post, "/v1/offers/introductory", key: Self.token(), body: body)
      #expect(answer.status == 400 && answer["detail"]?.contains("app transaction ID") == true, "\(answer.text)")
    }
    try await RunningService.run(
      apple: .unreachable, settings: Settings(jwt: ["secret": TokenMint.secret]), now: { Self.clock }
    ) { service in
      let answer = try await sign(service, "first")
      #expect(answer.status == 404 && answer["detail"]?.contains("signs no offers") == true)
    }
    var several = Self.settings
    several.bundleIDs.append("com.example.second")
    try await run(several) { service, store in
      #expect(try await sign(service, "first")["detail"]?.contains("'bundle_id' has to name") == true)
      let second = try await sign(service, "first", more: #","bundle_id":"com.example.second""#)
      #expect(try Self.claims(second["jws"])["bid"] as? String == "com.example.second")
      // A transaction of another app is none of this one's.
      let bought = try store.simulator.issueTransaction(.renewing)
      #expect(try await service.validate(bought.signedTransaction, user: Self.alice).status == 200)
      let transactions: [String: String?] = ["com.example.app": bought.transactionID, "com.example.second": nil]
      for (app, transaction) in transactions {
        let signed = try await sign(service, "loyal", more: #","bundle_id":"\#(app)""#)
        #expect(try Self.claims(signed["jws"])["transactionId"] as? String == transaction)
      }
    }
  }

  @Test(arguments: [true, false])
  func `the store sells with what was signed, once, and the purchase tells of the offer`(isJWS: Bool) async throws {
    try await run { service, store in
      let signed = try await sign(service, "first")
      let offer = isJWS ? SignedOffer(jws: signed["jws"]) : try Self.former(signed)
      let account = UUID(uuidString: Self.alice)
      let bought = try store.simulator.issueTransaction(.subscriber, appAccountToken: account, offer: offer)
      let claims = try Self.claims(bought.signedTransaction)
      #expect(claims["offerType"] as? Int == 2 && claims["offerIdentifier"] as? String == "first")
      #expect(try await service.validate(bought.signedTransaction, user: Self.alice).verdict == "pro active renewing")
      let sale = try await service.ledger.profile(of: UserID(Self.alice))?.evidence.first?.purchases.first?.sale
      #expect(sale?.offerType == 2 && sale?.offerID == "first")
      func refusal(_ sell: () throws(IssueError) -> Void) -> String {
        do throws(IssueError) {
          try sell()
          return "sold"
        } catch { return error.description }
      }
      #expect(
        refusal { () throws(IssueError) in
          _ = try store.simulator.issueTransaction(.subscriber, subscriber: 2, appAccountToken: account, offer: offer)
        }.contains("nonce was used before"))
      // Of another product nothing is sold.
      #expect(
        refusal { () throws(IssueError) in
          _ = try store.simulator.issueTransaction(.familyShared, appAccountToken: account, offer: offer)
        }.hasPrefix("the offer is refused"))
    }
  }

  @Test func `the store sells the introductory offer to whom the service allows it, once`() async throws {
    try await run { service, store in
      func signed(_ user: String = Self.alice, _ transaction: String = "700000000000000001") async throws -> String? {
        try await service.send(
          .post, "/v1/offers/introductory", key: Self.token(user),
          body: #"{"product_id":"\#(Self.product)","transaction_id":"\#(transaction)"}"#)["jws"]
      }
      func sell(_ jws: String?, _ scenario: Scenario = .subscriber, _ subscriber: Int64 = 1) -> String {
        do throws(IssueError) {
          return try store.simulator.issueTransaction(scenario, subscriber: subscriber, eligibility: jws ?? "")
            .signedTransaction
        } catch { return error.description }
      }
      let jws = try await signed()
      let bought = sell(jws)
      let claims = try Self.claims(bought)
      #expect(claims["offerType"] as? Int == 1 && claims["offerDiscountType"] as? String == "PAY_AS_YOU_GO")
      #expect(sell(jws) == "the offer is refused: its nonce was used before")
      #expect(try await service.validate(bought, user: Self.alice).verdict == "pro active renewing")
      let events = try await service.send(.get, "/v1/events", key: RunningService.serviceKey).text
      #expect(
        events.contains(#""offer_type":"introductory","offer_id":null,"transaction_reason":"PURCHASE""#), "\(events)")
      // Who has bought may not have it: neither the price, nor the free week.
      let refused = try await signed()
      #expect(try Self.claims(refused)["allowIntroductoryOffer"] as? Bool == false)
      #expect(sell(refused, .trial) == "the offer is refused: the customer may not have the introductory offer")
      let plain = try Self.claims(sell(try await signed()))
      #expect(plain["offerType"] == nil && plain["price"] as? Int == 4_990)
      // It is for one customer and one product, and no promotional offer.
      #expect(sell(try await signed(), .subscriber, 2) == "the offer is refused: it is for another customer")
      #expect(sell(try await signed(), .familyShared) == "the offer is refused: it is for another app or product")
      let other = try await sign(service, "loyal")["jws"]
      #expect(sell(other) == "the offer is refused: it is for another app or product")
    }
  }

  @Test func `win-back offers that Apple names are kept and told, until the customer is back`() async throws {
    try await run { service, store in
      let gone = try store.simulator.issueTransaction(.expiredVoluntary)
      let id = gone.originalTransactionID
      #expect(
        try await service.validate(originalTransactionID: id, user: Self.alice).verdict == "free expired voluntary")
      func told() async throws -> NSArray? {
        try await service.send(.get, "/v1/profiles/me/offers", key: Self.token()).object["win_back"] as? NSArray
      }
      #expect(
        try await told() == [
          [
            "offer_id": "come_back", "product_id": Self.product, "original_transaction_id": id,
            "environment": "production",
          ] as NSDictionary
        ])
      let export = try await service.send(.get, "/v1/profiles/\(Self.alice)/export").text
      #expect(export.contains(#""win_back_offer_ids":["come_back"]"#))
      _ = try store.simulator.issueTransaction(.subscriber)
      #expect(try await service.validate(originalTransactionID: id, user: Self.alice).verdict == "pro active renewing")
      #expect(try await told() == [])
    }
  }
}

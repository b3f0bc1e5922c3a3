import Foundation
import HTTPTransport
import SeededRandom
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Resilience

/// Answers to Apple's requests for consumption information.
@Suite struct ConsumptionTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)
  private static let consent = "{ customer_consented: true, refund_preference: DECLINE }"

  private static func run(
    _ policy: String?, settings: Settings = Settings(), _ body: @Sendable (World) async throws -> Void
  ) async throws {
    var settings = settings
    settings.appStore["consumption"] = policy
    try await World.run(at: start, withServerAPI: true, withSecret: false, settings: settings, body: body)
  }

  @Test func `with consent by policy a delivered subscription is answered at once, and once`() async throws {
    try await Self.run(Self.consent) { world in
      let bought = try world.simulator.issueTransaction(.subscriber)
      #expect(try await world.service.validate(bought.signedTransaction).status == 200)
      world.pass(86_400)
      let notification = try world.simulator.requestRefund(of: bought.transactionID)
      for _ in 0..<2 { #expect(try await world.service.notify(notification).status == 200) }
      try await eventually { try await world.state(of: bought) == "answered" }
      #expect(
        world.taken(bought) == [
          #"{"customerConsented":true,"deliveryStatus":"DELIVERED","refundPreference":"DECLINE","#
            + #""sampleContentProvided":false}"#
        ])
      for _ in 0..<20 { world.pass(3_600) }
      #expect(try await world.state(of: bought) == "answered" && world.taken(bought).count == 1)
      let metrics = try await world.service.send(.get, "/metrics", key: nil).text
      #expect(metrics.contains(#"countersign_consumption_requests_total{outcome="answered"} 1"#))
    }
  }

  @Test func `without consent nothing is sent, and that is told`() async throws {
    try await Self.run(nil) { world in
      let bought = try world.simulator.issueTransaction(.subscriber)
      _ = try await world.service.validate(bought.signedTransaction)
      world.pass(60)
      try await world.requestRefund(of: bought)
      try await eventually { try await world.request(of: bought)["problem"] as? String != nil }
      #expect(try await world.request(of: bought)["problem"] as? String == "the customer's consent is not known")
      #expect(try await world.service.gauge("countersign_consumption_requests_due") == 1)
      #expect(
        try await world.service.send(.get, "/v1/status").text.contains(
          #""consumption_requests":{"due":1,"missed":0}"#))
      world.pass(12 * 3_600)
      try await eventually { try await world.state(of: bought) == "unconsented" }
      #expect(world.simulator.calls.serverAPI.byEndpoint["consumption"] == nil)
      #expect(
        world.service.log.text.contains("consumption information was not sent: the customer's consent is not known"))
    }
  }

  @Test func `a word of the backend answers at once, also one that came before Apple asked`() async throws {
    try await Self.run(nil) { world in
      let all = try (1...3).map { try world.simulator.issueTransaction(.lifetime, subscriber: $0) }
      for one in all { _ = try await world.service.validate(one.signedTransaction, user: "u-\(one.transactionID)") }
      world.pass(60)
      let said = #"{"customer_consented":true,"consumption_percentage":67932,"refund_preference":"GRANT_PRORATED"}"#
      #expect(try await world.say(said, of: all[0]).text.contains(#""request":null"#))
      for one in all { try await world.requestRefund(of: one) }
      let body =
        #"{"customerConsented":true,"consumptionPercentage":67932,"deliveryStatus":"DELIVERED","#
        + #""refundPreference":"GRANT_PRORATED","sampleContentProvided":false}"#
      try await eventually { world.taken(all[0]) == [body] }
      try await eventually { try await world.request(of: all[1])["problem"] as? String != nil }
      #expect(try await world.say(said, of: all[1]).text.contains(#""state":"due""#))
      try await eventually { world.taken(all[1]) == [body] }
      let broken = #"{"customer_consented":true,"delivery_status":"UNDELIVERED_SERVER_OUTAGE"}"#
      _ = try await world.say(broken, of: all[2])
      try await eventually {
        world.taken(all[2]) == [
          #"{"customerConsented":true,"consumptionPercentage":0,"deliveryStatus":"UNDELIVERED_SERVER_OUTAGE","#
            + #""sampleContentProvided":false}"#
        ]
      }
      for bad in [
        #"{"delivery_status":"LOST"}"#, #"{"consumption_percentage":100001}"#, #"{"environment":"moon"}"#,
        #"{"consumption_percentage":5,"delivery_status":"UNDELIVERED_OTHER"}"#, #"{"customerConsented":false}"#,
      ] { #expect(try await world.say(bad, of: all[0]).status == 400, "\(bad)") }
    }
  }

  @Test func `the policy waits for the backend, and a customer's no goes before it`() async throws {
    try await Self.run("{ customer_consented: true, wait: 1h }") { world in
      let all = try (1...2).map { try world.simulator.issueTransaction(.subscriber, subscriber: $0) }
      for one in all { _ = try await world.service.validate(one.signedTransaction, user: "u-\(one.transactionID)") }
      world.pass(60)
      for one in all { try await world.requestRefund(of: one) }
      try await eventually { try await world.request(of: all[0])["problem"] as? String != nil }
      _ = try await world.say(#"{"customer_consented":false}"#, of: all[1])
      let apples = try await world.say(#"{"customerConsented":false}"#, of: all[1])
      #expect(apples.status == 400 && apples["detail"]?.contains("did you mean 'customer_consented'?") == true)
      let later = try await world.say(#"{"refund_preference":"DECLINE"}"#, of: all[1])
      #expect(later.text.contains(#""customer_consented":false"#))
      world.pass(3_590)
      #expect(world.simulator.calls.consumption.isEmpty)
      world.pass(10)
      // Once the answer is recorded, no date of Apple's is read after the clock went on.
      try await eventually { try await world.state(of: all[0]) == "answered" }
      #expect(world.taken(all[0]).count == 1)
      world.pass(11 * 3_600)
      try await eventually { try await world.state(of: all[1]) == "unconsented" }
      #expect(world.taken(all[1]).isEmpty)
    }
  }

  @Test func `a purchase that nobody was given here is not called delivered`() async throws {
    try await Self.run(Self.consent) { world in
      // Nobody presented it, and Apple's request is the first that names its owner.
      let unknown = try world.simulator.issueTransaction(
        .subscriber, appAccountToken: UUID(uuidString: "6F0C2F3E-0D3E-4F83-9A52-2A1C9D6F6A11"))
      world.pass(60)
      try await world.requestRefund(of: unknown)
      try await eventually { try await world.request(of: unknown)["problem"] as? String != nil }
      #expect(
        try await world.request(of: unknown)["problem"] as? String
          == "nothing here proves that the purchase was delivered")
      world.pass(12 * 3_600)
      try await eventually { try await world.state(of: unknown) == "missed" }
      #expect(world.taken(unknown).isEmpty)
      try await eventually {
        world.service.log.lines.contains {
          $0.contains("Apple's request for consumption information was missed") && $0.contains(#""attempts":0,"#)
        }
      }
      let status = try await world.service.send(.get, "/v1/status").text
      #expect(status.contains(#""consumption_requests":{"due":0,"missed":1}"#))
    }
  }

  @Test func `a season's consumed part is its elapsed time`() async throws {
    try await Self.run(Self.consent) { world in
      let season = try world.simulator.issueTransaction(.nonRenewing)
      _ = try await world.service.validate(season.signedTransaction)
      let begin = try Self.purchaseDate(of: season.signedTransaction)
      let now = world.simulator.now.addingTimeInterval(3_600)
      world.pass(3_600)
      try await world.requestRefund(of: season)
      try await eventually { world.taken(season).count == 1 }
      let end = try #require(Calendar(identifier: .gregorian).date(byAdding: .month, value: 1, to: begin))
      let share = Int((now.timeIntervalSince(begin) / end.timeIntervalSince(begin) * 100_000).rounded())
      #expect(
        world.taken(season)[0].contains(#""consumptionPercentage":\#(share),"#), "\(world.taken(season)) \(share)")
    }
  }

  private static func purchaseDate(of jws: String) throws -> Date {
    let bytes = try #require(SignedDataSigner.decode(jws.split(separator: ".")[1]))
    let members = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
    return Date(timeIntervalSince1970: try #require(members["purchaseDate"] as? Double) / 1_000)
  }

  @Test func `an answer that Apple refuses is not sent again, and one in its trouble is due again`() async throws {
    try await Self.run(Self.consent) { world in
      let scenarios = [Scenario.familyShared, .subscriber]
      let all = try scenarios.indices.map {
        try world.simulator.issueTransaction(scenarios[$0], subscriber: Int64($0 + 1))
      }
      for one in all { _ = try await world.service.validate(one.signedTransaction, user: "u-\(one.transactionID)") }
      world.pass(60)
      try await world.requestRefund(of: all[0])
      try await eventually { try await world.state(of: all[0]) == "refused" }
      #expect(try await world.request(of: all[0])["problem"] as? String == "Apple answered with the error 4000185")
      world.simulator.setTrouble(.serverAPIRateLimited, count: 1, service: .serverAPI)
      try await world.requestRefund(of: all[1])
      try await eventually { try await world.request(of: all[1])["problem"] as? String == "Apple limits the rate" }
      #expect(try await world.state(of: all[1]) == "due")
      #expect(world.simulator.calls.consumption.isEmpty)
    }
  }

  /// `make cases` has a thousand, of which fifty are missed.
  @Test func `many requests, an Apple in trouble for two hours, a service away for six: each is answered once`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let all = SeededRandom.cases(1_000)
    let missed = all / 20
    let clock = MovingClock(Self.start)
    var settings = Settings(server: ["address_rate_limit": "0"], policy: ["app_account_token": "user_id"])
    settings.appStore["consumption"] = Self.consent
    settings.revalidation["rate"] = "1000"
    let set = settings
    try await SimulatedStore.run(at: Self.start) { store in
      let simulator = store.simulator
      @Sendable func pass(_ seconds: TimeInterval) {
        clock.advance(by: seconds)
        simulator.setClock(clock.date)
      }
      @Sendable func run(_ body: @Sendable (RunningService) async throws -> Void) async throws {
        try await RunningService.run(
          apple: store.apple(withSecret: false), settings: set, directory: directory.url, now: { clock.date },
          asksForMissed: true, body: body)
      }
      @Sendable func post(_ notifications: [SimulatedNotification], _ service: RunningService) async {
        let statuses = await mapConcurrently(notifications, width: 16) { try? await service.notify($0).status }
        #expect(statuses.count == notifications.count && statuses.allSatisfy { $0 == 200 })
      }
      let bought = try (1...all).map {
        try simulator.issueTransaction(.subscriber, subscriber: Int64($0), appAccountToken: UUID())
      }
      try await run { service in
        await post(try bought.flatMap { try simulator.notifications(of: $0.originalTransactionID) }, service)
        pass(3_600)
        simulator.setTrouble(.http500, service: .serverAPI)
        await post(try bought.dropFirst(missed).map { try simulator.requestRefund(of: $0.transactionID) }, service)
        try await eventually { simulator.calls.serverAPI.byEndpoint["consumption"] ?? 0 > 8 }
        for _ in 0..<4 { pass(1_800) }
        #expect(simulator.calls.consumption.isEmpty)
        #expect(try await service.gauge("countersign_consumption_requests_due") == all - missed)
        simulator.setTrouble(nil)
        // The circuit breaker and the job rest by the machine's clock, up to half a minute together, and a request that was
        // tried in vain by the service's.
        try await eventually(looks: 4_000) {
          pass(0.2)
          return try await service.gauge("countersign_consumption_requests_due") == 0
        }
      }
      let asked = clock.date
      try await WebhookReceiver.running { nobody in
        nobody.answer(503)
        try simulator.deliverNotifications(to: "\(nobody.url)/v1/notifications/app-store")
        for one in bought.prefix(missed) { try simulator.requestRefund(of: one.transactionID) }
        #expect(await simulator.deliveries().count == missed)
        pass(6 * 3_600)
        _ = await simulator.deliveries()
        simulator.deliverNotifications(to: PlainHTTPURL?.none)
      }
      try await run { service in
        try await eventually(looks: 4_000) { simulator.calls.consumption.count == all }
        try await eventually { try await service.gauge("countersign_consumption_requests_due") == 0 }
      }
      let taken = simulator.calls.consumption
      #expect(Set(taken.keys) == Set(bought.map(\.transactionID)) && taken.values.allSatisfy { $0.count == 1 })
      let longest = 12 * 3_600.0
      for (index, one) in bought.enumerated() {
        let since = index < missed ? asked : Self.start.addingTimeInterval(3_600)
        let at = try #require(taken[one.transactionID]?.first?.at.date)
        #expect(at.timeIntervalSince(since) < longest)
      }
    }
  }
}

extension World {
  /// Has the customer ask for a refund, and Apple tell the service.
  fileprivate func requestRefund(of transaction: IssuedTransaction) async throws {
    let notification = try simulator.requestRefund(of: transaction.transactionID)
    #expect(try await service.notify(notification).status == 200)
  }

  fileprivate func taken(_ transaction: IssuedTransaction) -> [String] {
    (simulator.calls.consumption[transaction.transactionID] ?? []).map(\.body)
  }

  fileprivate func request(of transaction: IssuedTransaction) async throws -> [String: Any] {
    let answer = try await service.send(.get, Self.path(transaction), key: RunningService.supportKey)
    return answer.object["request"] as? [String: Any] ?? [:]
  }

  fileprivate func state(of transaction: IssuedTransaction) async throws -> String? {
    try await request(of: transaction)["state"] as? String
  }

  fileprivate func say(_ body: String, of transaction: IssuedTransaction) async throws -> Answer {
    try await service.send(.put, Self.path(transaction), body: body)
  }

  fileprivate static func path(_ transaction: IssuedTransaction) -> String {
    "/v1/purchases/\(transaction.transactionID)/consumption"
  }
}

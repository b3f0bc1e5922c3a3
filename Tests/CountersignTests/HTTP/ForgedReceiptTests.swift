import Foundation
import HTTPTransport
import Ledger
import Synchronization
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// Forged receipts, receipts spoilt where their signature does not reach, and receipts of others: what a user can send to
/// have a tier against Apple's word, or to spend what other users need.
@Suite struct ForgedReceiptTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800)

  private func run(
    jobPause: Duration = .seconds(3600), clock: MovingClock = MovingClock(Self.clock),
    body: @Sendable (RunningService, RunningSimulator) async throws -> Void
  ) async throws {
    let settings = Settings(policy: ["provisional": "24h"])
    try await SimulatedStore.run(at: clock.date) { store in
      try await RunningService.run(
        apple: store.apple, settings: settings, jobPause: jobPause, now: { clock.date }
      ) { service in try await body(service, store.simulator) }
    }
  }

  private static func kept(_ service: RunningService) async throws -> Int {
    try await service.ledger.backlog(at: clock).pendingReceipts
  }

  /// As many posts of one user's as are wanted, each of another forged receipt.
  private static func attack(
    _ service: RunningService, _ simulator: RunningSimulator, posts: Int, format: ReceiptFormat = .forged
  ) async throws -> [Answer] {
    var answers: [Answer] = []
    for number in 0..<posts {
      let receipt = try simulator.issueReceipt(.renewing, subscriber: Int64(10_000 + number), format: format)
      answers.append(try await service.validate(receipt.receiptData, user: "mallory"))
    }
    return answers
  }

  /// Nothing that operators look at says that Apple is away.
  private static func expectNoAlarm(_ service: RunningService) async throws {
    #expect(try await service.send(.get, "/readyz", key: nil)["app_store"] != "unavailable")
    #expect(!service.log.text.contains("Apple cannot be asked"))
    #expect(!service.log.lines.contains { $0.contains("circuit breaker") })
  }

  // MARK: Forged

  @Test func `forged receipts are refused, sixty of sixty, and none is kept`() async throws {
    try await run { service, simulator in
      let answers = try await Self.attack(service, simulator, posts: 60)
      #expect(answers.allSatisfy { $0.status == 422 && $0["code"] == "not_authentic" })
      #expect(try await Self.kept(service) == 0)
      // Refused here and by Apple: once is enough.
      #expect(simulator.calls.total == 60)
      #expect(try await service.profile("mallory").verdict == "free active no_purchases")
      try await Self.expectNoAlarm(service)
    }
  }

  @Test func `forged receipts, or padded ones, leave an honest customer the retry after one 21009`() async throws {
    try await run { service, simulator in
      _ = try await Self.attack(service, simulator, posts: 40)
      _ = try await Self.attack(service, simulator, posts: 20, format: .padded)
      for number in Int64(1)...4 {
        let receipt = try simulator.issueReceipt(.renewing, subscriber: number)
        simulator.setTrouble(.status21009, count: 1)
        let answer = try await service.validate(receipt.receiptData, user: "honest-\(number)")
        #expect(answer.status == 200)
        #expect(answer.verdict == "pro active renewing")
        #expect(answer["provisional"] == "false")
      }
    }
  }

  /// The receipt was signed before the refund, and never presented. With one more certificate in its bag it verifies here,
  /// and Apple does not authenticate it.
  @Test func `a refunded month gives no tier, whatever is done to its receipt after forged ones`() async throws {
    let clock = MovingClock(Self.clock)
    try await run(clock: clock) { service, simulator in
      let story = try simulator.issueReceipt(.eventfulYear)
      let id = try #require(story.originalTransactionIDs.first)
      let year = EventfulYear(start: Timestamp(Self.clock), environment: .production).timeline
      let refund = try #require(year.subscriptions.last?.cancellations.first?.at).date
      simulator.setClock(refund - 86_400)
      let held = try simulator.newestReceipt(ofOriginal: id).receiptData
      let padded = try simulator.newestReceipt(ofOriginal: id, format: .padded).receiptData
      simulator.setClock(refund + 3_600)
      clock.advance(by: refund.timeIntervalSince(Self.clock) + 3_600)

      for user in ["before-1", "before-2"] { #expect(try await service.validate(padded, user: user).status == 422) }
      _ = try await Self.attack(service, simulator, posts: 30)
      for user in ["after-1", "after-2", "after-3", "after-4"] {
        let answer = try await service.validate(padded, user: user)
        #expect(answer.status == 422)
        #expect(answer["code"] == "not_authentic")
        #expect(try await service.profile(user).verdict == "free active no_purchases")
      }
      #expect(try await Self.kept(service) == 0)
      #expect(try await service.validate(held, user: "customer").verdict == "free expired refunded")
      // By its signature alone it would count: it is Apple's word that stands against it.
      simulator.setTrouble(.http503)
      #expect(try await service.validate(padded, user: "customer")["tier"] == "free")
    }
  }

  @Test(arguments: [Trouble.status21002, .status21005, .status21009, .status21004, .status21199])
  func `a forged receipt is not kept once Apple has said anything`(trouble: Trouble) async throws {
    try await run { service, simulator in
      simulator.setTrouble(trouble)
      let receipt = try simulator.issueReceipt(.renewing, format: .forged).receiptData
      let answer = try await service.validate(receipt, user: "mallory")
      // Not a verdict either: roots may be out of date here, and a purchase must not be lost by that.
      #expect(answer.status == 503, "\(answer.text)")
      #expect(answer["code"] == "app_store_unavailable")
      #expect(try await Self.kept(service) == 0)
    }
  }

  @Test(arguments: [Trouble.http503, .reset, .html, .missingReceipt])
  func `a receipt that is refuted here is kept while Apple is silent, counts for nothing, and goes`(
    trouble: Trouble
  ) async throws {
    let clock = MovingClock(Self.clock)
    try await run(jobPause: .milliseconds(20), clock: clock) { service, simulator in
      simulator.setTrouble(trouble)
      let receipt = try simulator.issueReceipt(.renewing, format: .forged).receiptData
      let answer = try await service.validate(receipt, user: "mallory")
      #expect(answer.status == 202)
      #expect(answer.verdict == "free active no_purchases")
      #expect(answer["provisional"] == "false")
      simulator.setTrouble(nil)
      try await eventually(clock, step: 10) { try await Self.kept(service) == 0 }
      #expect(try await service.profile("mallory").verdict == "free active no_purchases")
    }
  }

  /// Only Apple can tell about a receipt of the iOS 6 kind, so that anybody can make one up.
  @Test func `a receipt that nobody can prove is not kept when Apple calls it malformed`() async throws {
    try await run { service, simulator in
      let receipt = try simulator.issueReceipt(.renewing, format: .ios6).receiptData
      simulator.setTrouble(.status21002)
      #expect(try await service.validate(receipt).status == 503)
      #expect(try await Self.kept(service) == 0)
      simulator.setTrouble(.status21009)
      #expect(try await service.validate(receipt).status == 202)
    }
  }

  // MARK: Refused once

  @Test func `a receipt that Apple refuses once, and then is away, is neither kept nor granted`() async throws {
    let authority = try TestCertificateAuthority()
    let root = FileManager.default.temporaryDirectory.appending(path: "root-\(UUID()).pem")
    try DevelopmentPKI.rootPEM.write(to: root, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(at: root) }
    let receipt = try ReceiptIssuer(pki: try DevelopmentPKI()).issue(
      ReceiptOrder(scenario: .renewing), at: Timestamp(Self.clock)
    ).receiptData
    let calls = Mutex(0)
    let away = Mutex(true)
    let answer: @Sendable (TestRequest) -> TestAnswer = { _ in
      let call = calls.withLock { calls in
        calls += 1
        return calls
      }
      return call > 1 && away.withLock { $0 } ? TestAnswer(status: 503) : TestAnswer(text: #"{"status":21003}"#)
    }
    try await RawTLSServer.answering(identity: try authority.serverIdentity(), answer: answer) { server in
      let apple = Apple(
        productionURL: server.origin + "/verifyReceipt", sandboxURL: server.origin + "/sandbox",
        caFile: authority.caFile, roots: [root.path(percentEncoded: false)])
      let settings = Settings(policy: ["provisional": "24h"])
      try await RunningService.run(
        apple: apple, settings: settings, jobPause: .seconds(3600), now: { Self.clock }
      ) { service in
        let first = try await service.validate(receipt)
        #expect(first.status == 503)
        #expect(first["code"] == "app_store_unavailable")
        #expect(first["apple_status"] == "21003")
        #expect(first["retryable"] == "true")
        #expect(try await Self.kept(service) == 0)
        #expect(try await service.profile().verdict == "free active no_purchases")
        away.withLock { $0 = false }
        let second = try await service.validate(receipt)
        #expect(second.status == 422)
        #expect(second["code"] == "not_authentic")
      }
    }
    withExtendedLifetime(authority) {}
  }

  // MARK: Malformed

  @Test func `one user's receipts that Apple calls malformed close the store to nobody and raise no alarm`()
    async throws
  {
    try await run { service, simulator in
      simulator.setTrouble(.status21002)
      let answers = try await Self.attack(service, simulator, posts: 30, format: .padded)
      #expect(answers.allSatisfy { [202, 503].contains($0.status) && $0["provisional"] != "true" })
      #expect(try await Self.kept(service) == 20)
      try await Self.expectNoAlarm(service)
      simulator.setTrouble(nil)
      let receipt = try simulator.issueReceipt(.renewing, subscriber: 1)
      #expect(try await service.validate(receipt.receiptData, user: "honest").status == 200)
    }
  }

  @Test func `in a storm of 21002 the first who presents a purchase has it, and nobody else`() async throws {
    try await run { service, simulator in
      simulator.setTrouble(.status21002)
      let receipts = try (Int64(1)...5).map { try simulator.issueReceipt(.renewing, subscriber: $0).receiptData }
      for (number, receipt) in receipts.enumerated() {
        let answer = try await service.validate(receipt, user: "customer-\(number)")
        #expect(answer.status == 202)
        #expect(answer.verdict == "free active no_purchases")
      }
      // Five users are a storm: the breaker opens, and Apple is away.
      #expect(service.log.lines.contains { $0.contains("circuit breaker") && $0.contains(#""state":"open""#) })
      simulator.setTrouble(.http503)
      let first = try #require(receipts.first)
      let thief = try await service.validate(first, user: "thief")
      #expect(thief.status == 202)
      #expect(thief.verdict == "free active no_purchases")
      #expect(thief["provisional"] == "false")
      let customer = try await service.validate(first, user: "customer-0")
      #expect(customer.status == 202)
      #expect(customer.verdict == "pro active renewing")
      #expect(customer["provisional"] == "true")
      #expect(try await service.validate(first, user: "thief")["tier"] == "free")
      #expect(try await service.profile("thief").verdict == "free active no_purchases")
      #expect(try await service.profile("customer-0").verdict == "pro active renewing")
    }
  }

  @Test func `when the storm is over the first who presented a purchase owns it`() async throws {
    let clock = MovingClock(Self.clock)
    try await run(jobPause: .milliseconds(20), clock: clock) { service, simulator in
      simulator.setTrouble(.status21002)
      let receipt = try simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: "customer").status == 202)
      #expect(try await service.validate(receipt, user: "thief").status == 202)
      simulator.setTrouble(nil)
      try await eventually(clock, step: 10) { try await Self.kept(service) == 0 }
      #expect(try await service.profile("customer").verdict == "pro active renewing")
      #expect(try await service.profile("thief").verdict == "free active no_purchases")
    }
  }

  // MARK: What waits

  @Test func `a receipt that waits is asked about once at a time, and leaves the retries to callers`() async throws {
    let clock = MovingClock(Self.clock)
    try await run(jobPause: .milliseconds(20), clock: clock) { service, simulator in
      simulator.setTrouble(.status21009)
      let receipt = try simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt).status == 202)
      simulator.resetCalls()
      try await eventually(clock, step: 10) {
        let calls = simulator.calls.total
        let waiting = try await service.ledger.pendingReceipts(dueAt: .distantFuture, limit: 1)
        guard let attempts = waiting.first?.attempts else { return true }
        // One may be under way.
        #expect(calls <= attempts + 1)
        return attempts >= 4
      }
    }
  }

  @Test(.timeLimit(.minutes(10))) func `a user has one look-up of an unknown ID under way, and keeps nobody out`()
    async throws
  {
    let settings = Settings(jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple(), settings: settings, now: { Self.clock }) { service in
        store.simulator.setTrouble(.stall)
        func lookUp(_ id: String, of user: String) async throws -> Answer {
          try await service.post(["original_transaction_id": id], key: try TokenMint.user(user, at: Self.clock))
        }
        async let first = lookUp("480000099990000", of: "mallory")
        try await eventually { store.simulator.calls.inFlight > 0 }
        for number in 1...4 {
          #expect(try await lookUp("48000009999000\(number)", of: "mallory")["code"] == "overloaded")
        }
        store.simulator.setTrouble(nil)
        #expect(try await lookUp("480000099990009", of: "anna")["code"] == "unknown_transaction")
        #expect(try await first["code"] == "app_store_unavailable")
      }
    }
  }
}

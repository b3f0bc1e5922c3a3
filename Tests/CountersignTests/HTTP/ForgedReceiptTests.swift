import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Forged receipts, receipts spoilt where their signature does not reach, and receipts of others: what a user can send to
/// have a tier against Apple's word, or to spend what other users need.
@Suite struct ForgedReceiptTests {
  private func run(
    jobPause: Duration = .seconds(3600), clock: MovingClock = MovingClock(),
    body: @Sendable (RunningService, RunningSimulator) async throws -> Void
  ) async throws {
    let settings = Settings(policy: ["provisional": "24h"])
    try await RunningService.besideStore(
      at: clock.date, settings: settings, jobPause: jobPause, now: { clock.date }
    ) { service, store in
      try await body(service, store.simulator)
    }
  }

  private static func kept(_ service: RunningService) async throws -> Int {
    try await service.ledger.backlog(at: noon).pendingReceipts
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

  // MARK: Forged

  @Test func `forged receipts, or padded ones, are refused and not kept, and leave others the retry after a 21009`()
    async throws
  {
    try await run { service, simulator in
      let forged = try await Self.attack(service, simulator, posts: 40)
      // Refused here and by Apple: once is enough.
      #expect(simulator.calls.total == 40)
      let answers = try await forged + Self.attack(service, simulator, posts: 20, format: .padded)
      #expect(answers.allSatisfy { $0.status == 422 && $0["code"] == "not_authentic" })
      #expect(try await Self.kept(service) == 0)
      #expect(try await service.profile("mallory").verdict == "free active no_purchases")
      // Nothing that operators look at says that Apple is away.
      #expect(try await service.send(.get, "/readyz", key: nil)["app_store"] != "unavailable")
      #expect(!service.log.text.contains("Apple cannot be asked"))
      #expect(!service.log.lines.contains { $0.contains("a circuit breaker changed") })
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

  @Test func `a receipt that is refuted here is kept while Apple is silent, counts for nothing, and goes`() async throws
  {
    let clock = MovingClock()
    try await run(jobPause: .milliseconds(20), clock: clock) { service, simulator in
      simulator.setTrouble(.http503)
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

  @Test func `when the storm is over the first who presented a purchase owns it`() async throws {
    let clock = MovingClock()
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
    let clock = MovingClock()
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

  @Test func `a user has one look-up of an unknown ID under way, and keeps nobody out`() async throws {
    let authority = try TestCertificateAuthority()
    let (asked, end) = (Event(), Event())
    try await SimulatedStore.run(at: noon) { store in
      try await RawTLSServer.answering(
        identity: try authority.serverIdentity(),
        answer: { request in
          if request.target.contains("480000099990000") {
            asked.fire()
            await end.wait()
          }
          return .json(#"{"errorCode":4040010,"errorMessage":"Transaction id not found."}"#, status: 404)
        }
      ) { server in
        var apple = store.apple()
        apple.caFile = authority.caFile
        apple.productionURL = server.origin + "/verifyReceipt"
        apple.serverAPI?.productionURL = server.origin
        apple.serverAPI?.sandboxURL = server.origin
        let settings = Settings(jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
        try await RunningService.run(apple: apple, settings: settings) { service in
          func lookUp(_ id: String, of user: String) async throws -> Answer {
            try await service.post(["original_transaction_id": id], key: try TokenMint.user(user, at: noon))
          }
          async let first = lookUp("480000099990000", of: "mallory")
          await asked.wait()
          for number in 1...4 {
            let answer = try await lookUp("48000009999000\(number)", of: "mallory")
            #expect(answer["code"] == "overloaded", "\(answer)")
          }
          let anna = try await lookUp("480000099990009", of: "anna")
          #expect(anna["code"] == "unknown_transaction", "\(anna)")
          end.fire()
          let last = try await first
          #expect(last["code"] == "unknown_transaction", "\(last)")
          let next = try await lookUp("480000099990001", of: "mallory")
          #expect(next["code"] == "unknown_transaction", "\(next)")
        }
      }
    }
    withExtendedLifetime(authority) {}
  }
}

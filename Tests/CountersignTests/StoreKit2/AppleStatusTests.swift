import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// The Server API's own status of a subscription whose period is over.
@Suite struct AppleStatusTests {
  private static let end = noon - 3_600

  private static func ms(_ date: Date) -> Int64 { Int64(date.timeIntervalSince1970 * 1_000) }

  private static func signed(_ members: [(String, JSON)], at moment: Date = noon) throws -> String {
    try DevelopmentPKI().signedData.sign(
      .object(
        members + [
          ("originalTransactionId", "480000000990001"), ("productId", "com.example.app.pro.monthly"),
          ("environment", "Production"), ("signedDate", .integer(ms(moment))),
        ]))
  }

  private static func transaction(at moment: Date = noon) throws -> String {
    try signed(
      [
        ("transactionId", "480000000990001"), ("bundleId", "com.example.app"), ("type", "Auto-Renewable Subscription"),
        ("subscriptionGroupIdentifier", "21000001"), ("purchaseDate", .integer(ms(end - 30 * 86_400))),
        ("expiresDate", .integer(ms(end))),
      ], at: moment)
  }

  /// Renewal is on, and neither a grace period nor a retry is told.
  private static func answer(_ status: Int) throws -> String {
    let renewal = try signed([("autoRenewProductId", "com.example.app.pro.monthly"), ("autoRenewStatus", 1)])
    return """
      {"environment":"Production","bundleId":"com.example.app","appAppleId":1234567890,"data":\
      [{"subscriptionGroupIdentifier":"21000001","lastTransactions":[{"originalTransactionId":"480000000990001",\
      "status":\(status),"signedTransactionInfo":"\(try transaction())","signedRenewalInfo":"\(renewal)"}]}]}
      """
  }

  @Test(
    arguments: [
      (1, "pro active renewal_due", "2024-06-16T11:00:00Z"), (2, "free expired unknown", "null"),
      (3, "pro grace_period billing_retry", "2024-08-14T11:00:00Z"),
      (4, "pro grace_period billing_grace", "2024-06-16T12:00:00Z"), (5, "free expired refunded", "null"),
    ])
  func `the status alone decides where nothing else says what became of the renewal`(
    status: Int, verdict: String, accessUntil: String
  ) async throws {
    let authority = try TestCertificateAuthority()
    try await SimulatedStore.run { store in
      try await RawTLSServer.answering(
        identity: try authority.serverIdentity(),
        answer: { request in
          guard request.target.hasPrefix("/inApps/v1/subscriptions/") else {
            return .json(
              #"{"environment":"Production","bundleId":"com.example.app","hasMore":false,"signedTransactions":[]}"#)
          }
          return .json(try Self.answer(status))
        }
      ) { server in
        var apple = store.apple(withSecret: false)
        apple.caFile = authority.caFile
        apple.serverAPI?.productionURL = server.origin
        apple.serverAPI?.sandboxURL = server.origin
        try await RunningService.run(apple: apple) { service in
          let answer = try await service.validate(try Self.transaction(at: noon - 60))
          #expect(answer.verdict == verdict && answer["source"] == "server_api", "\(answer.text)")
          #expect(answer["access_until"] == accessUntil)
          #expect(try await service.profile().verdict == verdict)
        }
      }
    }
    withExtendedLifetime(authority) {}
  }

  @Test func `grace that the status alone tells is asked about every six hours, and is over when Apple says so`()
    async throws
  {
    try await World.run(withServerAPI: true, withSecret: false) { world in
      let signed = try world.simulator.issueTransaction(.graceWithoutDate).signedTransaction
      let answer = try await world.service.validate(signed)
      #expect(answer.verdict == "pro grace_period billing_grace", "\(answer.text)")
      #expect(answer["access_until"] == "2024-06-16T12:00:00Z")
      try await world.move(by: 6 * 3_600 + 60)
      try await eventually { try await world.service.profile()["access_until"] == "2024-06-16T18:01:00Z" }
      #expect(try await world.service.profile().verdict == "pro grace_period billing_grace")
      // The sixteen days are over, and the charge is tried on.
      try await world.move(by: 13 * 86_400 - 6 * 3_600)
      try await eventually { try await world.service.profile().verdict == "free expired billing_error" }
      #expect(try await world.service.profile()["stale"] == "false")
    }
  }
}

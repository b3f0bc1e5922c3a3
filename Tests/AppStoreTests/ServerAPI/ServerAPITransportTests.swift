import Entitlements
import TestSupport
import Testing

@testable import AppStore
@testable import HTTPTransport

/// The client over libcurl and TLS, to a server that plays both stores on the loopback.
@Suite struct ServerAPITransportTests {
  @Test(.timeLimit(.minutes(10)))
  func `an ID is looked up in both stores over TLS`() async throws {
    let authority = try TestCertificateAuthority()
    let production = try ServerAPISample.history([], environment: "Sandbox")
    let sandbox = try ServerAPISample.subscriber(environment: "Sandbox")
    let seen = try await RawTLSServer.answering(identity: try authority.serverIdentity()) { request in
      switch request.target.split(separator: "?").first.map(String.init) {
      case "/sandbox/inApps/v1/subscriptions/480002000000112": .json(sandbox)
      case "/sandbox/inApps/v2/history/480002000000112": .json(production)
      default: .json(#"{"errorCode":4040010,"errorMessage":"Transaction id not found."}"#, status: 404)
      }
    } during: { server in
      let transport = try CurlTransport(configuration: .init(caFile: authority.caFile))
      defer { transport.shutdown() }
      var configuration = try ServerAPISample.configuration()
      configuration.productionURL = server.origin
      configuration.sandboxURL = server.origin + "/sandbox/"
      var timing = CallTiming.live
      timing.date = { TestTime.date }
      let client = ServerAPIClient(
        transport: transport, configuration: configuration, verifier: try SignedDataPKI.made.get().verifier(),
        timing: timing)
      let answer = try await client.history(
        of: "480002000000112", bundleIDs: [ServerAPISample.bundleID], includesOneTimePurchases: true,
        deadline: .now + .seconds(60))
      #expect(answer.history.environment == .sandbox)
      #expect(answer.history.purchases.map(\.transactionID) == ["480002000000112"])
      return server.requests
    }
    #expect(
      seen.map(\.target) == [
        "/inApps/v1/subscriptions/480002000000112",
        "/inApps/v2/history/480002000000112?sort=ASCENDING&productType=NON_CONSUMABLE&productType=NON_RENEWABLE",
        "/sandbox/inApps/v1/subscriptions/480002000000112",
        "/sandbox/inApps/v2/history/480002000000112?sort=ASCENDING&productType=NON_CONSUMABLE&productType=NON_RENEWABLE",
      ])
    #expect(seen.allSatisfy { $0.method == "GET" && $0.body.isEmpty })
    #expect(Set(seen.map { $0.header("Authorization") }).count == 1)
    #expect(seen.first?.header("Authorization")?.hasPrefix("Bearer ey") == true)
    #expect(seen.first?.header("Content-Type") == nil)
  }

  @Test(.timeLimit(.minutes(10)))
  func `429 on the wire closes the store until the moment in milliseconds`() async throws {
    let authority = try TestCertificateAuthority()
    let answer = TestAnswer(
      status: 429, headers: [("Retry-After", "1718452860000"), ("Date", "Sat, 15 Jun 2024 12:00:00 GMT")],
      text: #"{"errorCode":4290000,"errorMessage":"Rate limit exceeded."}"#)
    try await RawTLSServer.answering(identity: try authority.serverIdentity()) { _ in
      answer
    } during: { server in
      let transport = try CurlTransport(configuration: .init(caFile: authority.caFile))
      defer { transport.shutdown() }
      var configuration = try ServerAPISample.configuration()
      configuration.productionURL = server.origin
      let client = ServerAPIClient(
        transport: transport, configuration: configuration, verifier: try SignedDataPKI.made.get().verifier(),
        timing: TestTime().timing())
      for _ in 0..<3 {
        await #expect(throws: AppStoreError.self) {
          try await client.transaction("1", bundleIDs: ["a"], deadline: .now + .seconds(60))
        }
      }
      #expect(server.requests.count == 1)
    }
  }
}

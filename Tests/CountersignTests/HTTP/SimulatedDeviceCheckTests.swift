import AppStore
import Cryptography
import HTTPTransport
import Testing

@testable import AppStoreSimulator

/// Our client of DeviceCheck over libcurl, against the simulator that was written apart from it.
@Suite struct SimulatedDeviceCheckTests {
  private func client(_ simulator: RunningSimulator) throws -> DeviceCheck {
    var configuration = CurlTransport.Configuration()
    configuration.caFile = simulator.rootPEMPath
    var timing = CallTiming.live
    timing.date = { simulator.now }
    return DeviceCheck(
      transport: try CurlTransport(configuration: configuration),
      configuration: try DeviceCheck.Configuration(
        teamID: simulator.deviceCheckTeamID, keyID: simulator.deviceCheckKeyID,
        key: ES256PrivateKey(pem: simulator.deviceCheckKeyPEM), productionURL: simulator.deviceCheckURL,
        developmentURL: simulator.deviceCheckDevelopmentURL),
      timing: timing)
  }

  private func token(
    _ simulator: RunningSimulator, _ environment: AppStoreSimulator.StoreEnvironment = .production
  ) throws -> DeviceToken {
    try DeviceToken(simulator.deviceToken(of: "phone-1", environment: environment))
  }

  @Test(arguments: DeviceCheck.Server.allCases)
  func `bits that were never set are set, and read back`(server: DeviceCheck.Server) async throws {
    try await SimulatedStore.run { store in
      let client = try client(store.simulator)
      let environment: AppStoreSimulator.StoreEnvironment = server == .production ? .production : .sandbox
      let other: AppStoreSimulator.StoreEnvironment = server == .production ? .sandbox : .production
      let deadline = ContinuousClock.now + .seconds(60)
      #expect(try await client.query(token(store.simulator, environment), at: server, deadline: deadline) == nil)
      try await client.update(
        token(store.simulator, environment), bit0: true, bit1: false, at: server, deadline: deadline)
      let bits = try #require(
        try await client.query(token(store.simulator, environment), at: server, deadline: deadline))
      #expect(bits.bit0 && !bits.bit1)
      #expect(bits.lastUpdate == "2024-06")
      #expect(store.simulator.deviceBits(of: "phone-1", environment: other) == nil)
      await #expect(throws: DeviceCheckError.tokenRefused) {
        try await client.query(token(store.simulator, other), at: server, deadline: deadline)
      }
      #expect(client.state == .answering)
    }
  }

  @Test func `a token that is late is refused`() async throws {
    try await SimulatedStore.run { store in
      let token = try token(store.simulator)
      store.simulator.advanceClock(by: .seconds(31))
      await #expect(throws: DeviceCheckError.tokenRefused) {
        try await client(store.simulator).update(token, bit0: true, bit1: true, deadline: .now + .seconds(60))
      }
      #expect(store.simulator.deviceBits(of: "phone-1") == nil)
    }
  }

  @Test(arguments: Trouble.allCases.filter { $0.befalls(.deviceCheck) })
  func `no trouble is taken for an answer`(trouble: Trouble) async throws {
    try await SimulatedStore.run { store in
      let client = try client(store.simulator)
      try await client.update(token(store.simulator), bit0: true, bit1: true, deadline: .now + .seconds(60))
      store.simulator.setTrouble(trouble, service: .deviceCheck)
      do throws(DeviceCheckError) {
        let token: DeviceToken
        do { token = try self.token(store.simulator) } catch { throw .cancelled }
        let bits = try await client.query(token, deadline: .now + .seconds(2))
        Issue.record("\(String(describing: bits)) was read in it")
      } catch {
        switch (trouble, error) {
        case (.deviceCheckKeyRefused, .keyRefused), (.deviceCheckTokenRefused, .tokenRefused): break
        case (_, .away): #expect(client.state == .unavailable)
        default: Issue.record("\(error)")
        }
      }
    }
  }

  @Test func `a trouble of one call is got over`() async throws {
    try await SimulatedStore.run { store in
      let client = try client(store.simulator)
      for trouble in [Trouble.http500, .reset, .deviceCheckKeyRefused] {
        store.simulator.setTrouble(trouble, count: 1)
        try await client.update(token(store.simulator), bit0: true, bit1: true, deadline: .now + .seconds(60))
        #expect(client.state == .answering)
      }
      #expect(store.simulator.calls.deviceCheck.total == 6)
    }
  }
}

import CountersignAPI
import Foundation
import Testing

@testable import CountersignClient

/// Requirement 004: a trial of the app's own, with an account and without one.
@Suite struct TrialTests {
  private let bench = Bench()

  @Test func `004 an app without accounts finds its trial after a reinstall`() async throws {
    let begun = try await bench.trials().start("week", device: DeviceRequest(device: .init(model: "iPhone15,2")))
    #expect(begun.state == .running && begun.sessionsRemaining == 30)
    for _ in 0..<5 { try await bench.trials().useSession() }
    // The keychain outlives the app.
    let again = bench.trials()
    #expect(try await again.trial()?.sessionsUsed == 5)
    #expect(try await again.start().startedAt == begun.startedAt)
    #expect(bench.service.trials == ["$device:\(begun.deviceID) 5"])
    #expect(bench.service.requests.allSatisfy { $0.headers["Authorization"] == "Bearer \(FakeService.publicKey)" })
  }

  @Test func `004 a session without a connection is granted, and counted once when the service is back`() async throws {
    let trials = bench.trials()
    try await trials.start()
    bench.service.fail("sessions", .answerLost)
    bench.service.fail("sessions", .unreachable, times: 2)
    for used in 1...3 { #expect(try await trials.useSession().sessionsUsed == used) }
    #expect(await trials.waitingCount == 3)
    #expect(bench.service.trials.first?.hasSuffix(" 1") == true)
    // The app was killed meanwhile.
    let again = bench.trials()
    #expect(try await again.trial()?.sessionsRemaining == 27)
    #expect(await again.waitingCount == 0 && bench.service.trials.first?.hasSuffix(" 3") == true)
  }

  @Test func `004 offline no more sessions are granted than are left`() async throws {
    bench.service.set(trialSessions: 2)
    let trials = bench.trials()
    try await trials.start()
    bench.service.fail("sessions", .unreachable, times: 3)
    #expect(try await trials.useSession().state == .running)
    #expect(try await trials.useSession().state == .usedUp)
    let over = await failure { try await trials.useSession() }
    #expect(over?.localizedDescription == "The free trial is over.")
    #expect(try await trials.trial()?.state == .usedUp)
    #expect(bench.service.trials.first?.hasSuffix(" 2") == true)
  }

  @Test func `004 sessions at the same time count each`() async throws {
    bench.service.set(trialSessions: 30)
    let trials = bench.trials()
    try await trials.start()
    let granted = await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<40 { group.addTask { (try? await trials.useSession()) != nil } }
      return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
    }
    #expect(granted == 30 && bench.service.trials.first?.hasSuffix(" 30") == true)
  }

  @Test func `004 what is repeated after no answer counts once`() async throws {
    let first = bench.trials()
    try await first.start()
    // Another installation without what was kept, but with the device's ID: nothing is known offline.
    let device = try #require(try bench.storage.read("device"))
    let other = Bench()
    try other.storage.write(device, to: "device")
    var options = bench.options()
    options.storage = other.storage
    let trials = bench.trials(options)
    bench.service.fail("sessions", .answerLost)
    #expect(await failure { try await trials.useSession() } == .later(retryAfter: nil))
    #expect(await trials.waitingCount == 0)
    #expect(try await trials.useSession().sessionsUsed == 1)
  }

  @Test func `004 a clock that is set back extends nothing, and time ends a trial offline`() async throws {
    let trials = bench.trials()
    try await trials.start()
    bench.service.fail("", .unreachable, times: 4)
    bench.clock.jump(by: 6 * 86_400)
    #expect(try await trials.useSession().state == .running)
    bench.clock.jump(by: -5 * 86_400)
    #expect(await failure { try await trials.useSession() } == .later(retryAfter: nil))
    bench.clock.jump(by: 6 * 86_400)
    #expect(await failure { try await trials.useSession() }?.localizedDescription == "The free trial is over.")
    #expect(await trials.waitingCount == 1)
  }

  @Test func `004 a sign-in takes the trial along, a second device shares it`() async throws {
    let trials = bench.trials()
    let begun = try await trials.start()
    bench.service.fail("sessions", .unreachable)
    try await trials.useSession()
    let client = bench.client()
    #expect(try await client.startTrial().startedAt == begun.startedAt)
    #expect(client.isAllowed("filters"))
    // The sessions that the device still had to report are counted for the user.
    try await trials.sync()
    #expect(try await client.useTrialSession().sessionsUsed == 2)
    #expect(bench.service.trials == ["\(Bench.user) 2"])

    let second = Bench()
    let shared = bench.client(user: Bench.user, on: second.storage)
    #expect(try await shared.startTrial().sessionsUsed == 2)
    #expect(try await shared.useTrialSession().sessionsUsed == 3)
    #expect(bench.service.trials == ["\(Bench.user) 3"])
    #expect(try await shared.registerDevice(DeviceRequest(pushToken: "push"))?.sessionsUsed == 3)
  }

  @Test func `004 the last session ends access at once`() async throws {
    bench.service.set(trialSessions: 1)
    let client = bench.client()
    try await client.startTrial()
    #expect(client.isAllowed("filters"))
    #expect(try await client.useTrialSession().state == .usedUp)
    #expect(!client.isAllowed("filters"))
    #expect(await failure { try await client.useTrialSession() }?.localizedDescription == "The free trial is over.")
  }

  @Test func `a started client posts the sessions that wait by itself`() async throws {
    let client = bench.client()
    await client.start()
    try await client.startTrial()
    bench.service.fail("sessions", .unreachable)
    try await client.useTrialSession()
    #expect(await client.diagnose().waitingSessions == 1)
    #expect(await eventually { bench.clock.nextWait.map { $0 < 10 } == true })
    bench.clock.advance(by: 7)
    #expect(await eventually { bench.service.trials == ["\(Bench.user) 1"] })
  }

  @Test func `the tokens of DeviceCheck go with the start, and none is no trouble`() async throws {
    var options = bench.options()
    let count = Locked(0)
    options.deviceToken = {
      count.withLock { $0 += 1 }
      return Data("token \(count.withLock { $0 })".utf8)
    }
    try await bench.trials(options).start(device: DeviceRequest(isDevelopment: true))
    let sent = try JSONDecoder.countersign.decode(
      TrialRequest.self, from: Data((bench.service.requests.last?.body ?? "").utf8))
    #expect(sent.deviceToken == Data("token 1".utf8).base64EncodedString())
    #expect(sent.secondDeviceToken == Data("token 2".utf8).base64EncodedString() && sent.isDevelopment == true)
    options.deviceToken = { throw URLError(.unknown) }
    #expect(try await bench.trials(options).start().state == .running)
  }

  @Test func `tokens of DeviceCheck that never come hold up neither the start nor what comes after it`() async throws {
    var options = bench.options()
    let held = Locked<CheckedContinuation<Void, Never>?>(nil)
    options.tokenDeadline = 0.1
    options.deviceToken = {
      await withCheckedContinuation { continuation in held.withLock { $0 = continuation } }
      return nil
    }
    let trials = bench.trials(options)
    #expect(try await trials.start().state == .running)
    #expect(try await trials.trial()?.state == .running)
    held.withLock { $0 }?.resume()
  }

  @Test func `a public key that the service does not know is a refusal, and nobody has to sign in`() async throws {
    let url = try #require(URL(string: "https://countersign.example.com"))
    let trials = TrialClient(baseURL: url, publicKey: "wrong", options: bench.options())
    #expect(await failure { try await trials.start() }?.word == "refused unauthenticated")
    #expect(try await bench.trials().trial() == nil)
    #expect(await failure { try await bench.trials().useSession() }?.word == "refused not_found")
  }

  @Test func `a storage that cannot be read is told, and its sessions are not replaced`() async throws {
    try await bench.trials().start()
    bench.service.fail("sessions", .unreachable)
    try await bench.trials().useSession()
    bench.storage.isBroken = true
    let trials = bench.trials()
    #expect(await failure { try await trials.useSession() } == .storage)
    bench.storage.isBroken = false
    #expect(try await trials.useSession().sessionsUsed == 2)
    #expect(bench.service.trials.first?.hasSuffix(" 2") == true)
  }
}

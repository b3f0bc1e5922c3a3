import Access
import Entitlements
import LedgerFixtures
import Testing

@testable import Ledger

/// Trials, as they are recorded.
@Suite struct TrialTests {
  private static let phone = DeviceID("11111111-1111-4111-8111-111111111111")

  private func start(
    _ user: UserID = "anna", on device: DeviceID = phone, sessions: Int? = nil,
    oncePer: Set<TrialKey> = Set(TrialKey.allCases), isUsedByApple: Bool = false, owesBit: Bool = false,
    at seconds: Double = 0
  ) -> StartTrial {
    StartTrial(
      TrialTerms(name: "week", tier: "pro", length: .seconds(100), sessions: sessions, oncePer: oncePer), user: user,
      device: Device(id: device), isUsedByApple: isUsedByApple, owesBit: owesBit, author: "the app",
      requestID: "start", evaluationContext: reevaluated(at: seconds))
  }

  private func use(
    _ ledger: Ledger, _ user: UserID = "anna", on device: DeviceID = phone, key: String? = nil, at seconds: Double = 1
  ) async throws -> CountSession.Outcome {
    try await ledger.run(
      CountSession(
        of: user, on: device, idempotencyKey: key, requestID: "session", reevaluated(at: seconds)))
  }

  @Test func `a trial begins with its verdict and ends with it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      guard case .started(let trial) = try await ledger.run(start()) else { throw Unexpected() }
      #expect(trial.startedAt == at(0) && trial.endsAt == at(100) && !trial.isEndedEarly)
      let profile = try #require(try await ledger.profile(of: "anna"))
      #expect(profile.entitlement.tier == "pro" && profile.entitlement.reason == .trial)
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 100)) == 1)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
    }
  }

  @Test func `a trial that a clock ahead has ended goes on, and one whose sessions are used does not`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(start())
      _ = try await ledger.run(start("ben", on: "22222222-2222-4222-8222-222222222222", sessions: 1))
      _ = try await use(ledger, "ben", on: "22222222-2222-4222-8222-222222222222")
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 7_200)) == 1)
      #expect(try await ledger.correctGiven(reevaluated(at: 10), tolerance: .zero) == 1)
      #expect(try await ledger.profile(of: "anna")?.entitlement.reason == .trial)
      let trial = try await ledger.trial(of: "anna")
      #expect(trial?.isRunning(at: clock(99)) == true && trial?.isRunning(at: clock(100)) == false)
      #expect(try await ledger.profile(of: "ben")?.entitlement.tier == "free")
      let events = try await ledger.changeEvents(after: 0, limit: 20).filter { $0.user == "anna" }
      #expect(events.map(\.type) == ["trial.started", "trial.expired", "trial.started"])
    }
  }

  @Test func `each key of once_per allows one trial and no second`() async throws {
    try await Scratch.withLedger { ledger, _ in
      guard case .started(let trial) = try await ledger.run(start()) else { throw Unexpected() }
      let tablet: DeviceID = "22222222-2222-4222-8222-222222222222"
      #expect(try await ledger.run(start(at: 200)) == .known(trial))
      #expect(try await ledger.run(start(on: tablet)) == .known(trial))
      #expect(try await ledger.run(start("ben")) == .used(.device))
      #expect(try await ledger.run(start("ben", on: tablet, isUsedByApple: true)) == .used(.device))
      guard case .started = try await ledger.run(start("ben", oncePer: [.user])) else {
        Issue.record("another user may have one on the same device where devices do not count")
        return
      }
      guard case .started = try await ledger.run(start(on: tablet, oncePer: [.device], at: 300)) else {
        Issue.record("the same user may have one on another device where users do not count")
        return
      }
    }
  }

  @Test func `a free period at the App Store refuses a trial after renewals too, and after an erasure`() async throws {
    try await Scratch.withLedger { ledger, _ in
      var free = evidence("1", expires: 100)
      free.purchases[0].isTrial = true
      _ = try await ledger.record(entry("anna", [free], rules: rules))
      // Apple's answer has the last transaction alone.
      _ = try await ledger.record(entry("anna", [evidence("1", time: 110, expires: 200)], rules: rules))
      #expect(try await ledger.profile(of: "anna")?.evidence.flatMap(\.purchases).map(\.isTrial) == [false])
      #expect(try await ledger.run(start(at: 300)) == .used(.storeAccount))
      _ = try await ledger.erase(Erasure(user: "anna", reset: nil, evaluationContext: reevaluated(at: 400)))
      #expect(try await ledger.run(start(at: 500)) == .used(.storeAccount))
      guard case .started = try await ledger.run(start(oncePer: [.user, .device], at: 600)) else { throw Unexpected() }
    }
  }

  @Test func `a session counts once by its key, and the last one ends the trial`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(start(sessions: 2))
      for _ in 0..<3 {
        guard case .counted(let trial) = try await use(ledger, key: "a") else { throw Unexpected() }
        #expect(trial.sessionsRemaining == 1)
      }
      guard case .counted(let last) = try await use(ledger, at: 5) else { throw Unexpected() }
      #expect(last.sessionsRemaining == 0 && last.isEndedEarly && last.endsAt == at(5))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      guard case .over = try await use(ledger, key: "b", at: 6) else { throw Unexpected() }
      #expect(try await ledger.endOverdueGiven(reevaluated(at: 200)) == 0)
      #expect(try await use(ledger, "ben") == .unknown)
    }
  }

  @Test func `more sessions than are known count, fewer do not, and none after the end`() async throws {
    try await Scratch.withLedger { ledger, _ in
      guard case .started(let trial) = try await ledger.run(start(sessions: 5)) else { throw Unexpected() }
      func raise(_ sessions: Int, at seconds: Double) async throws -> TrialRecord {
        try await ledger.run(
          RaiseSessions(
            of: trial, to: sessions, requestID: "claim", reevaluated(at: seconds)))
      }
      #expect(try await raise(3, at: 1).sessionsUsed == 3)
      #expect(try await raise(2, at: 2).sessionsUsed == 3)
      guard case .counted(let used) = try await use(ledger, at: 3) else { throw Unexpected() }
      #expect(used.sessionsUsed == 4)
      let last = try await raise(99, at: 4)
      #expect(last.sessionsUsed == 5 && last.isEndedEarly && last.endsAt == at(4))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      guard case .started(let other) = try await ledger.run(start("ben", on: "22222222-2222-4222-8222-222222222222"))
      else { throw Unexpected() }
      let late = try await ledger.run(RaiseSessions(of: other, to: 7, requestID: "late", reevaluated(at: 100)))
      #expect(late.sessionsUsed == 0)
      #expect(try await ledger.trial(of: "ben")?.sessionsUsed == 0)
    }
  }

  @Test func `running trials and users are counted`() async throws {
    try await Scratch.withLedger { ledger, _ in
      #expect(try await ledger.userCounts(at: clock(0)) == UserCounts(paying: 0, trials: 0, users: 0))
      _ = try await ledger.run(start(sessions: 1))
      _ = try await ledger.run(start("ben", on: "22222222-2222-4222-8222-222222222222"))
      #expect(try await ledger.userCounts(at: clock(1)) == UserCounts(paying: 0, trials: 2, users: 2))
      _ = try await use(ledger, at: 1)
      #expect(try await ledger.userCounts(at: clock(1)).trials == 1)
      #expect(try await ledger.userCounts(at: clock(100)).trials == 0)
    }
  }

  @Test func `a device of the user's shares the trial, and the number of devices is bounded`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.run(start())
      let tablet: DeviceID = "AAAAAAAA-2222-4222-8222-222222222222"
      #expect(try await ledger.trial(on: tablet, of: "anna") == nil)
      try await ledger.keep(Device(id: tablet, model: "iPad"), of: "anna", at: clock(1))
      #expect(try await ledger.trial(on: DeviceID(tablet.rawValue.uppercased()), of: "anna")?.device == Self.phone)
      // The device that was not seen for longest makes room.
      for number in 0..<100 {
        try await ledger.keep(Device(id: DeviceID("d\(number)")), of: "anna", at: clock(Double(2 + number)))
      }
      #expect(try await ledger.trial(on: tablet, of: "anna") == nil)
      #expect(try await ledger.trial(on: "d0", of: "anna")?.device == Self.phone)
    }
  }

  @Test func `a bit that is owed to Apple is settled`() async throws {
    try await Scratch.withLedger { ledger, _ in
      guard case .started(let trial) = try await ledger.run(start(owesBit: true)) else { throw Unexpected() }
      #expect(trial.owesBit)
      try await ledger.settleBit(of: trial.id)
      #expect(try await ledger.trial(of: "anna")?.owesBit == false)
    }
  }

  @Test func `a device on which a shared trial was used gives nobody else one`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let tablet: DeviceID = "22222222-2222-4222-8222-222222222222"
      _ = try await ledger.run(start())
      try await ledger.keep(Device(id: tablet), of: "anna", at: clock(1))
      // Registered alone is not used.
      guard case .started = try await ledger.run(start("cora", on: tablet, oncePer: [.user])) else {
        throw Unexpected()
      }
      let third: DeviceID = "33333333-3333-4333-8333-333333333333"
      try await ledger.keep(Device(id: third), of: "anna", at: clock(1))
      guard case .counted = try await use(ledger, on: third) else { throw Unexpected() }
      #expect(try await ledger.run(start("ben", on: third)) == .used(.device))
    }
  }

  @Test func `a trial that was withdrawn can begin again`() async throws {
    try await Scratch.withLedger { ledger, _ in
      guard case .started(let trial) = try await ledger.run(start()) else { throw Unexpected() }
      try await ledger.withdraw(trial, requestID: "withdraw", reevaluated(at: 1))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      guard case .started = try await ledger.run(start(at: 2)) else { throw Unexpected() }
    }
  }
}

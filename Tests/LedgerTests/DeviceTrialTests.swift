import Access
import Entitlements
import Foundation
import LedgerFixtures
import Testing

@testable import Ledger

/// Trials of devices without accounts, of devices that follow others, from elsewhere and as they are changed, on a clock that
/// has nanoseconds.
@Suite struct DeviceTrialTests {
  private static let phone: DeviceID = "11111111-1111-4111-8111-111111111111"
  private static let tablet: DeviceID = "22222222-2222-4222-8222-222222222222"

  /// A moment of the clock.
  private static func now(_ seconds: Double) -> Date { at(seconds + 0.123456789) }
  private static func context(_ seconds: Double) -> EvaluationContext {
    EvaluationContext(evaluatedAt: now(seconds), recordedAt: now(seconds), rules: rules)
  }

  private func start(
    _ user: UserID? = nil, on device: Device = Device(id: phone), sessions: Int? = nil,
    length: Duration = .seconds(100),
    oncePer: Set<TrialKey> = Set(TrialKey.allCases), at seconds: Double = 0
  ) -> StartTrial {
    StartTrial(
      TrialTerms(name: "week", tier: "pro", length: length, sessions: sessions, oncePer: oncePer),
      user: user ?? device.id.user, device: device, author: "the app", requestID: "start",
      evaluationContext: Self.context(seconds))
  }

  private func session(of user: UserID = "anna", at seconds: Double) -> CountSession {
    CountSession(of: user, on: Self.phone, idempotencyKey: nil, requestID: "session", Self.context(seconds))
  }

  private func begun(_ ledger: Ledger, _ start: StartTrial) async throws -> TrialRecord {
    guard case .started(let trial) = try await ledger.run(start) else { throw Unexpected() }
    return trial
  }

  @Test func `a trial begins at the moment that is recorded, so that its verdict is too`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 0..<50 {
        let user = UserID("user-\(number)")
        let one = start(user, on: Device(id: DeviceID("d\(number)")), at: Double(number) * 0.000_123_457)
        let trial = try await begun(ledger, one)
        #expect(trial.startedAt == trial.startedAt.inWholeMilliseconds)
        #expect(try await ledger.profile(of: user)?.entitlement.reason == .trial)
      }
    }
  }

  @Test func `a trial of 30 sessions counts 30 of 120 at once`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await begun(ledger, start("anna", sessions: 30))
      let counted = try await withThrowingTaskGroup(of: Bool.self) { group in
        for number in 0..<120 {
          group.addTask {
            // All look at the clock before any is written, a part of them with a key.
            let outcome = try await ledger.run(
              CountSession(
                of: "anna", on: Self.phone, idempotencyKey: number.isMultiple(of: 2) ? "k\(number)" : nil,
                requestID: "session", Self.context(Double(number % 3))))
            if case .counted = outcome { return true } else { return false }
          }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(counted == 30)
      let trial = try #require(try await ledger.trial(of: "anna"))
      #expect(trial.sessionsUsed == 30 && trial.isEndedEarly && !trial.isRunning(at: Self.now(0)))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
    }
  }

  // MARK: A device is the user

  @Test func `a device has one trial, and a user who signs in there has it`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let trial = try await begun(ledger, start(sessions: 5))
      #expect(trial.user == "$device:11111111-1111-4111-8111-111111111111")
      #expect(try await ledger.run(start(at: 10)) == .known(trial), "after a reinstall")
      #expect(try await ledger.waitingUpdate(of: trial.user) == nil, "a device has no row")
      guard case .taken(let taken) = try await ledger.run(start("anna", at: 20)) else { throw Unexpected() }
      #expect(taken.id == trial.id && taken.user == "anna" && taken.endsAt == trial.endsAt)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
      #expect(try await ledger.waitingUpdate(of: "anna")?.entitlement.tier == "pro")
      // The app without the user still finds it, and nobody else gets one.
      #expect(try await ledger.run(start(at: 30)) == .known(taken))
      #expect(try await ledger.trial(on: Self.phone, of: Self.phone.user) == taken)
      #expect(try await ledger.run(start("ben", at: 30)) == .used(.device))
      guard case .counted(let used) = try await ledger.run(session(of: Self.phone.user, at: 40)) else {
        throw Unexpected()
      }
      #expect(used.user == "anna" && used.sessionsUsed == 1)
      #expect(try await ledger.meet("anna", at: Self.now(50)).customer.originalID == "anna")
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `keeping the device of a user who signed in brings the trial, too`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await begun(ledger, start())
      #expect(try await ledger.run(KeepDevice(Device(id: Self.phone), of: "anna", requestID: "keep", Self.context(1))))
      #expect(try await !ledger.run(KeepDevice(Device(id: Self.phone), of: "anna", requestID: "keep", Self.context(2))))
      #expect(try await ledger.trial(of: "anna")?.user == "anna")
    }
  }

  @Test func `a user who has had a trial leaves the device its own`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let own = try await begun(ledger, start("anna", on: Device(id: Self.tablet)))
      let devices = try await begun(ledger, start(at: 500))
      #expect(try await ledger.run(start("anna", at: 510)) == .known(own), "never a second one")
      #expect(try await ledger.profile(of: "anna")?.given.map(\.id) == [own.id])
      #expect(try await ledger.trial(on: Self.phone, of: Self.phone.user) == devices)
      // Where users do not count it is theirs.
      guard case .taken = try await ledger.run(start("anna", oncePer: [.device], at: 520)) else { throw Unexpected() }
    }
  }

  @Test func `an erased user's device gets no second trial, and neither does an erased device`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let user: UserID = "anna-of-the-devices"
      _ = try await begun(ledger, start())
      _ = try await ledger.run(start(user, at: 10))
      let names = [user.rawValue, Self.phone.user.rawValue]
      #expect(try await scratch.traces(of: names).count > 1, "or there is nothing to test")
      _ = try await ledger.erase(Erasure(user: user, reset: nil, evaluationContext: Self.context(20)))
      try await ledger.removeTraces()
      let traces = try await scratch.traces(of: names)
      #expect(traces == [])
      #expect(try await ledger.run(start(at: 30)) == .used(.device))
      _ = try await begun(ledger, start(on: Device(id: Self.tablet)))
      _ = try await ledger.erase(Erasure(user: Self.tablet.user, reset: nil, evaluationContext: Self.context(20)))
      #expect(try await ledger.run(start(on: Device(id: Self.tablet), at: 30)) == .used(.device))
      #expect(try await scratch.verify().findings == [])
    }
  }

  // MARK: Successors

  private func device(_ id: DeviceID, _ token: String? = "token", app: BundleID? = "com.example.app") -> Device {
    Device(id: id, app: app, pushToken: token)
  }

  @Test func `a device with the push token of another one shares its trial`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let trial = try await begun(ledger, start(on: device(Self.phone), sessions: 5))
      #expect(try await ledger.run(start(on: device(Self.tablet), at: 10)) == .known(trial))
      #expect(try await ledger.trial(on: Self.tablet, of: Self.tablet.user) == trial)
      // Whoever signs in on either has it; the other one follows.
      guard case .taken(let taken) = try await ledger.run(start("anna", on: device(Self.tablet, nil), at: 20)) else {
        throw Unexpected()
      }
      #expect(try await ledger.trial(on: Self.phone, of: Self.phone.user) == taken)
      #expect(try await ledger.trial(on: Self.tablet, of: Self.tablet.user) == taken)
      #expect(try await ledger.run(start("ben", on: device(Self.tablet, nil), at: 30)) == .used(.device))
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test(
    arguments: [
      ("another token", "other", "com.example.app", 10.0), ("another app", "token", "com.example.other", 10),
      ("31 days later", "token", "com.example.app", 31 * 86_400),
    ] as [(String, String, String, Double)])
  func `it is no successor`(why: String, token: String, app: String, seconds: Double) async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await begun(ledger, start(on: device(Self.phone)))
      _ = try await begun(ledger, start(on: device(Self.tablet, token, app: BundleID(app)), at: seconds))
    }
  }

  @Test func `a successor gives nobody a second trial, with the token or later without it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await begun(ledger, start("anna", on: device(Self.phone)))
      #expect(try await ledger.run(start("ben", on: device(Self.tablet), at: 10)) == .used(.device))
      #expect(try await ledger.run(start("ben", on: device(Self.tablet, nil), at: 20)) == .used(.device))
      // Signed out, the device that follows means whoever has the trial.
      let third: DeviceID = "33333333-3333-4333-8333-333333333333"
      let annas = try #require(try await ledger.trial(of: "anna"))
      #expect(try await ledger.run(start(on: device(third), at: 30)) == .known(annas))
    }
  }

  // MARK: What a former system had, and what is changed

  @Test func `a trial of a former system goes on where it was`() async throws {
    try await Scratch.withLedger { ledger, _ in
      var one = start("anna", sessions: 30, at: 50)
      one.former = FormerTrial(startedAt: at(0), endsAt: at(90), sessionsUsed: 29)
      let trial = try await begun(ledger, one)
      #expect(trial.startedAt == at(0) && trial.endsAt == at(90) && trial.sessionsRemaining == 1)
      #expect(try await ledger.profile(of: "anna")?.entitlement.accessUntil == at(90))
      #expect(try await ledger.run(one) == .known(trial))
      one.user = "ben"
      #expect(try await ledger.run(one) == .used(.device))
      #expect(try await ledger.endOverdueGiven(Self.context(90)) == 1)
    }
  }

  private func amend(
    _ ledger: Ledger, until end: Double? = nil, sessions: Int? = nil, at seconds: Double
  ) async throws -> TrialRecord? {
    try await ledger.run(
      AmendTrial(
        device: Self.phone, user: nil, endsAt: end.map { at($0) }, sessionsTotal: sessions,
        note: Note(author: "desk", text: "why", requestID: "amend", recordedAt: Self.now(seconds)),
        evaluationContext: Self.context(seconds)))
  }

  @Test func `a trial is made longer, and runs again when it was over`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      #expect(try await amend(ledger, until: 500, at: 0) == nil)
      _ = try await begun(ledger, start("anna"))
      #expect(try await amend(ledger, until: 500, at: 10)?.endsAt == at(500))
      #expect(try await ledger.profile(of: "anna")?.entitlement.accessUntil == at(500))
      #expect(try await ledger.endOverdueGiven(Self.context(499)) == 0)
      #expect(try await ledger.endOverdueGiven(Self.context(500)) == 1)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      let again = try #require(try await amend(ledger, until: 900, at: 600))
      #expect(again.isRunning(at: Self.now(600)) && again.endsAt == at(900))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
      #expect(try await ledger.userCounts(at: Self.now(600)).trials == 1)
      let history = try await ledger.wholeHistory(of: "anna")
      #expect(history.count { $0.requestID == "amend" } == 2)
      let events = try await ledger.changeEvents(after: 0, limit: 10).map(\.type)
      #expect(events == ["trial.started", "trial.expired", "trial.started"])
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test func `more sessions let a trial that was used up go on, and as many as were used end one`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await begun(ledger, start("anna", sessions: 1))
      guard case .counted = try await ledger.run(session(at: 10)) else { throw Unexpected() }
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      let more = try #require(try await amend(ledger, sessions: 3, at: 20))
      #expect(more.sessionsRemaining == 2 && more.endsAt == at(100.123) && !more.isEndedEarly)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
      let none = try #require(try await amend(ledger, sessions: 1, at: 30))
      #expect(none.isEndedEarly && none.endsAt == at(30.123))
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      // Its time is over: more sessions are none.
      #expect(try await amend(ledger, sessions: 9, at: 200)?.isRunning(at: Self.now(200)) == false)
    }
  }

  @Test func `a trial that an amendment leaves used up stays over at the next start`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await begun(ledger, start("anna", sessions: 3))
      _ = try await ledger.run(session(at: 10))
      #expect(try await ledger.endOverdueGiven(Self.context(200)) == 1)
      let over = try #require(try await amend(ledger, until: 900, sessions: 1, at: 300))
      #expect(!over.isRunning(at: Self.now(300)) && over.endsAt == at(100.123))
      #expect(try await ledger.correctGiven(Self.context(310), tolerance: .zero) == 0)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "free")
      #expect(try await amend(ledger, sessions: 2, at: 320)?.isRunning(at: Self.now(320)) == true)
      #expect(try await ledger.profile(of: "anna")?.entitlement.tier == "pro")
    }
  }

  @Test func `a trial that support ended is not revived by sessions`() async throws {
    try await Scratch.withLedger { ledger, _ in
      let trial = try await begun(ledger, start("anna", sessions: 5))
      _ = try await ledger.run(
        EndGiven(
          trial.id, of: "anna", note: Note(author: "desk", text: "abuse", requestID: "end", recordedAt: Self.now(5)),
          Self.context(5)))
      #expect(try await amend(ledger, sessions: 9, at: 10)?.isRunning(at: Self.now(10)) == false)
      #expect(try await amend(ledger, until: 50, at: 10)?.isRunning(at: Self.now(10)) == true)
    }
  }

  @Test func `trials are listed page by page, all or those that run`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for number in 0..<5 {
        _ = try await begun(
          ledger,
          start(
            UserID("user-\(number)"), on: Device(id: DeviceID("d\(number)")), length: .seconds(number < 2 ? 10 : 100),
            at: Double(number)))
      }
      func pages(_ now: Date?) async throws -> [[UserID]] {
        var pages: [[UserID]] = []
        var last: GivenPeriod.ID = 0
        while true {
          let page = try await ledger.trials(after: last, runningAt: now, limit: 2)
          guard let end = page.last else { return pages }
          pages.append(page.map(\.user))
          last = end.id
        }
      }
      #expect(try await pages(nil) == [["user-0", "user-1"], ["user-2", "user-3"], ["user-4"]])
      #expect(try await pages(Self.now(50)) == [["user-2", "user-3"], ["user-4"]])
      #expect(try await pages(Self.now(500)).isEmpty)
    }
  }
}

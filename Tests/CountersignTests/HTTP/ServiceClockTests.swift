import Foundation
import HTTPTransport
import Synchronization
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import Countersign
@testable import Validation

/// A machine whose clock jumps ends nobody's access.
@Suite struct ServiceClockTests {
  private let machine = Machine()

  static let year: TimeInterval = 365 * 86_400

  /// A machine: a time of day that can be set, with nanoseconds, and an uptime that only goes on.
  private final class Machine: Sendable {
    private let state: Mutex<(wall: Date, uptime: Duration)>

    init(_ wall: Date = noon) { state = Mutex((wall, .seconds(1000))) }

    func run(for seconds: Double) {
      state.withLock { state in
        state.wall += seconds
        state.uptime += .seconds(seconds)
      }
    }

    var wall: Date { state.withLock { $0.wall } }

    func jump(by seconds: Double) { state.withLock { $0.wall += seconds } }

    var clock: ServiceClock {
      ServiceClock(wall: { self.wall.withNanoseconds }, uptime: { self.state.withLock { $0.uptime } })
    }
  }

  @Test func `the service's clock starts at the machine's time of day and goes on with its uptime`() {
    let clock = machine.clock
    #expect(clock.now == noon)
    machine.run(for: 90)
    #expect(clock.now == noon + 90)
    #expect(clock.skew == nil)
  }

  @Test(arguments: [year, -year, 10 * year, -10 * year, 3600, -3600])
  func `a jump of the machine's clock is told and not followed`(jump: TimeInterval) {
    let clock = machine.clock
    machine.run(for: 60)
    machine.jump(by: jump)
    #expect(clock.now == noon + 60)
    #expect(clock.skew == jump)
    machine.run(for: 60)
    #expect(clock.now == noon + 120)
    // Set right again, nothing is left of it.
    machine.jump(by: -jump)
    #expect(clock.now == noon + 120)
    #expect(clock.skew == nil)
  }

  @Test(arguments: [year, -year, 301, -301])
  func `three answers of Apple's in a row put a wrong start right`(wrong: TimeInterval) {
    let machine = Machine(noon + wrong)
    let clock = machine.clock
    machine.run(for: 10)
    #expect(clock.observe(noon + 10) == nil)
    machine.run(for: 10)
    #expect(clock.observe(noon + 20) == nil)
    #expect(clock.now == noon + wrong + 20)
    #expect(clock.corrections == 0)
    machine.run(for: 10)
    #expect(clock.observe(noon + 30) == wrong)
    #expect(clock.now == noon + 30)
    #expect(clock.corrections == 1)
    #expect(clock.skew == wrong)
    #expect(clock.start == noon)
    machine.run(for: 5)
    #expect(clock.now == noon + 35)
    // It is said once; after that the two agree.
    for _ in 0..<3 { #expect(clock.observe(noon + 35) == nil) }
    #expect(clock.corrections == 1)
    // Only Apple moves this clock: the machine's stays as it is.
    #expect(clock.machineTime == noon + wrong + 35)
  }

  @Test func `a clock is confirmed by one answer that agrees, or after ten minutes, unless the last ones disagree`() {
    let clock = machine.clock
    #expect(!clock.isConfirmed && !clock.isWitnessed)
    #expect(clock.observe(noon + 400) == nil)
    machine.run(for: 600)
    #expect(!clock.isConfirmed)
    #expect(clock.observe(machine.wall) == nil)
    #expect(clock.isConfirmed && clock.isWitnessed)
    #expect(clock.observe(machine.wall - 400) == nil)
    #expect(!clock.isConfirmed && !clock.isWitnessed)
    machine.run(for: 600)
    #expect(clock.isConfirmed, "nobody else said so")
    for _ in 0..<2 { _ = clock.observe(machine.wall - 400) }
    #expect(clock.corrections == 1 && clock.isConfirmed && clock.isWitnessed)
    let alone = machine.clock
    machine.run(for: 599)
    #expect(!alone.isConfirmed)
    machine.run(for: 1)
    #expect(alone.isConfirmed && !alone.isWitnessed)
    #expect(alone.follow(machine.wall) == nil)
    #expect(alone.isWitnessed)
  }

  @Test func `a grant that a wrong clock has ended, or given too late, counts once Apple corrects it`() async throws {
    let directory = try TemporaryDirectory()
    @Sendable func give(_ service: RunningService, _ length: String, user: String) async throws {
      let answer = try await service.send(
        .post, "/v1/profiles/\(user)/grants", body: #"{"tier":"pro","for":"\#(length)"}"#)
      #expect(answer.status == 201)
    }
    try await SimulatedStore.run { store in
      try await RunningService.run(apple: store.apple, directory: directory.url, clock: Machine().clock) { service in
        try await give(service, "1h", user: "before")
      }
      let machine = Machine(noon + 7_200)
      try await RunningService.run(apple: store.apple, directory: directory.url, clock: machine.clock) { service in
        try await give(service, "30d", user: "meanwhile")
        machine.run(for: 600)
        try await eventually { service.log.text.contains("grants and trials ended") }
        for number in 1...3 {
          let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number)).receiptData
          #expect(try await service.validate(receipt, user: "user-\(number)").status == 200)
        }
        for user in ["before", "meanwhile"] {
          try await eventually { try await service.profile(user).verdict == "pro active granted" }
        }
      }
    }
  }

  @Test(arguments: [2 * 86_400, -2 * 86_400] as [TimeInterval])
  func `one server of Apple's with a wrong clock moves nothing`(off: TimeInterval) {
    let clock = machine.clock
    for _ in 0..<20 {
      machine.run(for: 30)
      let right = machine.wall
      #expect(clock.observe(right + off) == nil)
      #expect(clock.observe(right + off) == nil)
      #expect(clock.observe(right) == nil)
    }
    #expect(clock.now == machine.wall)
    #expect(clock.corrections == 0)
  }

  @Test func `answers that disagree with each other move nothing`() {
    let clock = machine.clock
    for off in [900, -900, 1_800, 1_861, -400, 5_000, 900, 961, 1_022] as [TimeInterval] {
      #expect(clock.observe(noon + off) == nil)
    }
    #expect(clock.now == noon)
    // These differ by as much as answers may.
    #expect(clock.observe(noon + 3_000) == nil)
    #expect(clock.observe(noon + 3_060) == nil)
    #expect(clock.observe(noon + 3_030) == -3_030)
  }

  @Test(arguments: [2.5, 86_400, -301, -86_400] as [TimeInterval])
  func `a simulated store's clock is followed from one answer on`(moved: TimeInterval) {
    let machine = Machine(noon + 0.123456789)
    let clock = machine.clock
    #expect(clock.follow(noon) == nil)
    #expect(clock.follow(noon + moved) != nil)
    #expect(clock.now == noon + moved)
    #expect(clock.corrections == 1)
    machine.run(for: 5)
    #expect(clock.now == noon + moved + 5)
    // It says nothing against the machine's.
    #expect(clock.skew == nil)
    #expect(abs(clock.machineTime.timeIntervalSince(noon + 5.123)) < 0.000_1)
  }

  @Test func `a simulated store's clock that stands is left behind by five minutes at most`() {
    let clock = machine.clock
    for _ in 0..<300 {
      machine.run(for: 1)
      #expect(clock.follow(noon) == nil)
    }
    machine.run(for: 1)
    #expect(clock.follow(noon) == 301)
    #expect(clock.now == noon)
  }

  /// Settings of a service that goes by the store's clock.
  private static var following: Settings {
    var settings = Settings()
    settings.appStore["clock"] = "store"
    return settings
  }

  @Test(arguments: [year, -year])
  func `a first transaction of a simulator's counts, whatever the machine's clock says, and a read says the same`(
    wrong: TimeInterval
  ) async throws {
    let machine = Machine(noon + wrong + 0.123456789)
    try await RunningService.besideStore(settings: Self.following, clock: machine.clock) {
      service, store in
      let signed = try store.simulator.issueTransaction(.subscriber, subscriber: 21)
      let answer = try await service.validate(signed.signedTransaction, user: "u2")
      #expect(answer.verdict == "pro active renewing")
      #expect(try await service.profile("u2").verdict == "pro active renewing")
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await service.validate(receipt, user: "u1").verdict == "pro active renewing")
      #expect(try await service.profile("u1").verdict == "pro active renewing")
      #expect(try await service.profile("u1")["stale"] == "false")
      #expect(try await service.send(.get, "/readyz", key: nil)["clock"] == "ok")
    }
  }

  @Test func `a simulator's transaction is taken at once after its clock was moved`() async throws {
    let machine = Machine(noon + 0.123456789)
    // Nothing looks at the clock meanwhile.
    try await RunningService.besideStore(
      settings: Self.following, jobPause: .seconds(3_600), clock: machine.clock
    ) { service, store in
      let first = try store.simulator.issueTransaction(.subscriber, subscriber: 1)
      #expect(try await service.validate(first.signedTransaction, user: "u1").status == 200)
      try store.simulator.deliverNotifications(to: "\(service.origin)/v1/notifications/app-store")
      for _ in 0..<40 { store.simulator.advanceClock(by: .seconds(86_400)) }
      let posts = await store.simulator.deliveries()
      #expect(posts.map(\.notification.type) == ["DID_RENEW"])
      #expect(posts.map(\.status) == [200])
      #expect(try await service.profile("u1")["access_until"] == "2024-08-15T12:00:00Z")
      store.simulator.advanceClock(by: .seconds(20 * 86_400))
      let second = try store.simulator.issueTransaction(.subscriber, subscriber: 2)
      #expect(try await service.validate(second.signedTransaction, user: "u2").verdict == "pro active renewing")
      #expect(!service.log.text.contains("ahead of our clock"))
    }
  }

  @Test func `a simulator's clock that nobody tells about is found, and what is due by it is asked about`() async throws
  {
    let machine = Machine(noon + 0.123456789)
    try await RunningService.besideStore(settings: Self.following, clock: machine.clock) {
      service, store in
      let receipt = try store.simulator.issueReceipt(.renewalOff).receiptData
      #expect(try await service.validate(receipt).verdict == "pro cancelled renewal_off")
      store.simulator.advanceClock(by: .seconds(16 * 86_400))
      try await eventually { try await service.profile().verdict == "free expired voluntary" }
      #expect(try await service.profile()["stale"] == "false")
    }
  }

  @Test(arguments: [0, 1, -1, 300, -300] as [TimeInterval])
  func `differences that clocks have anyway are let be`(difference: TimeInterval) {
    let clock = machine.clock
    #expect(clock.observe(noon - difference) == nil)
    #expect(clock.now == noon)
    machine.jump(by: difference)
    #expect(clock.skew == nil)
  }

  @Test(arguments: [year, -year])
  func `a machine whose clock jumps a year under the running service changes nothing that is read`(
    jump: TimeInterval
  ) async throws {
    try await RunningService.besideStore(clock: machine.clock) { service, store in
      let users: [(String, Scenario)] = [
        ("renewing", .renewing), ("ending", .renewalOff), ("grace", .grace), ("lifetime", .lifetime),
      ]
      var before: [String: String] = [:]
      for (number, (user, scenario)) in users.enumerated() {
        let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData
        #expect(try await service.validate(receipt, user: user).status == 200)
        before[user] = try await service.profile(user).text
      }
      #expect(try await service.send(.get, "/readyz", key: nil)["clock"] == "ok")
      machine.jump(by: jump)
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      for (user, _) in users { #expect(try await service.profile(user).text == before[user]) }
      let ready = try await service.send(.get, "/readyz", key: nil)
      #expect(ready.status == 200)
      #expect(ready["clock"] == "off")
      let metrics = try await service.send(.get, "/metrics", key: nil).text
      #expect(metrics.contains("countersign_clock_skew_seconds \(Int(jump))\n"))
    }
  }

  @Test func `a service that starts with a wrong clock goes by Apple's from the third answer`() async throws {
    let machine = Machine(noon + Self.year)
    try await RunningService.besideStore(clock: machine.clock) { service, store in
      // Each verdict goes by the time in Apple's own answer.
      for number in 1...3 {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number)).receiptData
        #expect(try await service.validate(receipt, user: "user-\(number)").verdict == "pro active renewing")
      }
      for number in 1...3 {
        let read = try await service.profile("user-\(number)")
        #expect(read.verdict == "pro active renewing")
        #expect(read["stale"] == "false")
      }
      #expect(try await service.send(.get, "/readyz", key: nil)["clock"] == "off")
      // The store is not Apple's own, so it is no alarm.
      let reported = service.log.lines.filter { $0.contains("the store's clock differs from the machine's") }
      #expect(reported.count == 1)
      #expect(
        reported.allSatisfy { $0.contains(#""level":"notice""#) && $0.contains(#""machine":"365 days ahead""#) })
    }
  }

  @Test(arguments: [2 * 86_400, -2 * 86_400] as [TimeInterval])
  func `users' tokens go by the machine's clock, whatever Apple's says`(off: TimeInterval) async throws {
    var settings = Settings()
    settings.jwt = ["secret": TokenMint.secret]
    try await RunningService.besideStore(at: noon + off, settings: settings, clock: Machine().clock) {
      service, store in
      let user = "00000000-0000-4000-8000-000000000001"
      let good = try TokenMint.user(user, at: noon)
      let expired = try TokenMint.user(user, at: noon - 7_200)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      for _ in 0..<4 { #expect(try await service.post(["receipt_data": receipt], key: good).status == 200) }
      // Apple's clock counts by now for verdicts, and for nothing else.
      #expect(try await service.send(.get, "/readyz", key: nil)["clock"] == "off")
      #expect(try await service.profile("me", key: good).status == 200)
      #expect(try await service.profile("me", key: expired).status == 401)
    }
  }

  @Test(
    arguments: [
      (26_871_165.77, "311 days ahead"), (-7_300, "2 hours behind"), (301, "5 minutes ahead"),
      (-119, "119 seconds behind"),
      (1e300, "1000000000 days ahead"),
    ])
  func `a clock that Apple puts right is an error, in words for people`(ahead: Double, text: String) {
    let log = CapturedLog()
    ClockCorrection(ahead: ahead, byApple: true).log(log.logger)
    #expect(log.lines.count == 1)
    #expect(log.text.contains(#""level":"error""#) && log.text.contains("the machine's clock is wrong"))
    #expect(log.text.contains(#""machine":"\#(text)""#), "\(log.text)")
  }
}

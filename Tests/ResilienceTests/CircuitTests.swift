import SeededRandom
import Testing

@testable import Resilience

@Suite struct CircuitTests {
  private let bench = Bench()

  typealias Instant = ContinuousClock.Instant
  typealias Outcome = CircuitBreaker.Outcome

  /// A circuit and the time it is told. Jitter takes the whole range unless told otherwise.
  private final class Bench {
    let start = Instant.now
    var now: Instant
    var circuit: Circuit
    var jitter = 1.0

    init(_ configuration: CircuitBreaker.Configuration = .init()) {
      now = start
      circuit = Circuit(configuration, at: start)
    }

    var state: CircuitBreaker.State { circuit.state(at: now) }

    func wait(_ duration: Duration) { now += duration }

    func admit() -> Circuit.Ticket? {
      if case .admitted(let ticket) = circuit.admit(at: now) { ticket } else { nil }
    }

    func retryIn() -> Duration? {
      if case .refused(let retryIn) = circuit.admit(at: now) { retryIn } else { nil }
    }

    func report(_ outcome: Outcome, _ ticket: Circuit.Ticket) {
      circuit.report(outcome, for: ticket, at: now) { [jitter] in $0 * jitter }
    }

    /// Calls, one after the other.
    ///
    /// - Returns: how many were let through.
    @discardableResult func call(_ outcome: Outcome, times: Int = 1) -> Int {
      var admitted = 0
      for _ in 0..<times {
        guard let ticket = admit() else { continue }
        admitted += 1
        report(outcome, ticket)
      }
      return admitted
    }
  }

  @Test func `five failures at once open it, and nothing is let through for a second`() {
    bench.call(.failure(), times: 4)
    #expect(bench.state == .closed)
    bench.call(.failure())
    #expect(bench.state == .open)
    #expect(bench.retryIn() == .seconds(1))
    bench.wait(.milliseconds(999))
    #expect(bench.retryIn() == .milliseconds(1))
    bench.wait(.milliseconds(1))
    #expect(bench.state == .halfOpen)
    #expect(bench.admit()?.isProbe == true)
    #expect(bench.circuit.counts.refused == 2 && bench.circuit.counts.opened == 1 && bench.circuit.counts.probes == 1)
  }

  @Test(arguments: [(4, 5, true), (5, 5, true), (6, 5, false), (100, 64, false), (100, 99, false), (100, 100, true)])
  func `failures amid successes open it when they are half of what was judged`(
    _ successes: Int, _ failures: Int, _ opens: Bool
  ) {
    bench.call(.success, times: successes)
    bench.call(.failure(), times: failures)
    #expect((bench.state == .open) == opens)
  }

  @Test func `five in a row open it however slowly they come`() {
    for _ in 0..<4 {
      bench.call(.failure())
      bench.wait(.seconds(60))
    }
    #expect(bench.state == .closed)
    bench.call(.failure())
    #expect(bench.state == .open)
  }

  @Test(arguments: [Duration.zero, .milliseconds(500), .seconds(11), .seconds(3600)])
  func `one reporter does not open a circuit, at whatever pace, and five do`(pace: Duration) {
    for _ in 0..<1_000 {
      bench.call(.failure(reporter: "mallory"))
      bench.wait(pace)
    }
    #expect(bench.state == .closed)
    // Amid the calls of others, too.
    for _ in 0..<1_000 {
      bench.call(.success)
      bench.call(.failure(reporter: "mallory"), times: 3)
      bench.wait(pace)
    }
    #expect(bench.state == .closed)
    bench.wait(.seconds(20))
    bench.call(.success)
    for user in ["anna", "ben", "cleo", "dora", "emil"] {
      #expect(bench.state == .closed)
      bench.call(.failure(reporter: user))
    }
    #expect(bench.state == .open)
  }

  @Test func `a reporter's failures add to those that are nobody's fault`() {
    bench.call(.failure(), times: 4)
    bench.call(.failure(reporter: "anna"))
    #expect(bench.state == .open)
  }

  @Test func `a probe of a reporter who was heard already leaves its place to the next call`() {
    for user in ["anna", "ben", "cleo", "dora", "emil"] { bench.call(.failure(reporter: user)) }
    bench.wait(.seconds(1))
    bench.call(.failure(reporter: "anna"))
    #expect(bench.state == .halfOpen)
    bench.call(.failure(reporter: "fred"))
    #expect(bench.state == .open)
    bench.wait(.seconds(2))
    bench.call(.success)
    #expect(bench.state == .closed)
  }

  @Test func `slow failures with a success between them do not open it`() {
    for _ in 0..<10 {
      bench.call(.failure(), times: 4)
      bench.call(.success)
      bench.wait(.seconds(60))
    }
    #expect(bench.circuit.counts.opened == 0)
  }

  @Test func `outcomes older than the window are forgotten`() {
    var bench = Bench()
    bench.call(.success, times: 1000)
    bench.wait(.seconds(10))
    bench.call(.failure(), times: 5)
    #expect(bench.state == .open)
    bench = Bench()
    bench.call(.success, times: 1000)
    bench.wait(.seconds(9))
    bench.call(.failure(), times: 5)
    #expect(bench.state == .closed)
  }

  @Test func `neutral outcomes neither open it nor water down failures`() {
    bench.call(.neutral, times: 1000)
    #expect(bench.state == .closed)
    bench.call(.failure(), times: 5)
    #expect(bench.state == .open)
  }

  @Test(arguments: [
    (1.0, [1000, 2000, 4000, 8000, 16000, 30000, 30000]), (0.0, [500, 1000, 2000, 4000, 8000, 15000, 15000]),
    (99.0, [1000, 2000, 4000, 8000, 16000, 30000, 30000]), (-99.0, [500, 1000, 2000, 4000, 8000, 15000, 15000]),
  ])
  func `the pause doubles with every failed probe, within bounds that no chance can leave`(
    _ jitter: Double, _ milliseconds: [Int]
  ) throws {
    bench.jitter = jitter
    bench.call(.failure(), times: 5)
    for expected in milliseconds {
      #expect(bench.retryIn() == .milliseconds(expected))
      bench.wait(.milliseconds(expected))
      let probe = try #require(bench.admit())
      bench.report(.failure(), probe)
    }
  }

  @Test func `a successful probe closes it and resets everything`() throws {
    bench.call(.failure(), times: 5)
    bench.wait(.seconds(1))
    bench.call(.failure(retryAfter: .seconds(50)))
    bench.wait(.seconds(50))
    bench.call(.success)
    #expect(bench.state == .closed)
    bench.call(.failure(), times: 4)
    #expect(bench.state == .closed)
    bench.call(.failure())
    #expect(bench.retryIn() == .seconds(1))
  }

  @Test func `a circuit lets one probe through at a time`() throws {
    bench.call(.failure(), times: 5)
    bench.wait(.seconds(1))
    let probe = try #require(bench.admit())
    #expect(bench.retryIn() == .seconds(1))
    #expect(bench.call(.success, times: 10) == 0)
    bench.report(.success, probe)
    #expect(bench.call(.success, times: 10) == 10)
  }

  @Test func `a probe that says nothing gives its place to the next call`() throws {
    bench.call(.failure(), times: 5)
    bench.wait(.seconds(1))
    #expect(bench.call(.neutral, times: 3) == 3)
    #expect(bench.state == .halfOpen)
    #expect(bench.circuit.counts.opened == 1)
  }

  @Test func `a probe that never reports is replaced, and is not heard later`() throws {
    bench.call(.failure(), times: 5)
    bench.wait(.seconds(1))
    let lost = try #require(bench.admit())
    bench.wait(.milliseconds(14_999))
    #expect(bench.admit() == nil)
    bench.wait(.milliseconds(1))
    let next = try #require(bench.admit())
    bench.report(.success, lost)
    #expect(bench.state == .halfOpen)
    bench.report(.success, next)
    #expect(bench.state == .closed)
  }

  @Test(arguments: [Outcome.success, .failure(), .neutral])
  func `a call from before it opened counts neither as the probe nor after it closed`(_ outcome: Outcome) throws {
    let early = try (0..<64).map { _ in try #require(bench.admit()) }
    bench.call(.failure(), times: 5)
    bench.report(outcome, early[0])
    #expect(bench.state == .open)
    bench.wait(.seconds(1))
    let probe = try #require(bench.admit())
    bench.report(outcome, early[1])
    #expect(bench.state == .halfOpen)
    #expect(bench.admit() == nil)
    bench.report(.success, probe)
    for ticket in early.dropFirst(2) { bench.report(outcome, ticket) }
    #expect(bench.state == .closed)
    #expect(bench.circuit.counts.opened == 1)
  }

  @Test(arguments: [(20, 20), (60, 60), (3600, 60)])
  func `a circuit stays open as long as the service asked for, within a minute`(_ asked: Int, _ pause: Int) {
    bench.call(.failure(retryAfter: .seconds(asked)))
    bench.call(.failure(), times: 4)
    #expect(bench.retryIn() == .seconds(pause))
  }

  @Test func `a wish that was followed by a success is void`() {
    bench.call(.failure(retryAfter: .seconds(50)))
    bench.call(.success)
    bench.call(.failure(), times: 5)
    #expect(bench.retryIn() == .seconds(1))
  }

  // MARK: Random histories

  @Test func `no random history leaves the circuit shut for ever, or lets two probes out at once`() {
    let configuration = CircuitBreaker.Configuration()
    var steps = 0
    var probes = 0
    for seed in UInt64(0)..<200 {
      var dice = SeededRandom(seed: seed)
      let bench = Bench(configuration)
      var out: [Circuit.Ticket] = []
      var probe: (ticket: Circuit.Ticket, since: Instant)?
      /// Since when nothing was let through and no probe was out.
      var shutSince: Instant?
      for _ in 0..<400 {
        steps += 1
        bench.jitter = Double.random(in: 0...1, using: &dice)
        switch Int.random(in: 0..<10, using: &dice) {
        case 0..<4:
          let before = bench.state
          let ticket = bench.admit()
          switch before {
          case .closed: #expect(ticket.map { !$0.isProbe } == true, "seed \(seed)")
          case .open: #expect(ticket == nil, "seed \(seed): let through while open")
          case .halfOpen:
            if let ticket {
              #expect(ticket.isProbe, "seed \(seed)")
              if let probe {
                #expect(bench.now - probe.since >= configuration.probeTimeout, "seed \(seed): two probes at once")
              }
              probe = (ticket, bench.now)
              probes += 1
            } else {
              #expect(probe != nil, "seed \(seed): nobody is let through although no probe is out")
            }
          }
          if let ticket {
            out.append(ticket)
            shutSince = nil
          } else if probe == nil {
            shutSince = shutSince ?? bench.now
            if let shutSince {
              #expect(bench.now - shutSince < configuration.longestRetryAfter, "seed \(seed): shut for ever")
            }
          }
        case 4..<8:
          guard !out.isEmpty else { continue }
          let ticket = out.remove(at: Int.random(in: 0..<out.count, using: &dice))
          let before = bench.state
          let isOurProbe = probe?.ticket == ticket
          let outcome: Outcome =
            switch Int.random(in: 0..<8, using: &dice) {
            case 0: .success
            case 1: .neutral
            case 2: .failure(retryAfter: .seconds(Int.random(in: 0...100, using: &dice)))
            default: .failure()
            }
          bench.report(outcome, ticket)
          if isOurProbe {
            probe = nil
            switch outcome {
            case .success: #expect(bench.state == .closed, "seed \(seed)")
            case .neutral: #expect(bench.state == .halfOpen, "seed \(seed)")
            case .failure: #expect(bench.state == .open, "seed \(seed)")
            }
          } else if before != .closed {
            #expect(bench.state == before, "seed \(seed): a call that is not the probe changed the state")
          } else {
            #expect(bench.state != .halfOpen, "seed \(seed)")
          }
        default:
          bench.wait(.milliseconds(Int.random(in: 0...8000, using: &dice)))
        }
      }
    }
    #expect(probes > 1000, "the histories reach the half-open state")
    print("circuit: 200 histories, \(steps) steps, \(probes) probes, no rule broken")
  }

  /// The most probes in an outage: the shortest pauses, one after the other.
  private static func mostProbes(in outage: Duration) -> Int {
    var passed = Duration.zero
    var pause = Duration.milliseconds(500)
    var probes = 0
    while passed + pause <= outage {
      passed += pause
      probes += 1
      pause = min(pause * 2, .seconds(15))
    }
    return probes
  }

  @Test(arguments: [1, 10, 60])
  func `calls during an outage are bounded by a formula, whatever is asked for`(_ minutes: Int) {
    let outage = Duration.seconds(60 * minutes)
    let bound = 5 + Self.mostProbes(in: outage)
    var most = 0
    for seed in UInt64(0)..<UInt64(SeededRandom.cases(20)) {
      var dice = SeededRandom(seed: seed)
      let bench = Bench()
      var calls = 0
      var asked = 0
      while bench.now - bench.start <= outage {
        bench.jitter = seed == 0 ? 0 : Double.random(in: 0...1, using: &dice)
        calls += bench.call(.failure())
        asked += 1
        bench.wait(.milliseconds(10))
      }
      #expect(asked == minutes * 6000 + 1)
      #expect(calls <= bound)
      most = max(most, calls)
    }
    print("circuit: outage of \(minutes) min, 100 validations/s: at most \(most) calls, bound \(bound)")
  }
}

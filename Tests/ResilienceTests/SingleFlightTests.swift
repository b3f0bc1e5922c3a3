import TestSupport
import Testing

@testable import Resilience

@Suite struct SingleFlightTests {
  @Test func `callers who ask while a flight is on share its answer, and the next one begins anew`() async {
    let flights = SingleFlight<String, Int>()
    let runs = ConcurrencyCounter()
    let gate = Event()
    await withTaskGroup(of: Int.self) { group in
      for _ in 0..<50 {
        group.addTask {
          await flights.run("a") {
            await gate.wait()
            runs.begin()
            return runs.total
          }
        }
      }
      while flights.waiting(for: "a") < 50 { await Task.yield() }
      gate.fire()
      for await answer in group { #expect(answer == 1) }
    }
    #expect(flights.waiting(for: "a") == 0)
    #expect(await flights.run("a") { 2 } == 2)
  }

  @Test func `different keys fly apart`() async {
    let flights = SingleFlight<String, String>()
    async let a = flights.run("a") { "a" }
    async let b = flights.run("b") { "b" }
    #expect(await [a, b] == ["a", "b"])
  }

  @Test func `a flight goes on when its first caller leaves, and ends when the last one does`() async {
    let flights = SingleFlight<String, String>()
    let gate = Event()
    let first = Task { await flights.run("a") { await Self.outcome(gate) } }
    while flights.waiting(for: "a") < 1 { await Task.yield() }
    let second = Task { await flights.run("a") { "never begun" } }
    while flights.waiting(for: "a") < 2 { await Task.yield() }
    first.cancel()
    while flights.waiting(for: "a") > 1 { await Task.yield() }
    gate.fire()
    #expect(await second.value == "finished")

    let closed = Event()
    let lonely = Task { await flights.run("b") { await Self.outcome(closed) } }
    while flights.waiting(for: "b") < 1 { await Task.yield() }
    lonely.cancel()
    while flights.waiting(for: "b") > 0 { await Task.yield() }
    closed.fire()
    #expect(await lonely.value == "cancelled")
  }

  private static func outcome(_ gate: Event) async -> String {
    await gate.wait()
    return Task.isCancelled ? "cancelled" : "finished"
  }
}
